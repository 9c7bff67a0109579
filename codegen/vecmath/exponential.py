"""exp, exp2, expm1, sinh, cosh, tanh: argument reduction by powers of two, then a polynomial.

exp(x) = 2^n exp(r) with n = round(x / ln 2) and r = x - n ln 2, |r| <= ln(2) / 2 (Cody and Waite).
"""

from __future__ import annotations

from dataclasses import dataclass

from tessella.codegen.lltypes import Value, scalar
from tessella.codegen.vecmath.coefficients import EXP, EXP2, LN2_PARTS, LOG2_E, SINH
from tessella.codegen.vecmath.lanes import Lanes, fma, polynomial, where


@dataclass(frozen=True)
class Format:
    """What the bits of a float type mean."""

    mantissa: int
    """Stored bits of the mantissa."""

    one: int
    """The bits of 1.0."""

    magic: float
    """1.5 * 2^mantissa: adding it leaves the nearest integer in the lowest bits."""

    exp_least: float
    """Below this, exp rounds to 0."""

    exp_most: float
    """Above this, exp overflows."""


FORMATS = {
    32: Format(23, 0x3F80_0000, 1.5 * 2**23, -104.0, 89.0),
    64: Format(52, 0x3FF0_0000_0000_0000, 1.5 * 2**52, -746.0, 710.0),
}


@dataclass(frozen=True)
class Power:
    """2^n for an n that is an integer, as a float and shifted into the low bits of another."""

    n: Lanes
    shifted: Lanes
    """n plus the format's magic number."""


def nearest(shifted: Lanes) -> Power:
    """The integer of a value to which the format's magic number has been added."""
    return Power(shifted - FORMATS[shifted.type.bits].magic, shifted)


def power_of_two(power: Power, extra: int = 0) -> Lanes:
    """2^(n + extra), which must be a normal number, from the exponent's bits alone."""
    form = FORMATS[power.n.type.bits]
    exponent = power.shifted.bits() << form.mantissa
    return (exponent + (form.one + (extra << form.mantissa))).floats()


def scale(x: Lanes, power: Power, extra: int = 0) -> Lanes:
    """x * 2^(n + extra), rounded once, for 1/2 < |x| < 2: to denormals, 0 and infinity too."""
    if x.w.target.cpu == "x86-64-v4":
        return _scale_avx512(x, power.n + float(extra) if extra else power.n)
    form = FORMATS[x.type.bits]
    # In two steps of about n / 2, because 2^n alone may be no normal number.
    shifted = power.shifted.bits() + extra if extra else power.shifted.bits()
    half = (shifted << (form.mantissa - 1)) & -(1 << form.mantissa)
    rest = (shifted << form.mantissa) - half
    return x * (half + form.one).floats() * (rest + form.one).floats()


def _scale_avx512(x: Lanes, n: Lanes) -> Lanes:
    """AVX-512's `vscalefps`; LLVM's `ldexp` becomes the same with a conversion before it."""
    lltype = x.type
    width = lltype.lanes * lltype.bits
    if width not in (128, 256, 512):
        k = n.cast("fptosi", f"i{lltype.bits}")
        name = f"llvm.ldexp.{lltype.mangled}.{k.type.mangled}"
        return Lanes(x.w, x.w.call(lltype, name, x.value, k.value))
    letter = "s" if lltype.bits == 32 else "d"
    lanes_mask = Value(scalar(f"i{max(8, lltype.lanes)}"), "-1")
    operands = [x.value, n.value, x.like(0.0).value, lanes_mask]
    if width == 512:
        operands.append(Value(scalar("i32"), "4"))
    return Lanes(x.w, x.w.call(lltype, f"llvm.x86.avx512.mask.scalef.p{letter}.{width}", *operands))


def _reduce(x: Lanes) -> tuple[Power, Lanes]:
    """n and r of exp(x) = 2^n exp(r)."""
    power = nearest(fma(x, LOG2_E, FORMATS[x.type.bits].magic))
    high, low = LN2_PARTS[x.type.bits]
    return power, fma(power.n, -low, fma(power.n, -high, x))


def _exp_minus_one(r: Lanes) -> Lanes:
    """exp(r) - 1 for |r| <= ln(2) / 2."""
    return fma(r * r, polynomial(r, EXP[r.type.bits]), r)


def _scaled_exp(x: Lanes, extra: int) -> Lanes:
    """exp(x) * 2^extra; x may have any value."""
    form = FORMATS[x.type.bits]
    power, r = _reduce(x.at_most(form.exp_most - extra).at_least(form.exp_least))
    return scale(_exp_minus_one(r) + 1.0, power, extra)


def exp(x: Lanes) -> Lanes:
    """e^x."""
    return _scaled_exp(x, 0)


def exp2(x: Lanes) -> Lanes:
    """2^x."""
    form = FORMATS[x.type.bits]
    least = form.exp_least * LOG2_E
    x = x.at_most(form.exp_most * LOG2_E).at_least(least)
    power = nearest(x + form.magic)
    r = x - power.n
    return scale(fma(r, polynomial(r, EXP2[x.type.bits]), 1.0), power)


def expm1(x: Lanes) -> Lanes:
    """e^x - 1, accurate near 0: 2 (2^(n-1) (exp(r) - 1) + (2^(n-1) - 1/2))."""
    return expm1_bounded(x.at_most(FORMATS[x.type.bits].exp_most)).with_sign_of(x)


def expm1_bounded(x: Lanes) -> Lanes:
    """expm1 of an x that does not overflow; the sign of a zero is lost."""
    form = FORMATS[x.type.bits]
    least = -(form.mantissa + 3) / LOG2_E
    power, r = _reduce(x.at_least(least))
    half = power_of_two(power, -1)
    sum_ = fma(half, _exp_minus_one(r), half - 0.5)
    return sum_ + sum_


def sinh(x: Lanes) -> Lanes:
    """x + x^3 P(x^2) up to 1, from there on h - 1 / (4 h) with h = exp(|x|) / 2."""
    magnitude = x.abs()
    square = x * x
    near = fma(x * square, polynomial(square, SINH[x.type.bits]), x)
    half = _scaled_exp(magnitude, -1)
    far = (half - 0.25 / half).with_sign_of(x)
    return where(magnitude.is_("ole", 1.0), near, far)


def cosh(x: Lanes) -> Lanes:
    """h + 1 / (4 h) with h = exp(|x|) / 2."""
    half = _scaled_exp(x.abs(), -1)
    return half + 0.25 / half


def tanh(x: Lanes) -> Lanes:
    """-E / (E + 2) with E = expm1(-2 |x|), which loses nothing near 0 nor near 1."""
    e = expm1_bounded(x.abs() * -2.0)
    return (e / (e + 2.0)).with_sign_of(x)
