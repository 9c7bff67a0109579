"""Converters of elementwise ops: activations, type conversions, tests of elements."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tessella.dialects import nn
from tessella.dialects.nn.core import element_type
from tessella.frontends.emitter import Value, where
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.casts import converted
from tessella.frontends.onnx.model import DTYPES
from tessella.frontends.onnx.registry import Converter, Rule, converts, known_type
from tessella.frontends.onnx.tensors import element_name
from tessella.runtime.elements import widened
from tessella.runtime.host.elementwise import ROWS

_UNARY = ("unary", "float", "part", "predicate", "boolean", "bits")


def _unary(op: type[nn.NnOp], names: Mapping[str, str]) -> Converter:
    """Return a converter to the op ``op``. ``names`` maps its properties to the node's
    attributes."""
    return lambda call: call.x.op(op, **{k: call.number(v) for k, v in names.items()})


for _name, _row in ROWS.items():
    if _row.onnx is not None and _row.kind in _UNARY:
        _names = {k: _row.onnx.attributes.get(k, k) for k in _row.parameters}
        _registered = converts(
            _row.onnx.name, _row.onnx.first, _row.onnx.last, complex=_row.complex
        )
        _registered(_unary(nn.OPS[_name], _names))


@converts("Erf", 9, 13)
def erf(call: Call) -> Value:
    """Emit erf. The results for integers are truncated to integers."""
    wide = call.x if call.x.is_float else call.x.cast(np.float32)
    return wide.op(nn.ErfOp).cast(call.x.dtype)


@converts("IsInf", 10, 20)
def is_inf(call: Call) -> Value:
    """Emit a test for infinity of the signs that the attributes select."""
    negative, positive = call.flag("detect_negative"), call.flag("detect_positive")
    infinite = call.x.op(nn.IsInfOp)
    if negative and positive:
        return infinite
    if not negative and not positive:
        return call.build.splat(False, call.x.shape, np.bool_)
    return infinite & (call.x > 0 if positive else call.x < 0)


@converts("Gelu", 20, 20)
def gelu(call: Call) -> Value:
    """Emit GELU, in the exact form or the tanh approximation."""
    approximate = call.choice("approximate", "none", "tanh")
    return call.x.op(nn.GeluTanhOp if approximate == "tanh" else nn.GeluOp)


@converts("Swish", 24, 24)
def swish(call: Call) -> Value:
    """Emit x * sigmoid(alpha * x)."""
    return swish_of(call.x, call.number("alpha"))


def swish_of(x: Value, alpha: float) -> Value:
    """Emit x * sigmoid(alpha * x)."""
    return x.op(nn.SiluOp) if alpha == 1 else x * (x * alpha).op(nn.SigmoidOp)


@converts("PRelu", 1, 16)
def prelu(call: Call) -> Value:
    """Emit PReLU: x where x >= 0, slope * x elsewhere."""
    x, slope = call.x, call.operand(1)
    return where(x < 0, x * slope, x)


@converts("Clip", 1, 13)
def clip(call: Call) -> Value:
    """Emit a clip to bounds. Known bounds are properties of `nn.clip`; others are operands of
    maximum and minimum."""
    low, high = (_bound(call, i) for i in (1, 2))
    if not isinstance(low, Value) and not isinstance(high, Value):
        low, high = -math.inf if low is None else low, math.inf if high is None else high
        return call.x.op(nn.ClipOp, low=low, high=high)
    x = call.x
    for i, op in ((1, nn.MaxOp), (2, nn.MinOp)):
        bound = call.optional(i)
        if bound is not None:
            x = x.op(op, bound.reshape(()))
    return x


def _bound(call: Call, index: int) -> float | Value | None:
    """Return a bound of Clip as a number if it is known and a float64 represents it, otherwise as a
    value; None if it is absent."""
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
    complex=True,
)
def cast(call: Call) -> Value:
    """Convert elements to the type that the attribute ``to`` names: by a word in version 1, by a
    number in later versions."""
    return converted(call, call.x, DTYPES[_target(call.attribute("to"))])


@converts("CastLike", 15, 25, complex=True)
def cast_like(call: Call) -> Value:
    """Emit a conversion to the second operand's type."""
    return converted(call, call.x, call.operand(1).dtype)


@converts("BitCast", 26, 26, known_type("to"))
def bit_cast(call: Call) -> Value:
    """Emit a reinterpretation of the bits as the type that the attribute ``to`` names."""
    return call.x.op(nn.BitcastOp, to=element_type(DTYPES[element_name(call.integer("to"))]))


def _target(to: int | str) -> str:
    if isinstance(to, int):
        return element_name(to)
    return {"float": "float32", "double": "float64"}.get(to.lower(), to.lower())


def _foreign(to: int | str) -> str | None:
    name = _target(to)
    return None if name in DTYPES else f"type {name} is not supported"


@converts("Where", 9, 16)
def where_(call: Call) -> Value:
    """Emit a selection: the second operand's elements where the condition is true, otherwise the
    third's."""
    return where(call.operand(0), call.operand(1), call.operand(2))


@converts("Shrink", 9, 9)
def shrink(call: Call) -> Value:
    """Emit Shrink: x + bias where x < -lambd, x - bias where x > lambd, and 0 in between."""
    bias, lambd = call.number("bias"), call.number("lambd")
    if not call.x.is_float:
        return _shrink_integers(call.x, bias, lambd)
    x = call.x
    shift, bound = (call.build.splat(n, (), np.float32).cast(x.dtype) for n in (bias, lambd))
    return where(x < -bound, x + shift, where(x > bound, x - shift, 0))


def _shrink_integers(given: Value, bias: float, lambd: float) -> Value:
    """Emit Shrink of integers exactly: the sum is rounded towards zero, and wraps."""
    x = given if given.dtype == np.uint64 else given.cast(np.int64)
    whole, bound = _floor(bias), _floor(lambd)
    upper, lower = (_added(x, term) for term in (-whole, whole))
    if bias != whole:
        # Truncation turns the fraction of the bias into 1 on one side of zero, and into 0 on the
        # other.
        upper = where(x > _limit(x, whole), _added(upper, -1), upper)
        lower = where(x < _limit(x, -whole), _added(lower, 1), lower)
    shrunk = where(x > _limit(x, bound), upper, 0)
    return where(x < _limit(x, -bound), lower, shrunk).cast(given.dtype)


def _floor(value: float) -> int:
    """Return the greatest integer that is at most ``value``, or for a value out of range ±2^64,
    which is beyond all 64-bit integers."""
    return math.floor(max(-(2.0**64), min(2.0**64, value)))


def _added(x: Value, term: int) -> Value:
    wrapped = np.array(term % (1 << 64), np.uint64).astype(x.dtype).item()
    return x + wrapped if wrapped else x


def _limit(x: Value, bound: int) -> int:
    """Return the bound that elements of ``x`` are compared with, clamped to the range of their
    type."""
    limits = np.iinfo(x.dtype)
    return max(int(limits.min), min(int(limits.max), bound))
