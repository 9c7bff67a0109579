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
from tessella.frontends.trace.dispatch import FUNCTIONS
from tessella.frontends.trace.function import function
from tessella.frontends.trace.movement import Shape, as_axes, as_axis, reshape
from tessella.frontends.trace.promote import cast, floating, precise
from tessella.frontends.trace.traced import DType, Trace, Traced
from tessella.frontends.trace.ufuncs import BOOL
from tessella.support.errors import ShapeError
from tessella.support.sizes import differs


def _dtype(reduce: Callable[..., Any], x: Traced, dtype: npt.DTypeLike | None) -> DType:
    """The dtype that NumPy's reduction has for arrays of this dtype."""
    return (
        np.dtype(dtype)
        if dtype is not None
        else precise(reduce(np.ones(1, x.dtype)).dtype, x.dtype)
    )


def _reduce(trace: Trace, op: type[NnOp], x: Traced, axis: Shape | None, keepdims: bool) -> Traced:
    return trace.emit(op, [x], axes=as_axes(axis, x.ndim), keepdims=bool(keepdims))


@function
def sum(
    trace: Trace,
    x: npt.ArrayLike,
    axis: Shape | None = None,
    keepdims: bool = False,
    dtype: npt.DTypeLike | None = None,
) -> Traced:
    """The sum over axes, or all elements."""
    value = trace.lift(x)
    value = cast(trace, value, _dtype(np.sum, value, dtype))
    return _reduce(trace, nn.ReduceSumOp, value, axis, keepdims)


@function
def prod(
    trace: Trace,
    x: npt.ArrayLike,
    axis: Shape | None = None,
    keepdims: bool = False,
    dtype: npt.DTypeLike | None = None,
) -> Traced:
    """The product over axes, or of all elements."""
    value = trace.lift(x)
    value = cast(trace, value, _dtype(np.prod, value, dtype))
    return _reduce(trace, nn.ReduceProdOp, value, axis, keepdims)


@function
def mean(
    trace: Trace,
    x: npt.ArrayLike,
    axis: Shape | None = None,
    keepdims: bool = False,
    dtype: npt.DTypeLike | None = None,
) -> Traced:
    """The mean over axes, or of all elements."""
    value = trace.lift(x)
    value = cast(trace, value, _dtype(np.mean, value, dtype))
    return _reduce(trace, nn.ReduceMeanOp, value, axis, keepdims)


@function
def max(
    trace: Trace, x: npt.ArrayLike, axis: Shape | None = None, keepdims: bool = False
) -> Traced:
    """The largest element over axes, or of all; NaN if any is."""
    return _extreme(trace, nn.ReduceMaxOp, x, axis, keepdims)


@function
def min(
    trace: Trace, x: npt.ArrayLike, axis: Shape | None = None, keepdims: bool = False
) -> Traced:
    """The smallest element over axes, or of all; NaN if any is."""
    return _extreme(trace, nn.ReduceMinOp, x, axis, keepdims)


def _extreme(
    trace: Trace, op: type[NnOp], x: npt.ArrayLike, axis: Shape | None, keepdims: bool
) -> Traced:
    value = trace.lift(x)
    if any(not differs(value.sizes[d], 0) for d in as_axes(axis, value.ndim)):
        raise ShapeError("there is no largest or smallest of no elements", found=str(value.sizes))
    return _reduce(trace, op, value, axis, keepdims)


def _test(op: type[NnOp]):
    """Whether any or all elements hold."""

    def body(
        trace: Trace, x: npt.ArrayLike, axis: Shape | None = None, keepdims: bool = False
    ) -> Traced:
        return _reduce(trace, op, cast(trace, trace.lift(x), BOOL), axis, keepdims)

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
    value: Any = cast(trace, lifted, _dtype(np.var, lifted, None))
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
    variance: Any = _var(trace.lift(x), axis, keepdims, ddof)
    return np.sqrt(variance)


def _arg(op: type[NnOp]):
    """Where the largest or smallest element is."""

    def body(
        trace: Trace,
        x: npt.ArrayLike,
        axis: SupportsIndex | None = None,
        keepdims: bool = False,
    ) -> Traced:
        value = trace.lift(x)
        flat = value if axis is not None else trace.lift(reshape(value, -1))
        along = as_axis(axis or 0, flat.ndim)
        result = trace.emit(op, [flat], axis=along, keepdims=keepdims, select_last_index=False)
        if axis is None and keepdims:
            return trace.lift(reshape(result, [1] * value.ndim))
        return result

    return function(body)


@function
def _cumsum(
    trace: Trace,
    x: npt.ArrayLike,
    axis: SupportsIndex | None = None,
    dtype: npt.DTypeLike | None = None,
) -> Traced:
    value = trace.lift(x)
    value = cast(trace, value, _dtype(np.cumsum, value, dtype))
    if axis is None:
        value = trace.lift(reshape(value, -1))
    along = as_axis(axis or 0, value.ndim)
    return trace.emit(nn.CumsumOp, [value], axis=along, exclusive=False, reverse=False)


@function
def softmax(trace: Trace, x: npt.ArrayLike, axis: SupportsIndex = -1) -> Traced:
    """e^x / sum(e^x) along an axis."""
    (value,) = floating(trace, x)
    return trace.emit(nn.SoftmaxOp, [value], axis=as_axis(axis, value.ndim))


@function
def log_softmax(trace: Trace, x: npt.ArrayLike, axis: SupportsIndex = -1) -> Traced:
    """x - log(sum(e^x)) along an axis."""
    (value,) = floating(trace, x)
    return trace.emit(nn.LogSoftmaxOp, [value], axis=as_axis(axis, value.ndim))


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
        np.cumsum: _cumsum,
    }
)
