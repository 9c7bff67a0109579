"""Ufuncs that consist of several ops. They are written as NumPy code, which is traced in turn.

The operands already have the dtype in which NumPy computes.
"""

# Arrays of the type ``Any`` are traced arrays: NumPy code on them is recorded as ops.

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tessella.frontends.trace.traced import Traced

Unary = Callable[[Any], Any]

_where: Callable[[Any, Any, Any], Any] = np.where


def is_float(x: Any) -> bool:
    """Return whether the elements of an array are floating-point numbers."""
    return x.dtype.kind == "f"


def _floor_divide(a: Any, b: Any) -> Any:
    quotient = Traced(a.trace, a.value / b.value)
    if not is_float(a):
        # `nn.div` rounds towards zero. NumPy rounds down, and its quotient by 0 is 0.
        is_rounded_up = ((a < 0) != (b < 0)) & (a != quotient * b) & (b != 0)
        return _where(is_rounded_up, quotient - 1, quotient)
    rest = a % b
    # The remainder is b only if a / b is in (-1, 0) and too small to distinguish from 0.
    rounded = _where(rest == b, -1.0, np.rint((a - rest) / b))
    return _where(b == 0, quotient, rounded)


def _power(a: Any, b: Any) -> Any:
    return a.value**b.value


def _reciprocal(x: Any) -> Any:
    return 1 / x.value


def _everywhere(answer: bool) -> Unary:
    """Return a function that returns ``answer`` for all elements of an array."""
    return lambda x: x.trace.emitter.splat(answer, x.sizes, np.bool_)


def same(x: Any) -> Any:
    """Return the operand."""
    return x


def _trunc(x: Any) -> Any:
    return _where(x < 0, np.ceil(x), np.floor(x))


def _log1p(x: Any) -> Any:
    # the quotient compensates for the rounding of 1 + x (Kahan)
    more = 1 + x
    exact = np.log(more) * (x / (more - 1))
    return _where(more == 1, x, _where(np.isinf(more), np.log(more), exact))


def _expm1(x: Any) -> Any:
    power = np.exp(x)
    less = power - 1
    exact = less * (x / np.log(power))
    coarse = (less == -1) | np.isinf(power)
    return _where(power == 1, x, _where(coarse, less, exact))


OF_INTEGERS: Mapping[np.ufunc, Unary] = {
    np.reciprocal: _reciprocal,
    np.floor: same,
    np.ceil: same,
    np.rint: same,
    np.trunc: same,
    np.isnan: _everywhere(False),
    np.isinf: _everywhere(False),
    np.isfinite: _everywhere(True),
}
"""The functions that replace ufuncs of floats for integers and booleans."""

_UNARY: Mapping[np.ufunc, Unary] = {
    np.positive: same,
    np.square: lambda x: x * x,
    np.trunc: _trunc,
    np.isfinite: lambda x: abs(x) < math.inf,
    np.log1p: _log1p,
    np.expm1: _expm1,
    np.exp2: lambda x: 2.0**x,
}

_BINARY: Mapping[np.ufunc, Callable[[Any, Any], Any]] = {
    np.not_equal: lambda a, b: ~(a == b),
    np.floor_divide: _floor_divide,
    np.float_power: _power,
}

COMPOSITES: Mapping[np.ufunc, Callable[..., Any]] = {**_UNARY, **_BINARY}


def _is_finite(x: Any) -> Any:
    # the absolute value of a finite complex number may be infinite
    return ~(np.isnan(x) | np.isinf(x))


OF_COMPLEX: Mapping[np.ufunc, Callable[..., Any]] = {
    **{ufunc: COMPOSITES[ufunc] for ufunc in (np.positive, np.square, np.not_equal)},
    np.isfinite: _is_finite,
}
"""The composites of complex numbers."""
