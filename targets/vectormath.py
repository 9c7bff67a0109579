"""Ops with vector code, and their accuracy: facts for the choice of kernels."""

from __future__ import annotations

EXACT = 0.5
"""The error of a correctly rounded result, in ULP."""

BOUNDS: dict[str, dict[int, float]] = {
    "arith.remf": {32: 0.0, 64: 0.0},
    "math.absf": {32: 0.0, 64: 0.0},
    "math.ceil": {32: 0.0, 64: 0.0},
    "math.copysign": {32: 0.0, 64: 0.0},
    "math.floor": {32: 0.0, 64: 0.0},
    "math.round": {32: 0.0, 64: 0.0},
    "math.roundeven": {32: 0.0, 64: 0.0},
    "math.trunc": {32: 0.0, 64: 0.0},
    "math.fma": {32: EXACT, 64: EXACT},
    "math.sqrt": {32: EXACT, 64: EXACT},
    "math.rsqrt": {32: 1.5, 64: 1.5},
    "math.exp": {32: 1.0, 64: 1.2},
    "math.exp2": {32: 1.0, 64: 1.0},
    "math.expm1": {32: 1.7, 64: 2.0},
    "math.log": {32: 1.0, 64: 1.0},
    "math.log2": {32: 1.4, 64: 1.5},
    "math.log10": {32: 1.4, 64: 1.5},
    "math.log1p": {32: 1.6, 64: 1.6},
    "math.sinh": {32: 1.7, 64: 1.8},
    "math.cosh": {32: 1.6, 64: 1.7},
    "math.tanh": {32: 2.6, 64: 2.7},
    "math.asinh": {32: 2.0, 64: 2.0},
    "math.acosh": {32: 2.1, 64: 2.1},
    "math.atanh": {32: 2.3, 64: 2.3},
    "math.erf": {32: 2.0, 64: 2.0},
    "math.sin": {32: 2.4, 64: 2.0},
    "math.cos": {32: 2.4, 64: 2.0},
    "math.tan": {32: 4.5, 64: 4.0},
    "math.asin": {32: 2.6, 64: 2.5},
    "math.acos": {32: 1.5, 64: 2.5},
    "math.atan": {32: 1.9, 64: 2.5},
    "math.powf": {32: 0.7, 64: 1.1},
}
"""The largest error in ULP, by op name and element width in bits.

The bounds hold for all arguments, huge angles and denormals included; f32 was measured on one in
sixty of all floats. On AVX-512, which looks coefficients up by interval, f32 is more accurate: erf
by 1.3, tanh by 1.7. Without fused multiply-add (`sse`), errors may be one unit larger. Infinities,
NaN and the sign of zero follow IEEE 754 and C's math.h.
"""


def supports(name: str, element_bits: int) -> bool:
    """Return whether an op, such as `math.exp`, has vector code for floats of this width."""
    return element_bits in BOUNDS.get(name, {})
