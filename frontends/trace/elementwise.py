"""Elementwise functions for users: some of NumPy's, and functions that NumPy lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tessella.dialects import nn
from tessella.frontends import emitter
from tessella.frontends.emitter import Value
from tessella.frontends.trace.dispatch import FUNCTIONS
from tessella.frontends.trace.function import function
from tessella.frontends.trace.promote import as_operand, cast, common, common_dtype, floating
from tessella.frontends.trace.traced import Array, Trace, Traced
from tessella.frontends.trace.ufuncs import BOOL, apply
from tessella.runtime.elements import as_dtype
from tessella.runtime.host.elementwise import ROWS
from tessella.support.errors import ShapeError

F = TypeVar("F", bound=Callable[..., Any])


class Unary(Protocol):
    """An elementwise function of one array."""

    def __call__(self, x: npt.ArrayLike) -> Array: ...


class Binary(Protocol):
    """An elementwise function of two arrays, which broadcast."""

    def __call__(self, x: npt.ArrayLike, y: npt.ArrayLike) -> Array: ...


def _called(name: str, op: str, body: F) -> F:
    """Return ``body`` with the given name and the docstring of the `nn` op ``op``."""
    body.__name__ = body.__qualname__ = name
    body.__doc__ = nn.OPS[op].__doc__
    return body


def _numpy(name: str) -> Unary:
    """Return a function of arrays that NumPy has too, by the name of its `nn` op."""
    ufunc = ROWS[name].ufunc
    assert ufunc is not None

    def body(trace: Trace, x: npt.ArrayLike) -> Traced:
        return apply(trace, ufunc, x)

    return function(_called(name, name, body))


def _binary(ufunc: np.ufunc, op: str) -> Binary:
    def body(trace: Trace, x: npt.ArrayLike, y: npt.ArrayLike) -> Traced:
        return apply(trace, ufunc, x, y)

    return function(_called(ufunc.__name__, op, body))


def _smooth(name: str) -> Unary:
    """Return a function of arrays that NumPy lacks, by the name of its `nn` op. It converts
    integers to floats as ``np.exp`` does."""

    def body(trace: Trace, x: npt.ArrayLike) -> Traced:
        (value,) = floating(trace, x)
        return Traced(trace, value.op(nn.OPS[name]), isinstance(x, Traced) and x.weak)

    return function(_called(name, name, body))


exp = _numpy("exp")
log = _numpy("log")
sqrt = _numpy("sqrt")
tanh = _numpy("tanh")
sin = _numpy("sin")
cos = _numpy("cos")
abs = _numpy("abs")
maximum = _binary(np.maximum, "max")
minimum = _binary(np.minimum, "min")
erf = _smooth("erf")
sigmoid = _smooth("sigmoid")
silu = _smooth("silu")


@function
def relu(trace: Trace, x: npt.ArrayLike) -> Value:
    """Return max(x, 0), elementwise."""
    (value,) = common(trace, x)
    return value.op(nn.ReluOp)


@function
def gelu(trace: Trace, x: npt.ArrayLike, approximate: bool = False) -> Value:
    """Return x/2 * (1 + erf(x / sqrt 2)), or its approximation by tanh, elementwise."""
    (value,) = floating(trace, x)
    return value.op(nn.GeluTanhOp if approximate else nn.GeluOp)


@function
def clip(
    trace: Trace,
    x: npt.ArrayLike,
    low: npt.ArrayLike | None = None,
    high: npt.ArrayLike | None = None,
) -> Value:
    """Return min(max(x, low), high), elementwise. A bound may be None."""
    bounds = {np.maximum: low, np.minimum: high}
    given = {ufunc: bound for ufunc, bound in bounds.items() if bound is not None}
    result, *values = common(trace, x, *given.values())
    for ufunc, bound in zip(given, values, strict=True):
        result = apply(trace, ufunc, result, bound).value
    return result


@function
def where(trace: Trace, condition: npt.ArrayLike, x: npt.ArrayLike, y: npt.ArrayLike) -> Value:
    """Return x where the condition is true, otherwise y, elementwise. All three arrays
    broadcast."""
    return emitter.where(cast(trace, as_operand(condition), BOOL), *common(trace, x, y))


@function
def astype(trace: Trace, x: npt.ArrayLike, dtype: npt.DTypeLike) -> Value:
    """Convert the elements to another dtype; floats beyond an integer type's range saturate."""
    return cast(trace, as_operand(x), as_dtype(dtype))


@function
def _real(trace: Trace, val: npt.ArrayLike) -> Value:
    return trace.lift(val).op(nn.RealOp)


@function
def _imag(trace: Trace, val: npt.ArrayLike) -> Value:
    return trace.lift(val).op(nn.ImagOp)


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
        np.real: _real,
        np.imag: _imag,
        np.result_type: lambda *operands: common_dtype(operands),
        "astype": _astype_method,
    }
)
