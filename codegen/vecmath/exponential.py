"""exp, exp2, expm1: argument reduction by powers of two, then a polynomial.

exp(x) = 2^n exp(r) with n = round(x / ln 2) and r = x - n ln 2, |r| <= ln(2) / 2 (Cody and Waite).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tessella.codegen.lltypes import LLValue, constant, scalar
from tessella.codegen.vecmath.coefficients import EXP, EXP2, LN2_PARTS, LOG2_E
from tessella.codegen.vecmath.lanes import Lanes, fma, polynomial, where
from tessella.codegen.vecmath.whole import in_whole_vectors


@dataclass(frozen=True)
class Format:
    """The bit layout of a float type."""

    mantissa: int
    """Stored bits of the mantissa."""

    one: int
    """The bits of 1.0."""

    magic: float
    """1.5 * 2^mantissa: adding it leaves the nearest integer in the lowest bits."""

    exp_least: float
    """The argument below which exp rounds to 0."""

    exp_normal: float
    """The argument below which exp is denormal: the logarithm of the least normal number."""

    exp_most: float
    """The argument above which exp overflows."""


FORMATS = {
    32: Format(23, 0x3F80_0000, 1.5 * 2**23, -104.0, -87.33654, 89.0),
    64: Format(52, 0x3FF0_0000_0000_0000, 1.5 * 2**52, -746.0, -708.396418532264, 710.0),
}


@dataclass(frozen=True)
class Power:
    """The power 2^n for an integer n, which is stored as a float and as the low bits of another
    float."""

    n: Lanes
    shifted: Lanes
    """The float n + magic: its low bits are the integer n."""


def nearest(shifted: Lanes) -> Power:
    """Return the power 2^n for the integer n nearest to a value, to which the format's magic number
    has been added."""
    return Power(shifted - FORMATS[shifted.type.bits].magic, shifted)


def power_of_two(power: Power, extra: int = 0) -> Lanes:
    """Return 2^(n + extra), which must be a normal number, from the exponent's bits alone."""
    form = FORMATS[power.n.type.bits]
    exponent = power.shifted.bits() << form.mantissa
    return (exponent + (form.one + (extra << form.mantissa))).floats()


def scales(x: Lanes) -> bool:
    """Return whether the machine scales any value by powers of two, including to 0 and infinity."""
    return bool(x.w.target.scales_by_powers)


def scale(x: Lanes, power: Power, extra: int = 0) -> Lanes:
    """Return x * 2^(n + extra), rounded once, for 1/2 < |x| < 2. The result may be denormal, 0 or
    infinite."""
    if scales(x):
        return _scaled(x, power.n + float(extra) if extra else power.n)
    form = FORMATS[x.type.bits]
    # Two steps of about n / 2 are needed, as 2^n alone may not be a normal number.
    shifted = power.shifted.bits() + extra if extra else power.shifted.bits()
    half = (shifted << (form.mantissa - 1)) & -(1 << form.mantissa)
    rest = (shifted << form.mantissa) - half
    return x * (half + form.one).floats() * (rest + form.one).floats()


def _scaled(x: Lanes, n: Lanes) -> Lanes:
    """Return x * 2^n by the machine's instruction. LLVM's `ldexp` would become that instruction
    with a conversion before it."""
    bits = x.type.bits
    sizes = (size for size in (128, 256) if size >= x.type.lanes * bits)
    width = next(sizes, 512)
    letter = "s" if bits == 32 else "d"
    name = x.w.target.scales_by_powers.format(type=letter, bits=width)

    def instruction(value: LLValue, power: LLValue) -> LLValue:
        lanes = value.type.lanes
        operands = [value, power, constant(value.type, 0.0)]
        operands.append(LLValue(scalar(f"i{max(8, lanes)}"), "-1"))
        if width == 512:
            operands.append(LLValue(scalar("i32"), "4"))
        return x.w.call(value.type, name, *operands)

    return in_whole_vectors(width // bits, instruction, x, n)


def _reduce(x: Lanes) -> tuple[Power, Lanes]:
    """Return 2^n and r of exp(x) = 2^n exp(r)."""
    power = nearest(fma(x, LOG2_E, FORMATS[x.type.bits].magic))
    high, low = LN2_PARTS[x.type.bits]
    return power, fma(power.n, -low, fma(power.n, -high, x))


def _exp_minus_one(r: Lanes) -> Lanes:
    """Return exp(r) - 1 for |r| <= ln(2) / 2."""
    return fma(r * r, polynomial(r, EXP[r.type.bits]), r)


def scaled_exp(x: Lanes, extra: int = 0) -> Lanes:
    """Return exp(x) * 2^extra, for an x for which exp does not round to 0."""
    power, r = _reduce(_below(x, FORMATS[x.type.bits].exp_most - extra))
    return scale(polynomial(r, (1.0, 1.0, *EXP[x.type.bits])), power, extra)


def _below(x: Lanes, most: float) -> Lanes:
    """Clamp an argument to the range above which the result is infinite.

    Machines that scale by powers of two need no bound. A huge argument has a huge n and an
    arbitrary r. The polynomial, of even degree and close to exp, gives a positive number for that
    r, or NaN, which `vscalefps` takes to infinity.
    """
    return x if scales(x) else x.at_most(most)


def _from(least: float, x: Lanes, function: Callable[[Lanes], Lanes]) -> Lanes:
    """Return ``function`` of an argument that is at least ``least`` or NaN, and 0 for other
    arguments.

    Intel's processors take about 150 cycles for an instruction whose result is below the normal
    numbers, even if it rounds to 0: lanes that give 0 compute with another argument.
    """
    gives_zero = x.is_("olt", least)
    return where(gives_zero, 0.0, function(where(gives_zero, 0.0, x)))


def exp(x: Lanes) -> Lanes:
    """Return e^x."""
    return _from(FORMATS[x.type.bits].exp_least, x, scaled_exp)


def exp_or_zero(x: Lanes) -> Lanes:
    """Return e^x, with 0 in place of denormal results."""
    return _from(FORMATS[x.type.bits].exp_normal, x, scaled_exp)


def exp2(x: Lanes) -> Lanes:
    """Return 2^x."""
    return _from(FORMATS[x.type.bits].exp_least * LOG2_E, x, _exp2)


def _exp2(x: Lanes) -> Lanes:
    form = FORMATS[x.type.bits]
    x = _below(x, form.exp_most * LOG2_E)
    power = nearest(x + form.magic)
    r = x - power.n
    return scale(fma(r, polynomial(r, EXP2[x.type.bits]), 1.0), power)


def expm1(x: Lanes) -> Lanes:
    """Return e^x - 1, accurate near 0: 2 (2^(n-1) (exp(r) - 1) + (2^(n-1) - 1/2))."""
    return expm1_bounded(x.at_most(FORMATS[x.type.bits].exp_most)).with_sign_of(x)


def expm1_bounded(x: Lanes) -> Lanes:
    """Return e^x - 1 for an x for which e^x does not overflow; a zero loses its sign."""
    form = FORMATS[x.type.bits]
    least = -(form.mantissa + 3) / LOG2_E
    power, r = _reduce(x.at_least(least))
    half = power_of_two(power, -1)
    sum_ = fma(half, _exp_minus_one(r), half - 0.5)
    return sum_ + sum_
