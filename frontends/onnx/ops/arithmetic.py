"""Converters of arithmetic, comparisons and logic on several tensors."""

from __future__ import annotations

from functools import reduce

import numpy as np

from tessella.dialects import nn
from tessella.dialects.nn.traits import TakesComplex
from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.registry import Converter, converts
from tessella.runtime.host.elementwise import ROWS

_VARIADIC: dict[str, tuple[type[nn.NnOp], int, int]] = {
    "Max": (nn.MaxOp, 1, 13),
    "Min": (nn.MinOp, 1, 13),
    "Sum": (nn.AddOp, 1, 13),
}


def _binary(op: type[nn.NnOp]) -> Converter:
    return lambda call: call.operand(0).op(op, call.operand(1))


def _variadic(op: type[nn.NnOp]) -> Converter:
    return lambda call: _folded(call, op)


def _folded(call: Call, op: type[nn.NnOp]) -> Value:
    return reduce(lambda x, y: x.op(op, y), call.operands())


for _name, _row in ROWS.items():
    if _row.onnx is not None and _row.kind in ("binary", "comparison", "logic", "bitwise"):
        _registered = converts(
            _row.onnx.name, _row.onnx.first, _row.onnx.last, complex=_row.complex
        )
        _registered(_binary(nn.OPS[_name]))
for _name, (_op, _first, _last) in _VARIADIC.items():
    converts(_name, _first, _last, complex=_op.has_trait(TakesComplex))(_variadic(_op))


@converts("Mean", 1, 13, complex=True)
def mean(call: Call) -> Value:
    """Emit the mean of the operands: their sum divided by their number."""
    total, count = _folded(call, nn.AddOp), len(call.inputs)
    return total if count == 1 else total / count


@converts("Pow", 1, 15, complex=True)
def power(call: Call) -> Value:
    """Emit a power. The result has the type of the base, whatever the type of the exponent."""
    base, exponent = call.operand(0), call.operand(1)
    if base.dtype == exponent.dtype:
        return base**exponent
    # If an integer base has a floating-point exponent, the power is computed in float64 and
    # truncated at the end.
    is_whole = not base.is_float and not base.is_complex
    wide = np.float64 if exponent.is_float and is_whole else base.dtype
    return (base.cast(wide) ** exponent.cast(wide)).cast(base.dtype)


@converts("Mod", 10, 28)
def modulo(call: Call) -> Value:
    """Emit a remainder with the sign of the divisor, or with the attribute ``fmod`` that of the
    dividend."""
    return call.operand(0).op(nn.FmodOp if call.flag("fmod") else nn.ModOp, call.operand(1))


@converts("BitShift", 11, 28)
def shift(call: Call) -> Value:
    """Emit a shift of integers in the attribute's direction."""
    left = call.choice("direction", "LEFT", "RIGHT") == "LEFT"
    return call.operand(0).op(nn.BitLeftOp if left else nn.BitRightOp, call.operand(1))
