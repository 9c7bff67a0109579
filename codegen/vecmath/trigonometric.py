"""sin, cos, tan, asin, acos, atan."""

from __future__ import annotations

import math

from tessella.codegen.vecmath.coefficients import (
    ASIN,
    ATAN,
    COS,
    HALF_PI_LOW,
    HALF_PI_PARTS,
    HALF_PI_PARTS_64,
    HALF_PI_PARTS_FUSED,
    SIN,
)
from tessella.codegen.vecmath.exponential import FORMATS
from tessella.codegen.vecmath.lanes import Lanes, fma, polynomial, where
from tessella.codegen.vecmath.reduction import reduce_large

_TWO_OVER_PI = 0.6366197723675814
"""2/pi, rounded to float64: quadrants per radian."""
_HALF_PI = math.pi / 2
_TAN_EIGHTH = math.sqrt(2) - 1
"""tan(pi / 8)."""


def _reduce(x: Lanes) -> tuple[Lanes, Lanes, Lanes | None]:
    """Return the quadrant as an integer, with correct low bits, and r = x - quadrant pi/2, |r| <=
    pi / 4; in f64, r is a sum of two floats."""
    form = FORMATS[x.type.bits]
    shifted = fma(x, _TWO_OVER_PI, form.magic)
    n = shifted - form.magic
    if x.type.bits == 64:
        return reduce_large(x, shifted.bits(), *_remainder(x, n))
    r = x
    for part in HALF_PI_PARTS_FUSED if x.w.target.fused_multiply_add else HALF_PI_PARTS:
        r = fma(n, -part, r)
    return reduce_large(x, shifted.bits(), r)


def _remainder(x: Lanes, n: Lanes) -> tuple[Lanes, Lanes]:
    """Return x - n pi/2 as a sum of two floats, for an n of 20 bits: the first three products are
    exact."""
    first, *middle, last = HALF_PI_PARTS_64
    high, low = fma(n, -first, x), x.like(0.0)
    for part in middle:
        high, lost = _sum(high, n * -part)
        low = low + lost
    low = fma(n, -last, low)
    r = where(low.is_("oeq", 0.0), high, high + low)  # keeps the sign of a zero
    return r, (high - r) + low


def _sum(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """Return a + b and its rounding error (D. E. Knuth)."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def _both(r: Lanes, rest: Lanes | None) -> tuple[Lanes, Lanes]:
    """Return sin(r + rest) and cos(r + rest)."""
    square, bits = r * r, r.type.bits
    if rest is None:
        sine = r * fma(square, polynomial(square, SIN[bits]), 1.0)
        cosine = fma(square * square, polynomial(square, COS[bits]), fma(square, -0.5, 1.0))
        return sine, cosine
    cubic = r * square * polynomial(square, SIN[bits])
    sine = (r + (cubic + fma(square * -0.5, rest, rest))).with_sign_of(r)
    half = square * 0.5
    whole = 1.0 - half
    lost = (1.0 - whole) - half
    tail = fma(square * square, polynomial(square, COS[bits]), lost)
    return sine, whole + fma(-r, rest, tail)


def _wave(quadrant: Lanes, r: Lanes, rest: Lanes | None) -> Lanes:
    """Return sin(r + rest + quadrant pi/2)."""
    sine, cosine = _both(r, rest)
    even = (quadrant & 1).is_("eq", 0)
    sign = (quadrant & 2) << (r.type.bits - 2)
    return (where(even, sine, cosine).bits() ^ sign).floats()


def sin(x: Lanes) -> Lanes:
    """Return the sine of an angle in radians."""
    return _wave(*_reduce(x))


def cos(x: Lanes) -> Lanes:
    """Return the cosine of an angle in radians."""
    quadrant, r, rest = _reduce(x)
    return _wave(quadrant + 1, r, rest)


def tan(x: Lanes) -> Lanes:
    """Return tan(x): sin / cos of the remainder, or -cos / sin in odd quadrants."""
    quadrant, r, rest = _reduce(x)
    sine, cosine = _both(r, rest)
    even = (quadrant & 1).is_("eq", 0)
    return where(even, sine, -cosine) / where(even, cosine, sine)


def _asin_small(x: Lanes, square: Lanes) -> Lanes:
    return fma(x * square, polynomial(square, ASIN[x.type.bits]), x)


def asin(x: Lanes) -> Lanes:
    """Return asin(x): x + x^3 P(x^2) for |x| <= 1/2, otherwise pi/2 - 2 asin(sqrt((1 - |x|) / 2))
    with the sign of x."""
    a = x.abs()
    far = a.is_("ogt", 0.5)
    square = where(far, fma(a, -0.5, 0.5), a * a)
    base = where(far, square.sqrt(), a)
    part = _asin_small(base, square)
    return where(far, _from_half_pi(part + part), part).with_sign_of(x)


def acos(x: Lanes) -> Lanes:
    """Return acos(x): pi/2 - asin(x) for |x| <= 1/2, otherwise 2 asin(sqrt((1 - |x|) / 2)),
    subtracted from pi if x < 0."""
    a = x.abs()
    far = a.is_("ogt", 0.5)
    square = where(far, fma(a, -0.5, 0.5), a * a)
    base = where(far, square.sqrt(), x)
    part = _asin_small(base, square)
    doubled = part + part
    outer = where(x.is_("olt", 0.0), math.pi - (doubled - 2 * _low(x)), doubled)
    return where(far, outer, _from_half_pi(part))


def _low(x: Lanes) -> float:
    """Return pi / 2 minus the nearest f64 for f64, otherwise 0."""
    return HALF_PI_LOW if x.type.bits == 64 else 0.0


def _from_half_pi(x: Lanes) -> Lanes:
    return _HALF_PI - (x - _low(x))


def atan(x: Lanes) -> Lanes:
    """Return atan(x) with the sign of x: t + t^3 P(t^2) with t = |x|; for |x| > 1, pi/2 minus the
    same polynomial with t = 1 / |x|."""
    a = x.abs()
    if x.type.bits == 64:
        return _atan_by_thirds(a).with_sign_of(x)
    far = a.is_("ogt", 1.0)
    t = where(far, 1.0, a) / where(far, a, 1.0)
    square = t * t
    part = fma(t * square, polynomial(square, ATAN[32]), t)
    return where(far, _HALF_PI - part, part).with_sign_of(x)


def _atan_by_thirds(a: Lanes) -> Lanes:
    """Return atan(a) of f64, a >= 0: t + t^3 P(t^2) in three ranges of a.

    t = a up to tan(pi/8); t = (a - 1) / (a + 1), plus pi/4, up to tan(3 pi/8); t = -1 / a, plus
    pi/2, beyond.
    """
    middle, far = a.is_("ogt", _TAN_EIGHTH), a.is_("ogt", 1 / _TAN_EIGHTH)
    above = where(far, -1.0, where(middle, a - 1.0, a))
    below = where(far, a, where(middle, a + 1.0, 1.0))
    t = above / below
    square = t * t
    tail = t * square * polynomial(square, ATAN[64])
    start = where(far, _HALF_PI, where(middle, a.like(_HALF_PI / 2), 0.0))
    low = where(far, HALF_PI_LOW, where(middle, a.like(HALF_PI_LOW / 2), 0.0))
    return start + (t + (tail + low))
