"""pow: 2^(y log2 |x|).

f32 is computed in f64, where the product's error does not matter; f64 uses a logarithm that is the
sum of two f64.
"""

from __future__ import annotations

import math

from tessella.codegen.vecmath.coefficients import (
    EXP2,
    LN2_LOW,
    LOG2_E,
    LOG2_E_PARTS,
    POW_ATANH,
    POW_EXP2,
    POW_LOG2,
    TWO_THIRDS,
)
from tessella.codegen.vecmath.exponential import FORMATS, nearest, power_of_two, scale
from tessella.codegen.vecmath.lanes import Lanes, fma, polynomial, where
from tessella.codegen.vecmath.logarithm import split, split_normal


def _log2(magnitude: Lanes) -> Lanes:
    """Return log2 of the magnitude of an f32, as f64, in which f32's denormals are normal."""
    k, f = split_normal(magnitude.cast("fpext", "f64"))
    result = fma(f * f, polynomial(f, POW_LOG2), fma(f, LOG2_E, k))
    result = where(magnitude.is_("oeq", 0.0), -math.inf, result)
    return where(magnitude.is_("oeq", math.inf), math.inf, result)


def _exp2(exponent: Lanes) -> Lanes:
    """Return 2^exponent as f32; the intermediate f64 represents all powers of f32."""
    exponent = exponent.at_most(140.0).at_least(-160.0)
    power = nearest(exponent + FORMATS[64].magic)
    r = exponent - power.n
    wide = fma(r, polynomial(r, POW_EXP2), 1.0) * power_of_two(power)
    return wide.cast("fptrunc", "f32")


# ** f64 **

Pair = tuple[Lanes, Lanes]
"""A number as the sum of two floats, the second of them small."""


def product(a: Lanes, b: Lanes | float) -> Pair:
    """Return a * b and its rounding error."""
    right = b if isinstance(b, Lanes) else a.like(b)
    total = a * right
    if a.w.target.fused_multiply_add:
        return total, fma(a, right, -total)
    (a1, a2), (b1, b2) = _halves(a), _halves(right)
    return total, ((a1 * b1 - total) + a1 * b2 + a2 * b1) + a2 * b2


def _halves(x: Lanes) -> Pair:
    """Split x into a sum of two floats with half the bits each. Products of halves are exact."""
    high = (x.bits() & -(1 << 27)).floats()
    return high, x - high


def _times(a: Pair, b: Pair) -> Pair:
    high, low = product(a[0], b[0])
    return _normal(high, fma(a[0], b[1], fma(a[1], b[0], low)))


def _normal(high: Lanes, low: Lanes) -> Pair:
    """Return a sum of two floats in which the second is small. ``high`` must be larger than
    ``low``."""
    total = high + low
    return total, low - (total - high)


def _log2_pair(magnitude: Lanes) -> Pair:
    """Return log2 as a pair: k + (2 s + s^3 (2/3 + s^2 P(s^2))) / ln 2 with s = f / (2 + f)."""
    k, f = split(magnitude)
    below = f + 2.0
    lost = f - (below - 2.0)
    s = f / below
    over, under = product(s, below)
    pair = s, ((f - over) - under - s * lost) / below
    square = _times(pair, pair)
    cubic = _times(square, (square[0].like(TWO_THIRDS[0]), square[0].like(TWO_THIRDS[1])))
    tail = square[0] * square[0] * polynomial(square[0], POW_ATANH)
    cubic = _normal(cubic[0], cubic[1] + tail)
    beyond = _times(pair, cubic)
    first = _normal(s + s, (pair[1] + pair[1]) + 0.0)
    natural = _normal(first[0], beyond[0])
    natural = _normal(natural[0], natural[1] + (first[1] + beyond[1]))
    base = natural[0].like(LOG2_E_PARTS[64][0]), natural[0].like(LOG2_E_PARTS[64][1])
    fraction = _times(natural, base)
    total = k + fraction[0]
    back = total - k
    rest = (k - (total - back)) + (fraction[0] - back)
    return _normal(total, rest + fraction[1])


def _power_64(magnitude: Lanes, y: Lanes) -> Lanes:
    high, low = _log2_pair(magnitude)
    limit = where(magnitude.is_("oeq", 0.0), high.like(-math.inf), math.inf)
    extreme = magnitude.is_("oeq", 0.0) | magnitude.is_("oeq", math.inf)
    high, low = where(extreme, limit, high), where(extreme, 0.0, low)
    exponent, lost = product(y, high)
    rest = where(exponent.abs().is_("olt", _MOST), fma(y, low, lost), 0.0)
    exponent = exponent.at_most(_MOST).at_least(-_MOST)
    power = nearest(exponent + FORMATS[64].magic)
    return scale(_exp2_pair(exponent - power.n, rest), power)


def _exp2_pair(r: Lanes, rest: Lanes) -> Lanes:
    """Return 2^(r + rest), rounded nearly once: powers that are integers are exact."""
    first, *others = EXP2[64]
    r, rest = _normal(r, rest)
    t, lost = product(r, first)
    total, left = _normal(t.like(1.0), t)
    small = fma(rest * first, total, fma(r, LN2_LOW, lost))
    return total + (left + fma(r * r, polynomial(r, others), small))


_MOST = 1100.0
"""A bound on exponents: beyond it, powers of two are infinite or 0."""


def powf(x: Lanes, y: Lanes) -> Lanes:
    """Return x^y with the special cases of IEEE 754's pow."""
    magnitude = x.abs()
    if x.type.bits == 64:
        result = _power_64(magnitude, y)
    else:
        result = _exp2(y.cast("fpext", "f64") * _log2(magnitude))
    fractional = y.is_("one", y.intrinsic("trunc"))
    half = y * 0.5
    odd = half.is_("one", half.intrinsic("trunc")) & y.is_("oeq", y.intrinsic("trunc"))
    result = where(odd, result.with_sign_of(x), result)
    negative = x.is_("olt", 0.0) & x.is_("ogt", -math.inf)
    result = where(negative & fractional, math.nan, result)
    result = where(x.is_("uno", y), math.nan, result)
    always_one = magnitude.is_("oeq", 1.0) & y.abs().is_("oeq", math.inf)
    return where(always_one | x.is_("oeq", 1.0) | y.is_("oeq", 0.0), 1.0, result)
