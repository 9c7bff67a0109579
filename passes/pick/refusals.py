"""The record of fusions that were possible in a function but rejected."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.dialects.func import FuncOp

from tessella.runtime.explain_types import RefusedFusion

REFUSED = "nn.refused"
"""The attribute of a function that lists the fusions that were possible but rejected."""


def record_refusals(function: FuncOp, refusals: Sequence[RefusedFusion]) -> None:
    """Add refusals to the record of a function."""
    if refusals:
        listed = [*refusals_of(function), *refusals]
        function.attributes[REFUSED] = ArrayAttr(map(_record, listed))


def _record(refusal: RefusedFusion) -> DictionaryAttr:
    texts = (refusal["pattern"], refusal["op"], refusal["node"], refusal["reason"])
    consumed = ArrayAttr(map(StringAttr, refusal["consumed"]))
    named = zip(("pattern", "op", "node", "reason"), map(StringAttr, texts), strict=True)
    return DictionaryAttr({**dict(named), "consumed": consumed})


def refusals_of(function: FuncOp) -> list[RefusedFusion]:
    """Return the fusions that were possible in a function but rejected."""
    listed = function.attributes.get(REFUSED)
    records = listed if isinstance(listed, ArrayAttr) else ()
    return [_refusal(record) for record in records if isinstance(record, DictionaryAttr)]


def _refusal(record: DictionaryAttr) -> RefusedFusion:
    consumed = record.data.get("consumed")
    names = consumed if isinstance(consumed, ArrayAttr) else ()
    return {
        "op": _text(record, "op"),
        "node": _text(record, "node"),
        "pattern": _text(record, "pattern"),
        "consumed": [name.data for name in names if isinstance(name, StringAttr)],
        "reason": _text(record, "reason"),
    }


def _text(record: DictionaryAttr, name: str) -> str:
    text = record.data.get(name)
    return text.data if isinstance(text, StringAttr) else ""
