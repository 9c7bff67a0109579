"""sinh, cosh, tanh: from exponentials, or by intervals."""

from __future__ import annotations

from tessella.codegen.vecmath import pieces
from tessella.codegen.vecmath.coefficients import SINH
from tessella.codegen.vecmath.exponential import expm1_bounded, scaled_exp
from tessella.codegen.vecmath.lanes import Lanes, fma, polynomial, where
from tessella.codegen.vecmath.piecewise import piecewise


def sinh(x: Lanes) -> Lanes:
    """Return sinh(x): x + x^3 P(x^2) for |x| <= 1, otherwise h - 1 / (4 h) with h = exp(|x|) / 2
    and the sign of x."""
    magnitude = x.abs()
    square = x * x
    near = fma(x * square, polynomial(square, SINH[x.type.bits]), x)
    half = scaled_exp(magnitude, -1)
    far = (half - 0.25 / half).with_sign_of(x)
    return where(magnitude.is_("ole", 1.0), near, far)


def cosh(x: Lanes) -> Lanes:
    """Return cosh(x): h + 1 / (4 h) with h = exp(|x|) / 2."""
    half = scaled_exp(x.abs(), -1)
    return half + 0.25 / half


def tanh(x: Lanes) -> Lanes:
    """Return tanh(x): -E / (E + 2) with E = expm1(-2 |x|), which is accurate near 0 and near 1, and
    the sign of x.

    Targets that look up coefficients in registers use a polynomial for each interval for f32.
    """
    if x.w.target.table_lanes and x.type.bits == 32:
        return piecewise(x, pieces.TANH)
    e = expm1_bounded(x.abs() * -2.0)
    return (e / (e + 2.0)).with_sign_of(x)
