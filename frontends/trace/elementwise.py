"""Elementwise functions for users: some of NumPy's, and those that NumPy lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tessella.dialects import nn
from tessella.dialects.nn.core import NnOp
from tessella.frontends.trace.dispatch import FUNCTIONS
from tessella.frontends.trace.function import function
from tessella.frontends.trace.promote import as_operand, cast, common, common_dtype, floating
from tessella.frontends.trace.traced import Array, Trace, Traced
from tessella.frontends.trace.ufuncs import BOOL, apply
from tessella.support.errors import ShapeError

F = TypeVar("F", bound=Callable[..., Any])


class Unary(Protocol):
    """An elementwise function of one array."""

    def __call__(self, x: npt.ArrayLike) -> Array: ...


class Binary(Protocol):
    """An elementwise function of two arrays, which are broadcast."""

    def __call__(self, x: npt.ArrayLike, y: npt.ArrayLike) -> Array: ...


def _called(body: F, name: str, doc: str) -> F:
    body.__name__ = body.__qualname__ = name
    body.__doc__ = doc
    return body


def _unary(name: str, ufunc: np.ufunc, doc: str) -> Unary:
    def body(trace: Trace, x: npt.ArrayLike) -> Traced:
        return apply(trace, ufunc, x)

    return function(_called(body, name, doc))


def _binary(name: str, ufunc: np.ufunc, doc: str) -> Binary:
    def body(trace: Trace, x: npt.ArrayLike, y: npt.ArrayLike) -> Traced:
        return apply(trace, ufunc, x, y)

    return function(_called(body, name, doc))


def _smooth(name: str, op: type[NnOp], doc: str) -> Unary:
    """A function that NumPy lacks; integers become floating-point numbers as for ``np.exp``."""

    def body(trace: Trace, x: npt.ArrayLike) -> Traced:
        result = trace.emit(op, floating(trace, x))
        return Traced(trace, result.value, isinstance(x, Traced) and x.weak)

    return function(_called(body, name, doc))


exp = _unary("exp", np.exp, "Elementwise e^x.")
log = _unary("log", np.log, "Elementwise natural logarithm.")
sqrt = _unary("sqrt", np.sqrt, "Elementwise square root.")
tanh = _unary("tanh", np.tanh, "Elementwise hyperbolic tangent.")
sin = _unary("sin", np.sin, "Elementwise sine.")
cos = _unary("cos", np.cos, "Elementwise cosine.")
abs = _unary("abs", np.absolute, "Elementwise absolute value.")
maximum = _binary("maximum", np.maximum, "Elementwise larger of two arrays; NaN if either is.")
minimum = _binary("minimum", np.minimum, "Elementwise smaller of two arrays; NaN if either is.")
erf = _smooth("erf", nn.ErfOp, "Elementwise error function.")
sigmoid = _smooth("sigmoid", nn.SigmoidOp, "Elementwise 1 / (1 + e^-x).")
silu = _smooth("silu", nn.SiluOp, "Elementwise x * sigmoid(x).")


@function
def relu(trace: Trace, x: npt.ArrayLike) -> Traced:
    """Elementwise max(x, 0)."""
    return trace.emit(nn.ReluOp, common(trace, x))


@function
def gelu(trace: Trace, x: npt.ArrayLike, approximate: bool = False) -> Traced:
    """Elementwise x/2 * (1 + erf(x / sqrt 2)), or its approximation by tanh."""
    return trace.emit(nn.GeluTanhOp if approximate else nn.GeluOp, floating(trace, x))


@function
def clip(
    trace: Trace,
    x: npt.ArrayLike,
    low: npt.ArrayLike | None = None,
    high: npt.ArrayLike | None = None,
) -> Traced:
    """Elementwise min(max(x, low), high); a bound that is None does not apply."""
    bounds = {np.maximum: low, np.minimum: high}
    given = {ufunc: bound for ufunc, bound in bounds.items() if bound is not None}
    result, *values = common(trace, x, *given.values())
    for ufunc, bound in zip(given, values, strict=True):
        result = apply(trace, ufunc, result, bound)
    return result


@function
def where(trace: Trace, condition: npt.ArrayLike, x: npt.ArrayLike, y: npt.ArrayLike) -> Traced:
    """Elementwise: x where the condition holds, else y. All three are broadcast."""
    return trace.emit(nn.WhereOp, [cast(trace, as_operand(condition), BOOL), *common(trace, x, y)])


@function
def astype(trace: Trace, x: npt.ArrayLike, dtype: npt.DTypeLike) -> Traced:
    """The elements converted to another dtype; floats beyond an integer type's range saturate."""
    return cast(trace, as_operand(x), np.dtype(dtype))


def _np_where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None or y is None:
        raise ShapeError(
            "np.where(condition) has a shape that depends on the elements",
            hint="choose elements with np.where(condition, x, y)",
        )
    return where(condition, x, y)


def _astype_method(x: Any, dtype: Any, copy: bool = True) -> Any:
    return astype(x, dtype)


FUNCTIONS.update(
    {
        np.where: _np_where,
        np.clip: clip,
        np.result_type: lambda *operands: common_dtype(operands),
        "astype": _astype_method,
    }
)
