"""The record of the prices by which kernels were picked for an op."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import DictionaryAttr, FloatAttr, f64

from tessella.dialects.nn.core import NnOp

PRICED = "nn.prices"
"""The attribute of an op that has the prices of its candidates, where a function gave them."""


def record_prices(op: NnOp, prices: Mapping[str, float]) -> None:
    """Record prices by candidate, such as `conv at x86/f32/nhwc`, on an op."""
    listed = {name: FloatAttr(price, f64) for name, price in sorted(prices.items())}
    op.attributes[PRICED] = DictionaryAttr(listed)


def recorded_prices(op: NnOp) -> Mapping[str, float]:
    """Return the prices that are recorded on an op; empty if there are none."""
    record = op.attributes.get(PRICED)
    entries = record.data.items() if isinstance(record, DictionaryAttr) else ()
    return {name: price.value.data for name, price in entries if isinstance(price, FloatAttr)}
