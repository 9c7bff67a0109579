"""Ops on single elements."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from onnx import TensorProto

from tests.fuzz.elements import CODES, FLOATS, INTEGERS, Array
from tests.fuzz.graphs import Draft, Row, has_infinite, has_large, has_nan

Draw = Callable[[Draft], None]

ALPHAS = (0.0, 0.1, 0.5, 1.0, 2.0, -0.5)


def unary(low: float = -math.inf, high: float = math.inf) -> Draw:
    """A unary op, with operands in a range of numbers."""

    def into(a: Array) -> Array:
        if a.dtype.kind == "b" or (low, high) == (-math.inf, math.inf):
            return a
        return np.clip(np.abs(a) if low >= 0 else a, low, high).astype(a.dtype)

    def draw(d: Draft) -> None:
        d.pick(lambda a: d.sketch.odd or bool(np.all((a >= low) & (a <= high))), numbers=into)

    return draw


def partner(d: Draft, x: Array, numbers: Callable[[Array], Array] = lambda a: a) -> Array:
    """Another operand that broadcasts with x: a value, or a new one with some sizes of 1."""

    def broadcasts(a: Array) -> bool:
        try:
            size = math.prod(np.broadcast_shapes(a.shape, x.shape))
        except ValueError:
            return False
        return size <= 2500

    plain = numbers is _same
    return d.pick(broadcasts if plain else lambda a: False, lambda: flattened(d, x.shape), numbers)


def _same(a: Array) -> Array:
    return a


def flattened(d: Draft, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to this one."""
    if d.chance(40):
        return shape
    cut = d.between(0, len(shape))
    return tuple(1 if d.chance(40) else n for n in shape[cut:])


def binary(d: Draft) -> None:
    x = d.pick()
    partner(d, x, _same)


def away_from_zero(a: Array) -> Array:
    if a.dtype.kind == "f":
        return np.where(np.abs(a) < 0.25, np.float64(0.75), a)
    return np.where(a == 0, a.dtype.type(3), a)


def divide(d: Draft) -> None:
    x = d.pick()
    if d.coin() or x.dtype.kind != "f":
        partner(d, x, away_from_zero)
    else:
        partner(d, x, _same)


def modulo(d: Draft) -> None:
    x = d.pick()
    if x.dtype.kind == "f":
        d.set("fmod", 1)
    partner(d, x, away_from_zero)


def shift(d: Draft) -> None:
    x = d.pick()
    partner(d, x, lambda a: np.asarray(a % np.asarray(8, a.dtype), a.dtype))


def variadic(d: Draft) -> None:
    x = d.pick()
    for _ in range(d.one_of(0, 1, 1, 2, 3)):
        partner(d, x, _same)


def power(d: Draft) -> None:
    positive = d.coin()
    x = d.pick(lambda a: not positive or bool(np.all(a > 0)), numbers=lambda a: np.abs(a) + 1)
    whole = np.all(x == np.round(x)) if x.dtype.kind == "f" else True
    choices = (0.5, 2, 3, -1, 1.5) if positive or np.all(x > 0) else (1, 2, 3, 2)

    def exponents(a: Array) -> Array:
        numbers = (
            choices if a.dtype.kind == "f" and not (x.dtype.kind != "f" and whole) else (0, 1, 2, 3)
        )
        return np.asarray(np.random.default_rng(a.size).choice(numbers, a.shape), a.dtype)

    partner(d, x, exponents)


def prelu(d: Draft) -> None:
    x = d.pick()
    shape = flattened(d, x.shape)
    d.pick(lambda a: a.shape == shape, lambda: shape)


def where(d: Draft) -> None:
    condition = d.pick()
    x = d.pick(lambda a: a.ndim <= 4, lambda: flattened(d, condition.shape))
    partner(d, x, _same)


def clip(d: Draft) -> None:
    d.pick()
    low = d.one_of(-3, -1, 0, 0)
    if "min" in d.schema.attributes:
        d.set("min", float(low))
        d.set("max", 2.0)
        return
    for bound in (max(low, 0) if _is_unsigned(d) else low, d.one_of(2, 6)):
        if d.chance(25):
            d.skip()
        elif d.coin():
            d.constant(np.asarray(bound))
        else:
            d.new((), lambda a, bound=bound: np.asarray(bound, a.dtype))


def _is_unsigned(d: Draft) -> bool:
    return d.operands[0].array.dtype.kind == "u"


def castable(a: Array, code: int) -> bool:
    """Return whether all numbers of an array have a place in an element type."""
    if a.dtype.kind != "f" or code in FLOATS or code == TensorProto.BOOL:
        return True
    low, high = (0, 100) if code in INTEGERS[4:] else (-100, 100)
    with np.errstate(all="ignore"):
        return bool(np.all((a >= low) & (a <= high)))


def cast(d: Draft) -> None:
    code = d.one_of(*FLOATS, *CODES)
    d.set("to", code)
    x = d.pick(lambda a: castable(a, code), numbers=lambda a: np.clip(a, 0, 9).astype(a.dtype))
    d.require(castable(x, code))


def cast_like(d: Draft) -> None:
    x = d.pick(lambda a: castable(a, INTEGERS[4]))
    d.require(castable(x, INTEGERS[4]))
    d.pick()


def mask(d: Draft) -> None:
    """Dropout as it is without training."""
    d.pick()
    d.outputs = d.between(1, 2)


def quantize(d: Draft) -> None:
    x = d.pick(lambda a: bool(np.all(np.abs(a) < 100)))
    shape = _scales(d, x)
    scale = _positive(d, shape)
    if d.operands[0].code not in FLOATS and d.opset >= 19:
        d.constant(np.ceil(scale), d.operands[0].code)
    else:
        d.constant(scale, d.operands[0].code if d.opset >= 19 else None, rounds=True)
    _zero_point(d, shape, (TensorProto.UINT8, TensorProto.INT8))


def _has_no_quotient(a: Array) -> bool:
    """Return whether onnx.reference converts numbers to int32 that are none."""
    return has_large(a) or has_infinite(a)


def dequantize(d: Draft) -> None:
    x = d.pick(lambda a: a.dtype.kind in "iu")
    d.require(d.operands[0].code in (TensorProto.UINT8, TensorProto.INT8, TensorProto.INT32))
    shape = _scales(d, x)
    d.constant(_positive(d, shape), TensorProto.FLOAT, rounds=True)
    if d.operands[0].code != TensorProto.INT32:
        _zero_point(d, shape, (d.operands[0].code,))


def _positive(d: Draft, shape: tuple[int, ...]) -> Array:
    rng = np.random.default_rng(d.random.getrandbits(32))
    return np.asarray(rng.choice([0.25, 0.5, 1.0, 2.0, 0.1], shape))


def _scales(d: Draft, x: Array) -> tuple[int, ...]:
    """Return one scale, or one for each slice along an axis."""
    if "axis" not in d.schema.attributes or x.ndim == 0 or d.coin():
        return ()
    axis = d.between(-x.ndim, x.ndim - 1)
    d.set("axis", axis)
    return (x.shape[axis],)


def _zero_point(d: Draft, shape: tuple[int, ...], codes: tuple[int, ...]) -> None:
    if d.chance(30):
        return
    code = d.one_of(*codes)
    d.constant(np.full(shape, d.between(0, 5)), code)


FREE = (
    "Abs Atan Asinh Ceil Floor IsNaN Mish Neg Relu Round Sigmoid Sign Sin "
    "Cos Softplus Softsign Tanh Identity Not"
).split()
EXACT = ("Abs", "Ceil", "Floor", "IsNaN", "Neg", "Relu", "Round", "Sign", "Identity", "Not")
RANGES = {
    "Acos": (-1, 1),
    "Acosh": (1, 50),
    "Asin": (-1, 1),
    "Atanh": (-0.9, 0.9),
    "Cosh": (-9, 9),
    "Exp": (-20, 9),
    "Log": (1e-3, math.inf),
    "Sinh": (-9, 9),
    "Sqrt": (0, math.inf),
    "Tan": (-1.4, 1.4),
}
SINGLE = 2.0**-23
"""The oracle's constants, or functions, are of float32."""
BITWISE = "BitwiseAnd BitwiseOr BitwiseXor".split()
LOGICAL = "And Or Xor Equal Greater GreaterOrEqual Less LessOrEqual".split()


def has_almost_whole_erf(a: Array) -> bool:
    """Return whether the error function of an integer is 1 in bf16 and below 1 in f32, so that the
    integer part is another."""
    return a.dtype.kind in "iu" and bool((np.abs(a.astype(np.float64)) > 2).any())


ROWS = (
    *(Row(op, unary(), exact=op in EXACT) for op in FREE),
    Row("Erf", unary(), epsilon=SINGLE, unclear=has_almost_whole_erf),
    Row("HardSwish", unary(), epsilon=SINGLE),
    *(Row(op, unary(*reach)) for op, reach in RANGES.items()),
    Row("Reciprocal", unary(0.1, 50)),
    Row("Celu", unary(), {"alpha": (0.5, 1.0, 2.0)}),
    Row("Elu", unary(), {"alpha": ALPHAS}),
    Row("Gelu", unary(), {"approximate": ("none", "tanh")}, epsilon=SINGLE),
    Row("HardSigmoid", unary(), {"alpha": ALPHAS, "beta": ALPHAS}),
    Row("IsInf", unary(), {"detect_negative": (0, 1), "detect_positive": (0, 1)}, exact=True),
    Row("LeakyRelu", unary(), {"alpha": ALPHAS}),
    Row("Selu", unary(), {"alpha": ALPHAS, "gamma": ALPHAS}),
    Row("Shrink", unary(), {"bias": ALPHAS, "lambd": (0.0, 0.5, 1.0)}, unclear=has_large),
    Row("Swish", unary(), {"alpha": ALPHAS}),
    Row("ThresholdedRelu", unary(), {"alpha": (0.5, 1.0)}, exact=True),
    Row("Dropout", mask, {"ratio": (0.1, 0.5)}, exact=True),
    *(Row(op, binary, exact=True) for op in LOGICAL),
    *(Row(op, binary, exact=True) for op in BITWISE),
    Row("BitwiseNot", unary(), exact=True),
    Row("BitShift", shift, {"direction": ("LEFT", "RIGHT")}, exact=True),
    *(Row(op, binary) for op in ("Add", "Mul", "Sub")),
    Row("Div", divide),
    Row("Mod", modulo, {"fmod": (0, 1)}),
    Row("Pow", power, unclear=has_large),
    *(Row(op, variadic, exact=True, unclear=has_nan) for op in ("Max", "Min")),
    *(Row(op, variadic) for op in ("Mean", "Sum")),
    Row("PRelu", prelu),
    Row("Where", where, exact=True),
    Row("Clip", clip, exact=True, unclear=has_nan),
    Row("Cast", cast),
    Row("CastLike", cast_like),
    Row("QuantizeLinear", quantize, unclear=_has_no_quotient),
    Row("DequantizeLinear", dequantize),
    Row("DynamicQuantizeLinear", unary(-50, 50), outputs=3, inside=True, unclear=has_infinite),
)
