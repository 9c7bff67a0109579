"""sin, cos, tan, asin, acos, atan for f32."""

from __future__ import annotations

import math

from tessella.codegen.vecmath.coefficients import (
    ASIN,
    ATAN,
    COS,
    HALF_PI_PARTS,
    HALF_PI_PARTS_FUSED,
    SIN,
)
from tessella.codegen.vecmath.exponential import FORMATS
from tessella.codegen.vecmath.lanes import Lanes, fma, polynomial, where
from tessella.codegen.vecmath.reduction import reduce_large

_TWO_OVER_PI = 0.6366197723675814
"""2/pi, rounded to float64: quadrants per radian."""
_HALF_PI = math.pi / 2


def _reduce(x: Lanes) -> tuple[Lanes, Lanes]:
    """The quadrant as an integer (its low bits count), and r = x - quadrant pi/2, |r| <= pi / 4."""
    shifted = fma(x, _TWO_OVER_PI, FORMATS[32].magic)
    n = shifted - FORMATS[32].magic
    r = x
    for part in HALF_PI_PARTS_FUSED if x.w.target.fused_multiply_add else HALF_PI_PARTS:
        r = fma(n, -part, r)
    return reduce_large(x, shifted.bits(), r)


def _both(r: Lanes) -> tuple[Lanes, Lanes]:
    """sin(r) and cos(r)."""
    square = r * r
    sine = r * fma(square, polynomial(square, SIN), 1.0)
    cosine = fma(square * square, polynomial(square, COS), fma(square, -0.5, 1.0))
    return sine, cosine


def _wave(quadrant: Lanes, r: Lanes) -> Lanes:
    """sin(r + quadrant pi/2)."""
    sine, cosine = _both(r)
    even = (quadrant & 1).is_("eq", 0)
    sign = (quadrant & 2) << 30
    return (where(even, sine, cosine).bits() ^ sign).floats()


def sin(x: Lanes) -> Lanes:
    """The sine of an angle in radians."""
    return _wave(*_reduce(x))


def cos(x: Lanes) -> Lanes:
    """The cosine of an angle in radians."""
    quadrant, r = _reduce(x)
    return _wave(quadrant + 1, r)


def tan(x: Lanes) -> Lanes:
    """sin / cos, or -cos / sin in odd quadrants."""
    quadrant, r = _reduce(x)
    sine, cosine = _both(r)
    even = (quadrant & 1).is_("eq", 0)
    return where(even, sine, -cosine) / where(even, cosine, sine)


def _asin_small(x: Lanes, square: Lanes) -> Lanes:
    return fma(x * square, polynomial(square, ASIN), x)


def asin(x: Lanes) -> Lanes:
    """x + x^3 P(x^2) up to 1/2; from there on pi/2 - 2 asin(sqrt((1 - |x|) / 2))."""
    a = x.abs()
    far = a.is_("ogt", 0.5)
    square = where(far, fma(a, -0.5, 0.5), a * a)
    base = where(far, square.sqrt(), a)
    part = _asin_small(base, square)
    return where(far, fma(part, -2.0, _HALF_PI), part).with_sign_of(x)


def acos(x: Lanes) -> Lanes:
    """pi/2 - asin(x) up to 1/2; from there on 2 asin(sqrt((1 - |x|) / 2)), from pi where x < 0."""
    a = x.abs()
    far = a.is_("ogt", 0.5)
    square = where(far, fma(a, -0.5, 0.5), a * a)
    base = where(far, square.sqrt(), x)
    part = _asin_small(base, square)
    doubled = part + part
    outer = where(x.is_("olt", 0.0), math.pi - doubled, doubled)
    return where(far, outer, _HALF_PI - part)


def atan(x: Lanes) -> Lanes:
    """t + t^3 P(t^2) with t = |x|, or 1 / |x| and the result from pi/2 where |x| > 1."""
    a = x.abs()
    far = a.is_("ogt", 1.0)
    t = where(far, 1.0, a) / where(far, a, 1.0)
    square = t * t
    part = fma(t * square, polynomial(square, ATAN), t)
    return where(far, _HALF_PI - part, part).with_sign_of(x)
