"""Converters of reductions, cumulative ops, softmax and sorting."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tessella.dialects import nn
from tessella.dialects.nn.core import normalise_axis
from tessella.frontends.emitter import Array, DType, Emitter, Value, where
from tessella.frontends.shapes import resolved_shape
from tessella.frontends.torch.ops.creation import filled, positions
from tessella.frontends.torch.ops.elementwise import cast, truth
from tessella.frontends.torch.promote import DEFAULT, floating, is_whole
from tessella.frontends.torch.registry import Converter, aten, refuse
from tessella.support.decisions import known
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
    return x.cast(np.int64) if is_whole(x) else x


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


# ** distances **


def _differences(a: Value, b: Value) -> Value:
    """Emit the differences [.., rows of a, rows of b, columns]."""
    *batch, rows, columns = a.shape
    *others, count, _ = b.shape
    return a.reshape((*batch, rows, 1, columns)) - b.reshape((*others, 1, count, columns))


@aten("_cdist_forward")
def cdist(emit: Emitter, a: Value, b: Value, p: float, mode: int | None) -> Value:
    return vector_norm(emit, _differences(a, b), p, -1)


@aten("_cdist_backward")
def cdist_backward(
    emit: Emitter, grad: Value, a: Value, b: Value, p: float, distances: Value
) -> Value:
    if p == 0:  # a number of elements
        return filled(emit, 0, a.shape, a.dtype)
    difference = _differences(a, b)
    size, norm, given = abs(difference), distances.column(), grad.column()
    if p == math.inf:
        share = where(size.equals(norm), 1.0, norm.like(0))
    else:
        share = size.like(1.0) if p == 1 else (size / norm) ** (p - 1)
    part = where(size.equals(0) | norm.equals(0), 0, difference.op(nn.SignOp) * share * given)
    return part.sum([part.rank - 2]).expand(a.shape)


@aten("dist")
def dist(emit: Emitter, a: Value, b: Value, p: float = 2) -> Value:
    left, right = floating(emit, a, b)
    return vector_norm(emit, left - right, p)


def _pairs(x: Value) -> list[Array]:
    """Return the rows of all pairs of different rows."""
    if not isinstance(x.shape[0], int):
        raise refuse("the distances of an unknown number of rows", x.shape[0])
    return [*np.triu_indices(x.shape[0], 1)]


@aten("_pdist_forward", note="a known number of rows")
def pdist(emit: Emitter, x: Value, p: float = 2) -> Value:
    first, second = (x.gather(emit.constant(rows), 0) for rows in _pairs(x))
    return vector_norm(emit, first - second, p, -1)


@aten("_pdist_backward", note="a known number of rows")
def pdist_backward(emit: Emitter, grad: Value, x: Value, p: float, distances: Value) -> Value:
    first, second = _pairs(x)
    places = np.full((x.shape[0],) * 2, len(first))
    places[first, second] = places[second, first] = np.arange(len(first))
    matrices = (v.pad([0], [1]).gather(emit.constant(places), 0) for v in (grad, distances))
    of_pairs, between = matrices
    return cdist_backward(emit, of_pairs, x, x, p, between)


# ** statistics **


def _squared(x: Value) -> Value:
    """Emit the squares of the absolute values."""
    return (x * x.op(nn.ConjOp)).op(nn.RealOp) if x.is_complex else x * x


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
    squares = _squared(centered).sum(axes, keepdims=keepdim)
    kept = (
        average if keepdim else average.reshape([n for d, n in enumerate(x.shape) if d not in axes])
    )
    left = emit.scalar(count, np.int64).cast(squares.dtype) - (
        1 if correction is None else correction
    )
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


def _extremes(op: type[nn.NnOp], keeps: type[nn.NnOp]) -> Converter:
    def convert(emit: Emitter, x: Value, dim: int) -> tuple[Value, Value]:
        index = np.dtype(np.int64)
        if not x.rank:
            return x, filled(emit, 0, (), index)
        axis = normalise_axis(dim, x.rank)
        found = _cumulative(x, op, axis)
        column = [-1 if d == axis else 1 for d in range(x.rank)]
        shape = resolved_shape((x.shape[axis],), column)
        places = positions(emit, x.shape[axis]).reshape(shape).expand(x.shape)
        is_new = x.equals(found)
        if x.is_float:
            is_new = is_new | x.op(nn.IsNanOp)
        return found, _cumulative(where(is_new, places, 0), keeps, axis)

    return convert


aten("cummax")(_extremes(nn.CummaxOp, nn.CummaxOp))
aten("cummin")(_extremes(nn.CumminOp, nn.CummaxOp))


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


@aten("kthvalue")
def kthvalue(
    emit: Emitter, x: Value, k: int, dim: int = -1, keepdim: bool = False
) -> tuple[Value, ...]:
    if not x.rank:
        return x, filled(emit, 0, (), np.dtype(np.int64))
    axis = normalise_axis(dim, x.rank)
    sorted = emit.emit(nn.TopkOp, x, k=k, axis=axis, largest=False)
    kept = [n for d, n in enumerate(x.shape) if d != axis or keepdim]
    shape = [1 if keepdim and d == axis else n for d, n in enumerate(kept)]
    return tuple(each.part(axis, k - 1, 1).reshape(shape) for each in sorted)


@aten("median.dim")
def median_dim(emit: Emitter, x: Value, dim: int = -1, keepdim: bool = False) -> tuple[Value, ...]:
    """Emit the lower median, which is NaN where an element is."""
    count = known(x.shape[dim]) if x.rank else 1
    values, places = kthvalue(emit, x, (count + 1) // 2, dim, keepdim)
    if not x.is_float or not x.rank:
        return values, places
    is_nan = x.op(nn.IsNanOp)
    has_nan, first = max_dim(emit, is_nan.cast(np.int64), dim, keepdim)
    return where(truth(has_nan), math.nan, values), where(truth(has_nan), first, places)


@aten("median")
def median(emit: Emitter, x: Value) -> Value:
    return median_dim(emit, x.flat(), 0)[0]


@aten("nanmedian.dim")
def nanmedian_dim(
    emit: Emitter, x: Value, dim: int = -1, keepdim: bool = False
) -> tuple[Value, ...]:
    """Emit the lower median of the numbers, which is NaN if there is none."""
    if not x.is_float or not x.rank:
        return median_dim(emit, x, dim, keepdim)
    axis = normalise_axis(dim, x.rank)
    numbers = (~x.op(nn.IsNanOp)).cast(np.int64).sum([axis], keepdims=True)
    middle = where(numbers > 0, (numbers - 1) / 2, 0)
    shape = middle.shape if keepdim else [n for d, n in enumerate(x.shape) if d != axis]
    # NaN comes last
    found = [each.op(nn.GatherElementsOp, middle, axis=axis) for each in sort(emit, x, axis)]
    return tuple(each.reshape(shape) for each in found)


@aten("nanmedian")
def nanmedian(emit: Emitter, x: Value) -> Value:
    return nanmedian_dim(emit, x.flat(), 0)[0]


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
