"""Reductions and other functions along axes."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from tessella.dialects import nn
from tessella.dialects.nn.core import NnOp
from tessella.frontends.emitter import Value
from tessella.frontends.trace.dispatch import ACCUMULATIONS, FUNCTIONS
from tessella.frontends.trace.function import function
from tessella.frontends.trace.movement import Shape, as_axes, as_axis
from tessella.frontends.trace.promote import cast, floating, precise
from tessella.frontends.trace.traced import DType, Trace, Traced
from tessella.frontends.trace.ufuncs import BOOL
from tessella.runtime.elements import as_dtype
from tessella.support.decisions import differs
from tessella.support.errors import ShapeError


def reduced_dtype(
    reduce: Callable[..., Any], x: Value, dtype: npt.DTypeLike | None = None
) -> DType:
    """Return the dtype of a reduction of ``x``: the given one, or the one of NumPy's function
    ``reduce``."""
    return (
        as_dtype(dtype)
        if dtype is not None
        else precise(reduce(np.ones(1, x.dtype)).dtype, x.dtype)
    )


def _reduce(op: type[NnOp], x: Value, axis: Shape | None, keepdims: bool) -> Value:
    return x.op(op, axes=as_axes(axis, x.rank), keepdims=bool(keepdims))


@function
def sum(
    trace: Trace,
    x: npt.ArrayLike,
    axis: Shape | None = None,
    keepdims: bool = False,
    dtype: npt.DTypeLike | None = None,
) -> Value:
    """Return the sum over axes, or of all elements."""
    value = trace.lift(x)
    value = cast(trace, value, reduced_dtype(np.sum, value, dtype))
    return _reduce(nn.ReduceSumOp, value, axis, keepdims)


@function
def prod(
    trace: Trace,
    x: npt.ArrayLike,
    axis: Shape | None = None,
    keepdims: bool = False,
    dtype: npt.DTypeLike | None = None,
) -> Value:
    """Return the product over axes, or of all elements."""
    value = trace.lift(x)
    value = cast(trace, value, reduced_dtype(np.prod, value, dtype))
    return _reduce(nn.ReduceProdOp, value, axis, keepdims)


@function
def mean(
    trace: Trace,
    x: npt.ArrayLike,
    axis: Shape | None = None,
    keepdims: bool = False,
    dtype: npt.DTypeLike | None = None,
) -> Value:
    """Return the mean over axes, or of all elements."""
    value = trace.lift(x)
    value = cast(trace, value, reduced_dtype(np.mean, value, dtype))
    return _reduce(nn.ReduceMeanOp, value, axis, keepdims)


@function
def max(trace: Trace, x: npt.ArrayLike, axis: Shape | None = None, keepdims: bool = False) -> Value:
    """Return the maximum over axes, or of all elements; NaN if any of these elements is NaN."""
    return _extreme(trace, nn.ReduceMaxOp, x, axis, keepdims)


@function
def min(trace: Trace, x: npt.ArrayLike, axis: Shape | None = None, keepdims: bool = False) -> Value:
    """Return the minimum over axes, or of all elements; NaN if any of these elements is NaN."""
    return _extreme(trace, nn.ReduceMinOp, x, axis, keepdims)


def _extreme(
    trace: Trace, op: type[NnOp], x: npt.ArrayLike, axis: Shape | None, keepdims: bool
) -> Value:
    value = trace.lift(x)
    if any(not differs(value.shape[d], 0) for d in as_axes(axis, value.rank)):
        raise ShapeError("an empty array has no maximum or minimum", found=str(value.shape))
    return _reduce(op, value, axis, keepdims)


def _test(op: type[NnOp]):
    """Return NumPy's function `any` or `all` for traced arrays, by its op."""

    def body(
        trace: Trace, x: npt.ArrayLike, axis: Shape | None = None, keepdims: bool = False
    ) -> Value:
        return _reduce(op, cast(trace, trace.lift(x), BOOL), axis, keepdims)

    return function(body)


@function
def _var(
    trace: Trace,
    x: npt.ArrayLike,
    axis: Shape | None = None,
    keepdims: bool = False,
    ddof: float = 0,
) -> Traced:
    lifted = trace.lift(x)
    value: Any = Traced(trace, cast(trace, lifted, reduced_dtype(np.var, lifted, None)))
    centred = value - value.mean(axis=axis, keepdims=True)
    count = math.prod(value.shape[d] for d in as_axes(axis, value.ndim)) - ddof
    return (centred * centred).sum(axis=axis, keepdims=keepdims) / builtins.max(count, 0)


@function
def _std(
    trace: Trace,
    x: npt.ArrayLike,
    axis: Shape | None = None,
    keepdims: bool = False,
    ddof: float = 0,
) -> Traced:
    variance: Any = _var(Traced(trace, trace.lift(x)), axis, keepdims, ddof)
    return np.sqrt(variance)


def _arg(op: type[NnOp]):
    """Return NumPy's function `argmax` or `argmin` for traced arrays, by its op."""

    def body(
        trace: Trace,
        x: npt.ArrayLike,
        axis: SupportsIndex | None = None,
        keepdims: bool = False,
    ) -> Value:
        value = trace.lift(x)
        flat = value if axis is not None else value.flat()
        along = as_axis(axis or 0, flat.rank)
        result = flat.op(op, axis=along, keepdims=keepdims, select_last_index=False)
        return result.reshape([1] * value.rank) if axis is None and keepdims else result

    return function(body)


def _cumulative(op: type[nn.CumulativeOp], accumulate: Callable[..., Any]):
    """Return NumPy's cumulative function for traced arrays, by its op. It runs along an axis, or
    over all elements."""

    def body(
        trace: Trace,
        x: npt.ArrayLike,
        axis: SupportsIndex | None = None,
        dtype: npt.DTypeLike | None = None,
    ) -> Value:
        value = trace.lift(x)
        if axis is None:
            value = value.flat()
        return _along(trace, op, accumulate, value, as_axis(axis or 0, value.rank), dtype)

    return function(body)


def _accumulate(ufunc: np.ufunc, op: type[nn.CumulativeOp]):
    """Return the method ``accumulate`` of a ufunc for traced arrays, by its op."""

    def body(
        trace: Trace,
        x: npt.ArrayLike,
        axis: SupportsIndex = 0,
        dtype: npt.DTypeLike | None = None,
    ) -> Value:
        value = trace.lift(x)
        return _along(trace, op, ufunc.accumulate, value, as_axis(axis, value.rank), dtype)

    return function(body)


def _along(
    trace: Trace,
    op: type[nn.CumulativeOp],
    accumulate: Callable[..., Any],
    x: Value,
    axis: int,
    dtype: npt.DTypeLike | None,
) -> Value:
    """Emit a cumulative op along an axis, in the dtype that NumPy's function ``accumulate`` has.
    Sums of booleans are maxima, and products are minima."""
    found = reduced_dtype(accumulate, x, dtype)
    if found == BOOL:
        op = _OF_BOOLEANS.get(op, op)
    return cast(trace, x, found).op(op, axis=axis, exclusive=False, reverse=False)


_OF_BOOLEANS: dict[type[nn.CumulativeOp], type[nn.CumulativeOp]] = {
    nn.CumsumOp: nn.CummaxOp,
    nn.CumprodOp: nn.CumminOp,
}


@function
def softmax(trace: Trace, x: npt.ArrayLike, axis: SupportsIndex = -1) -> Value:
    """Return e^x / sum(e^x) along an axis."""
    (value,) = floating(trace, x)
    return value.op(nn.SoftmaxOp, axis=as_axis(axis, value.rank))


@function
def log_softmax(trace: Trace, x: npt.ArrayLike, axis: SupportsIndex = -1) -> Value:
    """Return x - log(sum(e^x)) along an axis."""
    (value,) = floating(trace, x)
    return value.op(nn.LogSoftmaxOp, axis=as_axis(axis, value.rank))


FUNCTIONS.update(
    {
        np.sum: sum,
        np.prod: prod,
        np.mean: mean,
        np.max: max,
        np.min: min,
        np.any: _test(nn.ReduceMaxOp),
        np.all: _test(nn.ReduceMinOp),
        np.var: _var,
        np.std: _std,
        np.argmax: _arg(nn.ArgMaxOp),
        np.argmin: _arg(nn.ArgMinOp),
        np.cumsum: _cumulative(nn.CumsumOp, np.cumsum),
        np.cumprod: _cumulative(nn.CumprodOp, np.cumprod),
    }
)
ACCUMULATIONS.update(
    {
        ufunc: _accumulate(ufunc, op)
        for ufunc, op in (
            (np.add, nn.CumsumOp),
            (np.multiply, nn.CumprodOp),
            (np.maximum, nn.CummaxOp),
            (np.minimum, nn.CumminOp),
            (np.logical_or, nn.CummaxOp),
            (np.logical_and, nn.CumminOp),
        )
    }
)
