"""Elementwise ops: each pair of edge values of each element."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import onnx

from tests.frontends.onnx.semantics.case import OPSET, Array, Case
from tests.frontends.onnx.semantics.edges import edges, type_name
from tests.fuzz.rows.elementwise import ROWS

ELSEWHERE = frozenset(
    "Cast CastLike Clip DequantizeLinear DynamicQuantizeLinear QuantizeLinear Where".split()
)
"""Ops of ``casts.py`` and ``selection.py``."""

_PAIRS = ("Max", "Min", "Mean", "Sum")
"""Ops of any number of operands, of which two are taken."""
_SUMS = ("Mean", "Sum")
"""Ops whose intermediate sums may overflow: the largest numbers are left out."""
_UNSIGNED = frozenset(
    ["Celu", "Elu", "Gelu", "LeakyRelu", "Max", "Min", "PRelu", "Relu", "Selu", "Sign", "Sum"]
)
"""Ops whose zeros have no defined sign, or another one in the oracle."""


def _int_power(x: Array, y: Array) -> Array:
    """Powers modulo the type's range; those of negative exponents are rounded towards zero."""
    bits = 8 * x.dtype.itemsize

    def power(a: int, b: int) -> int:
        if b < 0:
            return a ** (b % 2) if abs(a) == 1 else 0
        return pow(a, b, 1 << bits)

    pairs = np.broadcast(x, y)
    numbers = [power(int(a), int(b)) % (1 << bits) for a, b in pairs]
    return np.array(numbers, f"u{x.dtype.itemsize}").view(x.dtype).reshape(pairs.shape)


def _prelu(x: Array, slope: Array) -> Array:
    return np.where(x >= 0, x, x * slope)


def _mean(x: Array, y: Array) -> Array:
    return ((x.astype(np.float64) + y.astype(np.float64)) / 2).astype(x.dtype)


def _oracle(op: str, dtype: np.dtype[Any]) -> Any:
    if op == "Pow" and dtype.kind in "iu":
        return _int_power
    return {"PRelu": _prelu, "Mean": _mean}.get(op)


def cases(dtype: np.dtype[Any]) -> Iterator[Case]:
    """Each op of the fuzzer's table that takes an element."""
    for row in ROWS:
        schema = onnx.defs.get_schema(row.op, OPSET)
        if row.op in ELSEWHERE or type_name(dtype) not in schema.inputs[0].types:
            continue
        if row.op == "Shrink" and dtype.itemsize == 8 and dtype.kind in "iu":
            continue  # tests/frontends/onnx/test_numbers.py: oracles compute in float64
        numbers = edges(dtype)
        if row.op in _SUMS:
            numbers = _moderate(numbers)
        operands = [numbers]
        if schema.min_input > 1 or row.op in _PAIRS:
            operands = [numbers[:, None], numbers]
        for attributes in _variants(row.attributes):
            yield Case(
                row.op,
                operands,
                {name: x for name, x in attributes.items() if name in schema.attributes},
                outputs=row.outputs,
                wanted=_oracle(row.op, dtype),
                epsilon=4 * row.epsilon,
                signed=row.op not in _UNSIGNED,
            )


def _moderate(numbers: Array) -> Array:
    """All numbers but the largest."""
    return numbers[np.abs(numbers) != ml_dtypes.finfo(numbers.dtype).max]


def _variants(choices: Any) -> Iterator[dict[str, Any]]:
    """All values of each attribute, beside some of the others."""
    for i in range(max(map(len, choices.values()), default=1)):
        yield {name: values[i % len(values)] for name, values in choices.items()}
