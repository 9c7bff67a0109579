"""Arithmetic, comparisons and logic of several tensors, with the broadcasting of each version."""

from __future__ import annotations

from functools import reduce

import numpy as np
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.nn.core import dtype_of, is_float, shape_of
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.registry import Converter, converts
from tessella.runtime.host.elementwise import ROWS
from tessella.support.errors import ShapeError

_VARIADIC: dict[str, tuple[type[nn.NnOp], int, int]] = {
    "Max": (nn.MaxOp, 1, 13),
    "Min": (nn.MinOp, 1, 13),
    "Sum": (nn.AddOp, 1, 13),
}


def legacy_broadcast(call: Call) -> tuple[SSAValue, SSAValue]:
    """Both operands; before version 7 the right one fits the left one at ``axis``, if at all."""
    lhs, rhs = call.operand(0), call.operand(1)
    if call.version >= 7:
        return lhs, rhs
    left, right = shape_of(lhs), shape_of(rhs)
    if not call.flag("broadcast"):
        if left != right:
            raise ShapeError(
                "shapes differ and the attribute broadcast is not set",
                expected=str(left),
                found=str(right),
            )
        return lhs, rhs
    if call.attribute("axis") is None:
        return lhs, rhs
    axis = front_axis(call.integer("axis"), len(left))
    after = len(left) - axis - len(right)
    if after < 0:
        raise ShapeError("the right operand does not fit at the attribute axis", found=str(axis))
    return lhs, call.reshape(rhs, (*right, *[1] * after))


def _binary(op: type[nn.NnOp]) -> Converter:
    return lambda call: call.emit(op, *legacy_broadcast(call))


def _variadic(op: type[nn.NnOp]) -> Converter:
    return lambda call: _folded(call, op)


def _folded(call: Call, op: type[nn.NnOp]) -> SSAValue:
    return reduce(lambda x, y: call.emit(op, x, y), call.operands())


for _name, _row in ROWS.items():
    if _row.onnx is not None and _row.kind in ("binary", "comparison", "logic"):
        converts(_row.onnx.name, _row.onnx.first, _row.onnx.last)(_binary(nn.OPS[_name]))
for _name, (_op, _first, _last) in _VARIADIC.items():
    converts(_name, _first, _last)(_variadic(_op))


@converts("Mean", 1, 13)
def mean(call: Call) -> SSAValue:
    """The sum of the operands over their number."""
    total = _folded(call, nn.AddOp)
    count = len(call.inputs)
    return total if count == 1 else call.emit(nn.DivOp, total, call.scalar(count, total))


@converts("Pow", 1, 15)
def power(call: Call) -> SSAValue:
    """The result has the base's type, whatever the exponent's."""
    base, exponent = legacy_broadcast(call)
    types = dtype_of(base.type), dtype_of(exponent.type)
    if types[0] == types[1]:
        return call.emit(nn.PowOp, base, exponent)
    # a whole base with a broken exponent has a broken power, which is cut to a whole number at last
    wide = types[0]
    if is_float(exponent.type) and not is_float(base.type):
        wide = np.dtype(np.float64)
    result = call.emit(nn.PowOp, call.cast(base, wide), call.cast(exponent, wide))
    return call.cast(result, types[0])


@converts("Mod", 10, 28)
def modulo(call: Call) -> SSAValue:
    """The sign of the divisor, or with ``fmod`` of the dividend."""
    return call.emit(nn.FmodOp if call.flag("fmod") else nn.ModOp, *call.operands())
