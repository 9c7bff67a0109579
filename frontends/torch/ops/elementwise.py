"""Converters of elementwise ops: tables of ops that are an op of `nn`, and formulas."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from tessella.dialects import nn
from tessella.frontends.emitter import DType, Emitter, Value, where
from tessella.frontends.torch.promote import (
    Operand,
    floating,
    is_whole,
    lifted,
    promoted,
    result_dtype,
)
from tessella.frontends.torch.registry import Converter, aten, refuse

Table = Mapping[str, type[nn.NnOp]]

FLOATS: Table = {
    "exp": nn.ExpOp,
    "log": nn.LogOp,
    "sqrt": nn.SqrtOp,
    "reciprocal": nn.ReciprocalOp,
    "tanh": nn.TanhOp,
    "erf": nn.ErfOp,
    "sigmoid": nn.SigmoidOp,
    "silu": nn.SiluOp,
    "mish": nn.MishOp,
    "hardswish": nn.HardSwishOp,
    **{
        name: nn.OPS[name]
        for name in "log2 log10 sin cos tan asin acos atan sinh cosh asinh acosh atanh".split()
    },
}
"""Functions of one float, to which integers are converted."""

NUMBERS: Table = {"abs": nn.AbsOp, "neg": nn.NegOp, "sign": nn.SignOp, "relu": nn.ReluOp}
"""Functions of one number of any type."""

ROUNDINGS: Table = {"floor": nn.FloorOp, "ceil": nn.CeilOp, "round": nn.RoundOp}
"""Functions that change no integer."""

BINARY: Table = {
    "mul.Tensor": nn.MulOp,
    "mul.Scalar": nn.MulOp,
    "maximum": nn.MaxOp,
    "minimum": nn.MinOp,
    "fmod.Tensor": nn.FmodOp,
    "fmod.Scalar": nn.FmodOp,
    "remainder.Tensor": nn.ModOp,
    "remainder.Scalar": nn.ModOp,
    "remainder.Scalar_Tensor": nn.ModOp,
    "pow.Tensor_Tensor": nn.PowOp,
    "pow.Tensor_Scalar": nn.PowOp,
    "pow.Scalar": nn.PowOp,
}
"""Functions of two numbers of their common type."""

COMPARISONS: Table = {
    "eq": nn.EqualOp,
    "lt": nn.LessOp,
    "le": nn.LessEqualOp,
    "gt": nn.GreaterOp,
    "ge": nn.GreaterEqualOp,
}

LOGIC: Table = {"logical_and": nn.AndOp, "logical_or": nn.OrOp, "logical_xor": nn.XorOp}

BITS: Mapping[str, tuple[type[nn.NnOp], type[nn.NnOp]]] = {
    "bitwise_and": (nn.AndOp, nn.OPS["bit_and"]),
    "bitwise_or": (nn.OrOp, nn.OPS["bit_or"]),
    "bitwise_xor": (nn.XorOp, nn.OPS["bit_xor"]),
}
"""The op on booleans, and the op on integers."""

_LOGICAL: Mapping[type[nn.NnOp], type[nn.NnOp]] = {
    nn.MulOp: nn.AndOp,
    nn.MaxOp: nn.OrOp,
    nn.MinOp: nn.AndOp,
    nn.AddOp: nn.OrOp,
}
"""The op on booleans that equals an op on the numbers 0 and 1."""


def _float(op: type[nn.NnOp]) -> Converter:
    def convert(emit: Emitter, x: Operand) -> Value:
        return floating(emit, x)[0].op(op)

    return convert


def _number(op: type[nn.NnOp]) -> Converter:
    def convert(emit: Emitter, x: Value) -> Value:
        return x.op(op)

    return convert


def _rounding(op: type[nn.NnOp]) -> Converter:
    def convert(emit: Emitter, x: Value) -> Value:
        return x if is_whole(x) else x.op(op)

    return convert


def _binary(op: type[nn.NnOp]) -> Converter:
    def convert(emit: Emitter, a: Operand, b: Operand) -> Value:
        left, right = promoted(emit, a, b)
        return left.op(_LOGICAL.get(op, op) if left.dtype == np.bool_ else op, right)

    return convert


def _logic(op: type[nn.NnOp]) -> Converter:
    def convert(emit: Emitter, a: Value, b: Value) -> Value:
        return truth(a).op(op, truth(b))

    return convert


def _bits(pair: tuple[type[nn.NnOp], type[nn.NnOp]]) -> Converter:
    def convert(emit: Emitter, a: Operand, b: Operand) -> Value:
        left, right = promoted(emit, a, b)
        return left.op(pair[left.dtype != np.bool_], right)

    return convert


def _register() -> None:
    tables: list[tuple[Table, Callable[[type[nn.NnOp]], Converter]]] = [
        (FLOATS, _float),
        (NUMBERS, _number),
        (ROUNDINGS, _rounding),
        (BINARY, _binary),
        (LOGIC, _logic),
    ]
    for table, converter in tables:
        for name, op in table.items():
            aten(name)(converter(op))
    for name, op in COMPARISONS.items():
        aten(f"{name}.Tensor", f"{name}.Scalar")(_binary(op))
    for name, pair in BITS.items():
        aten(f"{name}.Tensor", f"{name}.Scalar")(_bits(pair))


_register()


def truth(x: Value) -> Value:
    """Return whether elements are not zero."""
    return x if x.dtype == np.bool_ else ~x.equals(0)


# ** tests **


@aten("ne.Tensor", "ne.Scalar")
def ne(emit: Emitter, a: Operand, b: Operand) -> Value:
    left, right = promoted(emit, a, b)
    return ~left.equals(right)


@aten("logical_not")
def logical_not(emit: Emitter, x: Value) -> Value:
    return ~truth(x)


@aten("bitwise_not")
def bitwise_not(emit: Emitter, x: Value) -> Value:
    return ~x if x.dtype == np.bool_ else x.op(nn.OPS["bit_not"])


@aten("isnan")
def isnan(emit: Emitter, x: Value) -> Value:
    return emit.splat(False, (), np.bool_).expand(x.shape) if is_whole(x) else x.op(nn.IsNanOp)


@aten("isinf")
def isinf(emit: Emitter, x: Value) -> Value:
    return emit.splat(False, (), np.bool_).expand(x.shape) if is_whole(x) else x.op(nn.IsInfOp)


# ** arithmetic **


def _scaled(x: Value, factor: Operand) -> Value:
    return x if factor == 1 else x * lifted(x.emitter, factor, x.dtype)


@aten("add.Tensor", "add.Scalar")
def add(emit: Emitter, a: Operand, b: Operand, alpha: Operand = 1) -> Value:
    left, right = promoted(emit, a, b)
    if left.dtype == np.bool_:
        return left if alpha == 0 else left | right
    return left + _scaled(right, alpha)


@aten("sub.Tensor", "sub.Scalar")
def sub(emit: Emitter, a: Operand, b: Operand, alpha: Operand = 1) -> Value:
    left, right = promoted(emit, a, b)
    return left - _scaled(right, alpha)


@aten("div.Tensor", "div.Scalar", "true_divide.Tensor", "true_divide.Scalar")
def div(emit: Emitter, a: Operand, b: Operand) -> Value:
    left, right = floating(emit, a, b)
    return left / right


@aten("div.Tensor_mode", "div.Scalar_mode")
def div_mode(emit: Emitter, a: Operand, b: Operand, *, rounding_mode: str | None = None) -> Value:
    if rounding_mode is None:
        return div(emit, a, b)
    left, right = promoted(emit, a, b)
    if rounding_mode == "trunc":
        return trunc(emit, left / right)
    return floor_divided(left, right)


def floor_divided(a: Value, b: Value) -> Value:
    """Emit a quotient that is rounded down."""
    quotient = a / b
    if not a.is_float:
        is_rounded_up = (a < 0).op(nn.XorOp, b < 0) & ~(quotient * b).equals(a)
        return where(is_rounded_up, quotient - 1, quotient)
    rest = a % b
    # the remainder is b only if a / b is in (-1, 0) and too small to distinguish from 0
    rounded = where(rest.equals(b), -1, ((a - rest) / b).op(nn.RoundOp))
    return where(b.equals(0), quotient, rounded)


@aten("trunc")
def trunc(emit: Emitter, x: Value) -> Value:
    return x if is_whole(x) else where(x < 0, x.op(nn.CeilOp), x.op(nn.FloorOp))


@aten("rsqrt")
def rsqrt(emit: Emitter, x: Value) -> Value:
    return floating(emit, x)[0].op(nn.SqrtOp).op(nn.ReciprocalOp)


@aten("exp2")
def exp2(emit: Emitter, x: Value) -> Value:
    (wide,) = floating(emit, x)
    return wide.like(2.0) ** wide


@aten("log1p")
def log1p(emit: Emitter, x: Value) -> Value:
    # the quotient compensates for the rounding of 1 + x (Kahan)
    (wide,) = floating(emit, x)
    more = wide + 1
    logarithm = more.op(nn.LogOp)
    exact = logarithm * (wide / (more - 1))
    return where(more.equals(1), wide, where(more.op(nn.IsInfOp), logarithm, exact))


@aten("expm1")
def expm1(emit: Emitter, x: Value) -> Value:
    # the quotient compensates for the rounding of e^x (Kahan)
    (wide,) = floating(emit, x)
    if wide.is_complex:  # its logarithm has another imaginary part
        raise refuse("expm1 of complex numbers")
    power = wide.op(nn.ExpOp)
    less = power - 1
    exact = less * (wide / power.op(nn.LogOp))
    coarse = less.equals(-1) | power.op(nn.IsInfOp)
    return where(power.equals(1), wide, where(coarse, less, exact))


ERFC = (
    0.41099837287518415, 0.1719047368352004, 0.05145894391176655, 0.008316570615471362,
    -0.0007068666929821377, -0.0006285090895203627, -1.839463811147806e-05, 5.24586043358541e-05,
    3.1719130308396084e-06, -5.591674335527212e-06, -1.0537971126330127e-07, 7.01691837469212e-07,
    -6.283311823649893e-08, -8.988505809272104e-08, 2.3222255582762486e-08, 9.770555825927195e-09,
    -4.920858157686986e-09, -6.385707461294599e-10, 5.463387796761865e-10,
)  # fmt: skip
"""Coefficients of erfc(x) exp(x^2) / t in 3 t - 1, with t = 2 / (2 + x), for x >= 1. Error:
1.3e-15."""


@aten("erfc")
def erfc(emit: Emitter, x: Value) -> Value:
    (wide,) = floating(emit, x)
    share = 2 / (wide.op(nn.MaxOp, wide.like(1)) + 2)
    place, series = share * 3 - 1, wide.like(ERFC[-1])
    for coefficient in reversed(ERFC[:-1]):
        series = series * place + coefficient
    # a difference from 1 has no digits left where erf is close to 1
    tail = (-(wide * wide)).op(nn.ExpOp) * share * series
    return where(wide > 1, tail, 1 - wide.op(nn.ErfOp))


@aten("hypot")
def hypot(emit: Emitter, a: Operand, b: Operand) -> Value:
    sides = [abs(each) for each in promoted(emit, a, b)]
    long, short = sides[0].op(nn.MaxOp, sides[1]), sides[0].op(nn.MinOp, sides[1])
    # squares of the sides themselves could overflow
    ratio = short / where(long.equals(0), 1, long)
    is_infinite = sides[0].equals(math.inf) | sides[1].equals(math.inf)
    return where(is_infinite, math.inf, long * (ratio * ratio + 1).op(nn.SqrtOp))


@aten("atan2")
def atan2(emit: Emitter, y: Operand, x: Operand) -> Value:
    above, right = floating(emit, y, x)
    angle = (above / right).op(nn.OPS["atan"])
    negative = _is_negative(above)
    turned = angle + where(negative, above.like(-math.pi), math.pi)
    flat = where(negative, above.like(-0.0), 0.0)
    half = where(negative, above.like(-math.pi / 2), math.pi / 2)
    is_left = _is_negative(right)
    of_zero = where(is_left, where(negative, above.like(-math.pi), math.pi), flat)
    infinite = above.op(nn.IsInfOp) & right.op(nn.IsInfOp)
    quarter = where(right < 0, above.like(3 * math.pi / 4), math.pi / 4)
    both = where(negative, -quarter, quarter)
    found = where(right.equals(0), where(above.equals(0), of_zero, half), angle)
    found = where((right < 0) & ~above.equals(0), turned, found)
    found = where((right < 0) & above.equals(0), of_zero, found)
    return where(infinite, both, found)


def _is_negative(x: Value) -> Value:
    """Emit whether the sign bit is set, also of zeros."""
    return (x < 0) | (x.equals(0) & (x.op(nn.ReciprocalOp) < 0))


@aten("copysign.Tensor", "copysign.Scalar")
def copysign(emit: Emitter, x: Operand, sign: Operand) -> Value:
    number, other = floating(emit, x, sign)
    size = abs(number)
    return where(_is_negative(other), -size, size)


def _of_numbers(op: type[nn.NnOp]) -> Converter:
    def convert(emit: Emitter, a: Value, b: Value) -> Value:
        left, right = promoted(emit, a, b)
        found = left.op(op, right)
        if not left.is_float:
            return found
        is_left, is_right = right.op(nn.IsNanOp), left.op(nn.IsNanOp)
        return where(is_left, left, where(is_right, right, found))

    return convert


aten("fmax")(_of_numbers(nn.MaxOp))
aten("fmin")(_of_numbers(nn.MinOp))


@aten("ldexp.Tensor")
def ldexp(emit: Emitter, x: Value, exponent: Value) -> Value:
    (wide,) = floating(emit, exponent)
    number, power = promoted(emit, x, wide.like(2.0) ** wide)
    return number * power


@aten("where.self")
def where_(emit: Emitter, condition: Value, a: Operand, b: Operand) -> Value:
    left, right = promoted(emit, a, b)
    return where(truth(condition), left, right)


@aten("clamp", "clamp.Tensor")
def clamp(
    emit: Emitter, x: Value, low: Operand | None = None, high: Operand | None = None
) -> Value:
    given = [bound for bound in (low, high) if bound is not None]
    dtype = result_dtype([x, *given])
    x = x.cast(dtype)
    for bound, op in ((low, nn.MaxOp), (high, nn.MinOp)):
        if bound is not None:
            x = x.op(op, lifted(emit, bound, dtype))
    return x


@aten("hardtanh")
def hardtanh(emit: Emitter, x: Value, low: float = -1, high: float = 1) -> Value:
    return x.op(nn.ClipOp, low=float(low), high=float(high))


@aten(
    "bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar",
    "__lshift__.Tensor", "__lshift__.Scalar",
)  # fmt: skip
def left_shift(emit: Emitter, a: Operand, b: Operand) -> Value:
    left, right = promoted(emit, a, b)
    return left.op(nn.BitLeftOp, right)


@aten(
    "bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar",
    "__rshift__.Tensor", "__rshift__.Scalar",
)  # fmt: skip
def right_shift(emit: Emitter, a: Operand, b: Operand) -> Value:
    left, right = promoted(emit, a, b)
    return left.op(nn.BitRightOp, right)


# ** activations **


@aten("gelu")
def gelu(emit: Emitter, x: Value, *, approximate: str = "none") -> Value:
    return x.op(nn.GeluTanhOp if approximate == "tanh" else nn.GeluOp)


@aten("softplus")
def softplus(emit: Emitter, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    scaled = _scaled(x, beta)
    smooth = scaled.op(nn.SoftplusOp)
    return where(scaled > threshold, x, smooth if beta == 1 else smooth / beta)


@aten("hardsigmoid")
def hardsigmoid(emit: Emitter, x: Value) -> Value:
    return x.op(nn.HardSigmoidOp, alpha=1 / 6, beta=0.5)


@aten("leaky_relu")
def leaky_relu(emit: Emitter, x: Value, slope: float = 0.01) -> Value:
    return x.op(nn.LeakyReluOp, alpha=float(slope))


@aten("elu")
def elu(
    emit: Emitter, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1
) -> Value:
    below = expm1(emit, _scaled(x, input_scale)) * alpha
    return _scaled(where(x > 0, x, below), scale)


@aten("_prelu_kernel")
def prelu(emit: Emitter, x: Value, slope: Value) -> Value:
    return where(x > 0, x, x * slope)


# ** conversions and copies **


@aten("_to_copy")
def to_copy(emit: Emitter, x: Value, *, dtype: DType | None = None, **others: object) -> Value:
    return x if dtype is None else cast(emit, x, dtype)


@aten("prims::convert_element_type")
def cast(emit: Emitter, x: Value, dtype: DType) -> Value:
    return truth(x) if dtype == np.bool_ else x.cast(dtype)


@aten("copy")
def copy(emit: Emitter, x: Value, source: Value, non_blocking: bool = False) -> Value:
    return cast(emit, source, x.dtype).expand(x.shape)


@aten("clone", "alias", "detach", "lift_fresh_copy")
def same(emit: Emitter, x: Value, **others: object) -> Value:
    return x


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(emit: Emitter, x: Value, mask: Value, value: Operand) -> Value:
    return where(truth(mask), lifted(emit, value, x.dtype), x)


@aten("nan_to_num")
def nan_to_num(
    emit: Emitter,
    x: Value,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Value:
    if is_whole(x):
        return x
    if x.is_complex or x.dtype.itemsize == 2:
        raise refuse("nan_to_num of this type", x.dtype)
    limits = np.finfo(x.dtype)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    x = where(x.op(nn.IsNanOp), x.like(nan or 0.0), x)
    return where(x.equals(math.inf), high, where(x.equals(-math.inf), low, x))
