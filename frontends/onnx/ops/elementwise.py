"""Functions of one tensor: activations, conversions of type, tests of single elements."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.nn.core import dtype_of, is_float, shape_of
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.model import DTYPES
from tessella.frontends.onnx.registry import Converter, Rule, converts
from tessella.frontends.onnx.tensors import element_name
from tessella.runtime.elements import widened
from tessella.runtime.host.elementwise import ROWS


def _unary(op: type[nn.NnOp], names: Mapping[str, str]) -> Converter:
    """An op whose properties are attributes of these names."""
    return lambda call: call.emit(op, call.x, **{k: call.number(v) for k, v in names.items()})


for _name, _row in ROWS.items():
    if _row.onnx is not None and _row.kind in ("unary", "float", "predicate", "boolean"):
        _names = {k: _row.onnx.attributes.get(k, k) for k in _row.parameters}
        converts(_row.onnx.name, _row.onnx.first, _row.onnx.last)(_unary(nn.OPS[_name], _names))


@converts("Erf", 9, 13)
def erf(call: Call) -> SSAValue:
    """Of integers too, whose results are cut off."""
    dtype = dtype_of(call.x.type)
    wide = call.x if is_float(call.x.type) else call.cast(call.x, np.float32)
    return call.cast(call.emit(nn.ErfOp, wide), dtype)


@converts("IsInf", 10, 20)
def is_inf(call: Call) -> SSAValue:
    """One sign alone is an infinity that compares."""
    negative, positive = call.flag("detect_negative"), call.flag("detect_positive")
    infinite = call.emit(nn.IsInfOp, call.x)
    if negative and positive:
        return infinite
    if not negative and not positive:
        return call.build.splat(False, shape_of(call.x), np.bool_)
    side = nn.GreaterOp if positive else nn.LessOp
    return call.emit(nn.AndOp, infinite, call.emit(side, call.x, call.scalar(0, call.x)))


@converts("Gelu", 20, 20)
def gelu(call: Call) -> SSAValue:
    """Exact, or with tanh."""
    approximate = call.choice("approximate", "none", "tanh")
    return call.emit(nn.GeluTanhOp if approximate == "tanh" else nn.GeluOp, call.x)


@converts("Mish", 18, 22)
def mish(call: Call) -> SSAValue:
    """x * tanh(softplus(x))."""
    return call.emit(nn.MulOp, call.x, call.emit(nn.TanhOp, call.emit(nn.SoftplusOp, call.x)))


@converts("Swish", 24, 24)
def swish(call: Call) -> SSAValue:
    """x * sigmoid(alpha * x)."""
    alpha = call.number("alpha")
    if alpha == 1:
        return call.emit(nn.SiluOp, call.x)
    scaled = call.emit(nn.MulOp, call.x, call.scalar(alpha, call.x))
    return call.emit(nn.MulOp, call.x, call.emit(nn.SigmoidOp, scaled))


@converts("PRelu", 1, 16)
def prelu(call: Call) -> SSAValue:
    """x where x >= 0, slope * x below; before version 7 a slope for each channel."""
    x, slope = call.x, call.operand(1)
    rank, size = len(shape_of(x)), shape_of(slope)
    if call.version < 7 and len(size) == 1 and size[0] > 1 and rank > 1:
        slope = call.reshape(slope, (*size, *[1] * (rank - 2)))
    below = call.emit(nn.LessOp, x, call.scalar(0, x))
    return call.emit(nn.WhereOp, below, call.emit(nn.MulOp, x, slope), x)


@converts("Clip", 1, 13)
def clip(call: Call) -> SSAValue:
    """Bounds that are known are properties of `nn.clip`; others are operands of min and max."""
    if call.version < 11:
        low, high = (call.attribute(name) for name in ("min", "max"))
        return _clip(call, low, high)
    low, high = (_bound(call, i) for i in (1, 2))
    if not isinstance(low, SSAValue) and not isinstance(high, SSAValue):
        return _clip(call, low, high)
    x = call.x
    for i, op in ((1, nn.MaxOp), (2, nn.MinOp)):
        bound = call.optional(i)
        if bound is not None:
            x = call.emit(op, x, call.reshape(bound, ()))
    return x


def _clip(call: Call, low: float | None, high: float | None) -> SSAValue:
    return call.emit(
        nn.ClipOp,
        call.x,
        low=-math.inf if low is None else float(low),
        high=math.inf if high is None else float(high),
    )


def _bound(call: Call, index: int) -> float | SSAValue | None:
    """A bound as a number where a float64 holds it, else as it is."""
    value = call.optional(index)
    array = None if value is None else call.build.static(value)
    if array is None or array.size != 1:
        return value
    number = widened(array).reshape(-1)[0].item()
    return float(number) if float(number) == number else value


@converts(
    "Cast",
    1,
    28,
    Rule("to types that tessella has", lambda node: _foreign(node.attributes.get("to", 1))),
)
def cast(call: Call) -> SSAValue:
    """Version 1 names the type with a word, later ones with a number."""
    return call.cast(call.x, DTYPES[_target(call.attribute("to"))])


@converts("CastLike", 15, 25)
def cast_like(call: Call) -> SSAValue:
    """The type of the second operand."""
    return call.cast(call.x, dtype_of(call.operand(1).type))


def _target(to: int | str) -> str:
    if isinstance(to, int):
        return element_name(to)
    return {"float": "float32", "double": "float64"}.get(to.lower(), to.lower())


def _foreign(to: int | str) -> str | None:
    name = _target(to)
    return None if name in DTYPES else f"type {name} is not supported"


@converts("Dropout", 1, 22, note="inference only")
def dropout(call: Call) -> tuple[SSAValue, SSAValue]:
    """The identity, and a mask that keeps everything."""
    if _trains(call):
        call.unsupported("dropout in training mode, which is random")
    mask_type = np.bool_ if call.version >= 10 else dtype_of(call.x.type)
    return call.x, call.build.splat(True, shape_of(call.x), mask_type)


def _trains(call: Call) -> bool:
    if call.version < 7:
        return not call.flag("is_test") and call.number("ratio") != 0
    if call.version < 12 or call.optional(2) is None:
        return False
    if not call.static(2, "training_mode").any():
        return False
    ratio = call.static(1, "ratio") if call.optional(1) is not None else np.float32(0.5)
    return bool(np.any(ratio != 0))


@converts("Where", 9, 16)
def where(call: Call) -> SSAValue:
    """Element by element."""
    return call.emit(nn.WhereOp, *call.operands())


@converts("Shrink", 9, 9)
def shrink(call: Call) -> SSAValue:
    """x + bias below -lambd, x - bias above lambd, 0 between."""
    bias, lambd = call.number("bias"), call.number("lambd")
    if not is_float(call.x.type):
        return _shrink_integers(call, bias, lambd)
    x, zero = call.x, call.scalar(0, call.x)
    shift, bound = (call.cast(_single(call, n), dtype_of(x.type)) for n in (bias, lambd))
    above = call.emit(nn.GreaterOp, x, bound)
    below = call.emit(nn.LessOp, x, call.emit(nn.NegOp, bound))
    upper = call.emit(nn.WhereOp, above, call.emit(nn.SubOp, x, shift), zero)
    return call.emit(nn.WhereOp, below, call.emit(nn.AddOp, x, shift), upper)


def _single(call: Call, value: float) -> SSAValue:
    return call.build.splat(value, (), np.float32)


def _shrink_integers(call: Call, bias: float, lambd: float) -> SSAValue:
    """As for floats, exactly: the sum is rounded towards zero, and wraps around."""
    dtype = dtype_of(call.x.type)
    x = call.cast(call.x, dtype if dtype == np.uint64 else np.int64)
    whole, bound = _floor(bias), _floor(lambd)
    upper, lower = (_added(call, x, term) for term in (-whole, whole))
    if bias != whole:
        # the fraction moves a sum to the next integer, unless it passes zero
        upper = _where_above(call, x, whole, _added(call, upper, -1), upper)
        lower = _where_below(call, x, -whole, _added(call, lower, 1), lower)
    zero = call.scalar(0, x)
    shrunk = _where_above(call, x, bound, upper, zero)
    return call.cast(_where_below(call, x, -bound, lower, shrunk), dtype)


def _floor(value: float) -> int:
    """The next integer below, or one that no integer of 64 bits reaches."""
    return math.floor(max(-(2.0**64), min(2.0**64, value)))


def _added(call: Call, x: SSAValue, term: int) -> SSAValue:
    wrapped = np.array(term % (1 << 64), np.uint64).astype(dtype_of(x.type)).item()
    return call.emit(nn.AddOp, x, call.scalar(wrapped, x)) if wrapped else x


def _where_above(call: Call, x: SSAValue, bound: int, a: SSAValue, b: SSAValue) -> SSAValue:
    return call.emit(nn.WhereOp, call.emit(nn.GreaterOp, x, _limit(call, x, bound)), a, b)


def _where_below(call: Call, x: SSAValue, bound: int, a: SSAValue, b: SSAValue) -> SSAValue:
    return call.emit(nn.WhereOp, call.emit(nn.LessOp, x, _limit(call, x, bound)), a, b)


def _limit(call: Call, x: SSAValue, bound: int) -> SSAValue:
    """The number that elements are compared with, as near as their type comes to it."""
    limits = np.iinfo(dtype_of(x.type))
    return call.scalar(max(int(limits.min), min(int(limits.max), bound)), x)
