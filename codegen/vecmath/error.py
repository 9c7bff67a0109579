"""erf."""

from __future__ import annotations

from tessella.codegen.vecmath import pieces
from tessella.codegen.vecmath.coefficients import ERF, ERF_64, ERFC_64, TWO_OVER_ROOT_PI
from tessella.codegen.vecmath.exponential import exp, expm1_bounded
from tessella.codegen.vecmath.lanes import Lanes, fma, polynomial, where
from tessella.codegen.vecmath.piecewise import piecewise


def erf(x: Lanes) -> Lanes:
    """Return erf(x) as 1 - exp(-g), with g = -log(erfc(|x|)) as a polynomial; g is close to a
    parabola.

    The closer the result is to 1, the less the error of g matters, and no division is needed.
    Targets that look up coefficients in registers use a polynomial for each interval. f64 has other
    formulas.
    """
    if x.type.bits == 64:
        return _erf_64(x)
    if x.w.target.table_lanes:
        return piecewise(x, pieces.ERF)
    a = x.abs().at_most(3.95)
    g = fma(a, polynomial(a, ERF), a)
    return expm1_bounded(-g).with_sign_of(x)


def _erf_64(x: Lanes) -> Lanes:
    """Return erf(x) of f64: x P(x^2) for |x| < 1, otherwise 1 - exp(-x^2) Q(t) t with t = 1 / (x +
    3). The result rounds to 1 from 5.95 on."""
    a = x.abs()
    square = a * a
    high, low = TWO_OVER_ROOT_PI
    near = fma(a, high, a * fma(square, polynomial(square, ERF_64), low))
    b = a.at_most(5.95)
    t = 1.0 / (b + 3.0)
    far = 1.0 - exp(-(b * b)) * (polynomial(t, ERFC_64) * t)
    return where(a.is_("olt", 1.0), near, far).with_sign_of(x)
