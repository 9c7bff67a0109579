"""log, log2, log10, log1p, asinh, acosh, atanh.

x = 2^k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), so that log(x) = k ln 2 + log1p(f), and k = 0
around x = 1, where the result is small and f must be exact.
"""

from __future__ import annotations

import math

from tessella.codegen.vecmath.coefficients import (
    LN2,
    LN2_PARTS,
    LOG,
    LOG2_E_PARTS,
    LOG10_2_PARTS,
    LOG10_E_PARTS,
    LOG_ATANH,
)
from tessella.codegen.vecmath.exponential import FORMATS
from tessella.codegen.vecmath.lanes import Lanes, fma, polynomial, where

_ROOT_HALF = {32: 0x3F35_04F3, 64: 0x3FE6_A09E_667F_3BCD}
"""The bits of sqrt(1/2)."""

_MAGIC_BITS = 0x4338_0000_0000_0000
"""The bits of 1.5 * 2^52."""

_LEAST_NORMAL = {32: 2.0**-126, 64: 2.0**-1022}


def _exponent(x: Lanes) -> Lanes:
    """Return k of x = 2^k (1 + f), as an integer; x must be a positive normal number."""
    return (x.bits() - _ROOT_HALF[x.type.bits]) >> FORMATS[x.type.bits].mantissa


def _as_float(k: Lanes) -> Lanes:
    """Convert a small integer to a float of its size; i64 by bits, as few machines convert it."""
    if k.type.bits == 32:
        return k.cast("sitofp", "f32")
    return (k + _MAGIC_BITS).floats() - FORMATS[64].magic


def _tail(f: Lanes) -> Lanes:
    """Return log1p(f) - f."""
    half_square = f * f * 0.5
    if f.type.bits == 32:
        return fma(f * f * f, polynomial(f, LOG), -half_square)
    s = f / (f + 2.0)
    square = s * s
    rest = polynomial(square, LOG_ATANH) * square
    return fma(s, half_square + rest, -half_square)


def split_normal(x: Lanes) -> tuple[Lanes, Lanes]:
    """Return k, as a float, and f of x = 2^k (1 + f), for a positive normal x."""
    k = _exponent(x)
    return _as_float(k), _fraction(x, k)


def _fraction(x: Lanes, k: Lanes) -> Lanes:
    """Return f of x = 2^k (1 + f)."""
    return (x.bits() - (k << FORMATS[x.type.bits].mantissa)).floats() - 1.0


def split(x: Lanes) -> tuple[Lanes, Lanes]:
    """Return k, as a float, and f of x = 2^k (1 + f), for a positive x; denormals are scaled up
    first."""
    digits = FORMATS[x.type.bits].mantissa
    small = x.is_("olt", _LEAST_NORMAL[x.type.bits])
    k, f = split_normal(where(small, x * 2.0**digits, x))
    return k - where(small, x.like(digits), 0.0), f


def _special(x: Lanes, result: Lanes) -> Lanes:
    """Return ``result`` with the logarithm's special cases: -inf for 0, inf for inf, NaN for
    negative numbers and NaN."""
    result = where(x.is_("oeq", math.inf), x, result)
    result = where(x.is_("oeq", 0.0), -math.inf, result)
    return where(x.is_("oge", 0.0), result, math.nan)


def _assemble(k: Lanes, f: Lanes, tail: Lanes) -> Lanes:
    """Return k ln 2 + f + tail, with the small terms added first."""
    high, low = LN2_PARTS[f.type.bits]
    return fma(k, high, f + fma(k, low, tail))


def log(x: Lanes) -> Lanes:
    """Return the natural logarithm."""
    k, f = split(x)
    return _special(x, _assemble(k, f, _tail(f)))


def log2(x: Lanes) -> Lanes:
    """Return log2(x): k + (f + tail) / ln 2, with 1 / ln 2 in two parts."""
    k, f = split(x)
    product, rest = _product(f, LOG2_E_PARTS[x.type.bits])
    return _special(x, (k + product) + rest)


def log10(x: Lanes) -> Lanes:
    """Return log10(x): k ln 2 / ln 10 + (f + tail) / ln 10 plus the rounding error of the sum.
    Powers of 10 are exact."""
    k, f = split(x)
    high, low = LOG10_2_PARTS[x.type.bits]
    product, rest = _product(f, LOG10_E_PARTS[x.type.bits])
    whole = k * high
    total = whole + product
    lost = product - (total - whole)
    return _special(x, total + (lost + fma(k, low, rest)))


def _product(f: Lanes, factor: tuple[float, float]) -> tuple[Lanes, Lanes]:
    """Return log1p(f) times a factor that is a sum of two numbers, as two summands: f times the
    factor's first part, and the remainder."""
    high, low = factor
    product = f * high
    lost = fma(f, high, -product)
    return product, fma(f, low, _tail(f) * high) + lost


def log1p(x: Lanes) -> Lanes:
    """Return log(1 + x), with f = x 2^-k + (2^-k - 1), which is exact for k = 0."""
    form = FORMATS[x.type.bits]
    total = x + 1.0
    k = _exponent(total)
    down = (x.like(1.0).bits() - (k << form.mantissa)).floats()
    # 2^-k is not normal for the largest k, but x + 1 rounds to x already for smaller ones.
    f = where(k.is_("sgt", form.mantissa + 2), _fraction(total, k), fma(x, down, down - 1.0))
    result = _special(total, _assemble(_as_float(k), f, _tail(f)))
    # The result for the tiniest arguments is the argument, with its sign.
    return where(x.abs().is_("olt", 2.0 ** -(form.mantissa + 2)), x, result)


def _large(x: Lanes) -> Lanes:
    """Return the mask of the values for which x^2 + 1 rounds to x^2."""
    return x.is_("ogt", 2.0 ** (FORMATS[x.type.bits].mantissa // 2 + 2))


def asinh(x: Lanes) -> Lanes:
    """Return asinh(x): log1p(|x| + x^2 / (1 + sqrt(x^2 + 1))), or log(2 |x|) for large x, with the
    sign of x."""
    a = x.abs()
    square = a * a
    argument = a + square / ((square + 1.0).sqrt() + 1.0)
    large = _large(a)
    result = log1p(where(large, a - 1.0, argument)) + where(large, a.like(LN2), 0.0)
    return result.with_sign_of(x)


def acosh(x: Lanes) -> Lanes:
    """Return acosh(x): log1p(t + sqrt(2 t + t^2)) with t = x - 1; log(2 x) for large x."""
    t = x - 1.0
    argument = t + fma(t, t, t * 2.0).sqrt()
    large = _large(x)
    result = log1p(where(large, t, argument)) + where(large, x.like(LN2), 0.0)
    return where(x.is_("olt", 1.0), math.nan, result)


def atanh(x: Lanes) -> Lanes:
    """Return atanh(x): log1p(2 |x| / (1 - |x|)) / 2 with the sign of x."""
    a = x.abs()
    return (log1p((a + a) / (1.0 - a)) * 0.5).with_sign_of(x)
