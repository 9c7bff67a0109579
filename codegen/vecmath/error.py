"""erf for f32."""

from __future__ import annotations

from tessella.codegen.vecmath import pieces
from tessella.codegen.vecmath.coefficients import ERF
from tessella.codegen.vecmath.exponential import expm1_bounded
from tessella.codegen.vecmath.lanes import Lanes, fma, polynomial
from tessella.codegen.vecmath.piecewise import piecewise


def erf(x: Lanes) -> Lanes:
    """1 - exp(-g) with g = -log(erfc(|x|)), which is nearly a parabola, as a polynomial.

    The error of g matters the less, the closer the result is to 1; and no division is needed.
    By intervals where coefficients can be looked up.
    """
    if x.w.target.table_lanes:
        return piecewise(x, pieces.ERF)
    a = x.abs().at_most(3.95)
    g = fma(a, polynomial(a, ERF), a)
    return expm1_bounded(-g).with_sign_of(x)
