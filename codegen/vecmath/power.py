"""pow for f32: 2^(y log2 |x|) in f64, which leaves no error of the product to repair."""

from __future__ import annotations

import math

from tessella.codegen.vecmath.coefficients import LOG2_E, POW_EXP2, POW_LOG2
from tessella.codegen.vecmath.exponential import FORMATS, nearest, power_of_two
from tessella.codegen.vecmath.lanes import Lanes, fma, polynomial, where
from tessella.codegen.vecmath.logarithm import split_normal


def _log2(magnitude: Lanes) -> Lanes:
    """log2 of an f32's magnitude, as f64, in which its denormals are normal numbers."""
    k, f = split_normal(magnitude.cast("fpext", "f64"))
    result = fma(f * f, polynomial(f, POW_LOG2), fma(f, LOG2_E, k))
    result = where(magnitude.is_("oeq", 0.0), -math.inf, result)
    return where(magnitude.is_("oeq", math.inf), math.inf, result)


def _exp2(exponent: Lanes) -> Lanes:
    """2^exponent as f32; the f64 on the way has room for all of f32's powers."""
    exponent = exponent.at_most(140.0).at_least(-160.0)
    power = nearest(exponent + FORMATS[64].magic)
    r = exponent - power.n
    wide = fma(r, polynomial(r, POW_EXP2), 1.0) * power_of_two(power)
    return wide.cast("fptrunc", "f32")


def powf(x: Lanes, y: Lanes) -> Lanes:
    """x^y with the special cases of IEEE 754's pow."""
    magnitude = x.abs()
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
