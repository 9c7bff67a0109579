"""Converters of reductions, cumulative ops, softmax and sorting."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tessella.dialects import nn
from tessella.dialects.nn.core import normalise_axis
from tessella.frontends.emitter import DType, Emitter, Value, where
from tessella.frontends.torch.ops.creation import filled
from tessella.frontends.torch.ops.elementwise import cast, truth
from tessella.frontends.torch.promote import DEFAULT, floating
from tessella.frontends.torch.registry import aten, refuse
from tessella.support.sizes import Size, product

Dims = Sequence[int] | int | None


def axes_of(x: Value, dim: Dims) -> list[int]:
    """Return the dimensions of a reduction, counted from the front: all, if none is given."""
    given = [dim] if isinstance(dim, int) else list(dim or range(x.rank))
    return sorted(normalise_axis(d, x.rank) for d in given) if x.rank else []


def _summed(x: Value, dtype: DType | None) -> Value:
    """Return the operand of a sum, in the element type of the result: integers are added up as
    int64."""
    if dtype is not None:
        return cast(x.emitter, x, dtype)
    return x if x.is_float else x.cast(np.int64)


@aten("sum", "sum.dim_IntList")
def sum_(
    emit: Emitter, x: Value, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Value:
    wide = _summed(x, dtype)
    return wide.sum(axes_of(x, dim), keepdims=keepdim) if x.rank else wide


@aten("mean", "mean.dim")
def mean(
    emit: Emitter, x: Value, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Value:
    wide = x if dtype is None else x.cast(dtype)
    return wide.mean(axes_of(x, dim), keepdims=keepdim) if x.rank else wide


@aten("prod", "prod.dim_int")
def prod(
    emit: Emitter, x: Value, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Value:
    wide = _summed(x, dtype)
    if not x.rank:
        return wide
    return wide.op(nn.ReduceProdOp, axes=tuple(axes_of(x, dim)), keepdims=keepdim)


def _extreme(x: Value, op: type[nn.NnOp], dim: Dims, keepdim: bool) -> Value:
    return x.op(op, axes=tuple(axes_of(x, dim)), keepdims=keepdim) if x.rank else x


@aten("amax", "max")
def amax(emit: Emitter, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return _extreme(x, nn.ReduceMaxOp, dim, keepdim)


@aten("amin", "min")
def amin(emit: Emitter, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return _extreme(x, nn.ReduceMinOp, dim, keepdim)


@aten("any", "any.dim", "any.dims")
def any_(emit: Emitter, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return _extreme(truth(x), nn.ReduceMaxOp, dim, keepdim)


@aten("all", "all.dim", "all.dims")
def all_(emit: Emitter, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    return _extreme(truth(x), nn.ReduceMinOp, dim, keepdim)


def _place(x: Value, op: type[nn.NnOp], dim: int | None, keepdim: bool) -> Value:
    if not x.rank:
        return filled(x.emitter, 0, (), np.dtype(np.int64))
    flat = x.flat() if dim is None else x
    axis = normalise_axis(dim or 0, flat.rank)
    place = flat.op(op, axis=axis, keepdims=keepdim and dim is not None, select_last_index=False)
    return place.reshape([1] * x.rank) if keepdim and dim is None else place


@aten("argmax")
def argmax(emit: Emitter, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return _place(x, nn.ArgMaxOp, dim, keepdim)


@aten("argmin")
def argmin(emit: Emitter, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    return _place(x, nn.ArgMinOp, dim, keepdim)


@aten("max.dim")
def max_dim(emit: Emitter, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    return amax(emit, x, dim, keepdim), argmax(emit, x, dim, keepdim)


@aten("min.dim")
def min_dim(emit: Emitter, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, Value]:
    return amin(emit, x, dim, keepdim), argmin(emit, x, dim, keepdim)


# ** statistics **


@aten("var_mean.correction")
def var_mean(
    emit: Emitter,
    x: Value,
    dim: Dims = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[Value, Value]:
    axes = axes_of(x, dim)
    average = x.mean(axes, keepdims=True)
    centered = x - average
    count = product(x.shape[d] for d in axes)
    squares = (centered * centered).sum(axes, keepdims=keepdim)
    kept = (
        average if keepdim else average.reshape([n for d, n in enumerate(x.shape) if d not in axes])
    )
    left = emit.scalar(count, np.int64).cast(x.dtype) - (1 if correction is None else correction)
    # without elements that count, the variance is NaN or infinite
    return squares / left.op(nn.MaxOp, left.like(0)), kept


@aten("var.correction")
def var(
    emit: Emitter,
    x: Value,
    dim: Dims = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Value:
    return var_mean(emit, x, dim, correction=correction, keepdim=keepdim)[0]


@aten("std.correction")
def std(
    emit: Emitter,
    x: Value,
    dim: Dims = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Value:
    return var(emit, x, dim, correction=correction, keepdim=keepdim).op(nn.SqrtOp)


@aten("linalg_vector_norm")
def vector_norm(
    emit: Emitter,
    x: Value,
    ord: float = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Value:
    size = abs(x if dtype is None else x.cast(dtype))
    if ord == math.inf:
        return amax(emit, size, dim, keepdim)
    if ord == -math.inf:
        return amin(emit, size, dim, keepdim)
    if ord == 0:
        return sum_(emit, cast(emit, truth(size), size.dtype), dim, keepdim)
    if ord == 1:
        return sum_(emit, size, dim, keepdim)
    if ord == 2:
        return sum_(emit, size * size, dim, keepdim).op(nn.SqrtOp)
    return sum_(emit, size**ord, dim, keepdim) ** (1 / ord)


@aten("logsumexp")
def logsumexp(emit: Emitter, x: Value, dim: Dims, keepdim: bool = False) -> Value:
    (wide,) = floating(emit, x)
    if not x.rank:
        return wide
    axes = axes_of(x, dim)
    top = wide.max(axes, keepdims=True)
    # an infinite maximum would give inf - inf = NaN
    top = where(top.op(nn.IsInfOp), 0, top)
    total = (wide - top).op(nn.ExpOp).sum(axes, keepdims=keepdim)
    return total.op(nn.LogOp) + top.reshape(total.shape)


# ** along an axis **


@aten("cumsum")
def cumsum(emit: Emitter, x: Value, dim: int, *, dtype: DType | None = None) -> Value:
    return _cumulative(_summed(x, dtype), nn.CumsumOp, dim)


@aten("cumprod")
def cumprod(emit: Emitter, x: Value, dim: int, *, dtype: DType | None = None) -> Value:
    return _cumulative(_summed(x, dtype), nn.CumprodOp, dim)


def _cumulative(x: Value, op: type[nn.NnOp], dim: int) -> Value:
    if not x.rank:
        return x
    return x.op(op, axis=normalise_axis(dim, x.rank), exclusive=False, reverse=False)


@aten("_softmax")
def softmax(emit: Emitter, x: Value, dim: int, half_to_float: bool = False) -> Value:
    wide = x.cast(DEFAULT) if half_to_float else x
    if not x.rank:
        return filled(emit, 1, (), wide.dtype)
    return wide.op(nn.SoftmaxOp, axis=normalise_axis(dim, x.rank))


@aten("_safe_softmax")
def safe_softmax(emit: Emitter, x: Value, dim: int, dtype: DType | None = None) -> Value:
    """Emit a softmax that is 0 where all elements are -inf."""
    wide = x if dtype is None else x.cast(dtype)
    is_masked = wide.max(axes_of(x, dim), keepdims=True).equals(-math.inf)
    return where(is_masked, 0, softmax(emit, wide, dim))


@aten("_log_softmax")
def log_softmax(emit: Emitter, x: Value, dim: int, half_to_float: bool = False) -> Value:
    wide = x.cast(DEFAULT) if half_to_float else x
    if not x.rank:
        return filled(emit, 0, (), wide.dtype)
    return wide.op(nn.LogSoftmaxOp, axis=normalise_axis(dim, x.rank))


@aten("topk")
def topk(
    emit: Emitter, x: Value, k: Size, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Value, ...]:
    if not x.rank:
        raise refuse("topk of a scalar")
    axis = normalise_axis(dim, x.rank)
    return emit.emit(nn.TopkOp, x, k=k, axis=axis, largest=largest)


@aten("sort", "sort.stable")
def sort(
    emit: Emitter,
    x: Value,
    dim: int = -1,
    descending: bool = False,
    *,
    stable: bool | None = None,
) -> tuple[Value, ...]:
    if not x.rank:
        return x, filled(emit, 0, (), np.dtype(np.int64))
    axis = normalise_axis(dim, x.rank)
    return emit.emit(nn.TopkOp, x, k=x.shape[axis], axis=axis, largest=descending)
