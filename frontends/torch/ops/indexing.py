"""Converters of ops that read or write at indices."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tessella.dialects import nn
from tessella.dialects.nn.core import broadcast_shapes, normalise_axis
from tessella.frontends.emitter import DType, Emitter, Value, concat, where
from tessella.frontends.torch.ops.creation import filled
from tessella.frontends.torch.ops.elementwise import floor_divided, truth
from tessella.frontends.torch.promote import Operand, lifted
from tessella.frontends.torch.registry import aten, refuse
from tessella.support.sizes import Size, product


def _indices(x: Value) -> Value:
    """Return indices as int32 or int64, which gathers take."""
    return x if x.dtype == np.int32 else x.cast(np.int64)


@aten("embedding")
def embedding(emit: Emitter, weight: Value, indices: Value, *_: object) -> Value:
    return weight.gather(_indices(indices), 0)


@aten("embedding_dense_backward")
def embedding_dense_backward(
    emit: Emitter, grad: Value, indices: Value, rows: Size, padding: int, by_frequency: bool
) -> Value:
    if by_frequency:
        raise refuse("a gradient scaled by frequency")
    width = grad.shape[-1]
    places = _indices(indices).flat()
    given = grad.reshape((*places.shape, width))
    if padding >= 0:
        given = where(places.equals(padding).reshape((*places.shape, 1)), 0, given)
    zeros = filled(emit, 0, (rows, width), grad.dtype)
    at = places.reshape((*places.shape, 1))
    return zeros.op(nn.ScatterNdOp, at, given, reduction="add")


@aten("index_select")
def index_select(emit: Emitter, x: Value, dim: int, index: Value) -> Value:
    if not x.rank:
        return x
    return x.gather(_indices(index).flat(), normalise_axis(dim, x.rank))


def _within(x: Value, shape: Sequence[Size], axis: int | None) -> Value:
    """Return the part of a tensor at the front that has a shape, in all dimensions but one."""
    sizes = [n if d == axis else m for d, (n, m) in enumerate(zip(x.shape, shape, strict=True))]
    return x.slice([0] * x.rank, sizes)


@aten("gather")
def gather(emit: Emitter, x: Value, dim: int, index: Value, **_: object) -> Value:
    if not x.rank or 0 in index.shape:  # without elements, an index has any rank
        return filled(emit, 0, index.shape, x.dtype) if x.rank else x.expand(index.shape)
    if not index.rank:
        return gather(emit, x, dim, index.reshape((1,))).reshape(())
    axis = normalise_axis(dim, x.rank)
    return _within(x, index.shape, axis).op(nn.GatherElementsOp, _indices(index), axis=axis)


REDUCTIONS = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _neutral(reduce: str, dtype: DType) -> float:
    """Return the number that changes no other one in a reduction."""
    if reduce not in ("amax", "amin"):
        return int(reduce == "prod")
    if dtype == np.bool_:
        return int(reduce == "amin")
    if dtype.kind not in "iu":
        return -math.inf if reduce == "amax" else math.inf
    limits = np.iinfo(dtype)
    return int(limits.min if reduce == "amax" else limits.max)


def _scattered(x: Value, dim: int, index: Value, source: Operand, reduction: str = "none") -> Value:
    if 0 in index.shape:
        return x
    if not x.rank or not index.rank:
        wide, at = x.reshape(x.shape or (1,)), index.reshape(index.shape or (1,))
        given = source.reshape(source.shape or (1,)) if isinstance(source, Value) else source
        return _scattered(wide, dim, at, given, reduction).reshape(x.shape)
    axis = normalise_axis(dim, x.rank)
    updates = lifted(x.emitter, source, x.dtype)
    updates = _within(updates, index.shape, None) if updates.rank else updates.expand(index.shape)
    return x.op(nn.ScatterElementsOp, _indices(index), updates, axis=axis, reduction=reduction)


@aten("scatter.src", "scatter.value")
def scatter(emit: Emitter, x: Value, dim: int, index: Value, source: Operand) -> Value:
    return _scattered(x, dim, index, source)


@aten("scatter_add")
def scatter_add(emit: Emitter, x: Value, dim: int, index: Value, source: Value) -> Value:
    return _scattered(x, dim, index, source, "add")


@aten("scatter_reduce.two")
def scatter_reduce(
    emit: Emitter,
    x: Value,
    dim: int,
    index: Value,
    source: Value,
    reduce: str,
    *,
    include_self: bool = True,
) -> Value:
    if not include_self:
        x = _scattered(x, dim, index, _neutral(reduce, x.dtype))
    total = _scattered(x, dim, index, source, REDUCTIONS[reduce])
    if reduce != "mean":
        return total
    counts = filled(emit, int(include_self), x.shape, x.dtype)
    counts = _scattered(counts, dim, index, filled(emit, 1, index.shape, x.dtype), "add")
    counts = counts.op(nn.MaxOp, counts.like(1))
    return total / counts if total.is_float else floor_divided(total, counts)


# ** by a mask **


def _order(mask: Value) -> Value:
    """Emit for each place of a flat mask the number of true elements before it, at least 0."""
    total = mask.cast(np.int64).op(nn.CumsumOp, axis=0, exclusive=False, reverse=False)
    return (total - 1).op(nn.MaxOp, total.like(0))


@aten("masked_scatter")
def masked_scatter(emit: Emitter, x: Value, mask: Value, source: Value) -> Value:
    shape = broadcast_shapes([x.shape, mask.shape])
    if 0 in (*shape, *source.shape):
        return x.expand(shape)
    wide = truth(mask).expand(shape)
    given = source.cast(x.dtype).flat().gather(_order(wide.flat()), 0)
    return where(wide, given.reshape(shape), x)


@aten("masked_scatter_backward")
def masked_scatter_backward(
    emit: Emitter, grad: Value, mask: Value, sizes: Sequence[Size]
) -> Value:
    zeros = filled(emit, 0, (product(sizes),), grad.dtype)
    if 0 in (*sizes, *grad.shape):
        return zeros.reshape(sizes)
    flat = truth(mask).expand(grad.shape).flat()
    given = where(flat, grad.flat(), 0)
    added = zeros.op(nn.ScatterElementsOp, _order(flat), given, axis=0, reduction="add")
    return added.reshape(sizes)


# ** several indices **

BOOLEANS = ("bool", "uint8")
"""The element types of indices that are masks."""


class Places:
    """The dimensions of a tensor that tensors index, and the indices, broadcast and stacked."""

    def __init__(self, x: Value, indices: Sequence[Value | None]) -> None:
        given = {d: index for d, index in enumerate(indices) if index is not None}
        for index in given.values():
            if index.dtype.name in BOOLEANS:
                raise refuse("an index of booleans, whose result has an unknown size")
        self.axes = [*given]
        self.others = [d for d in range(x.rank) if d not in given]
        self.shape = broadcast_shapes([index.shape for index in given.values()])
        columns = [_indices(index).cast(np.int64).expand(self.shape) for index in given.values()]
        self.indices = concat([c.reshape((*self.shape, 1)) for c in columns], len(self.shape))
        is_run = self.axes[-1] - self.axes[0] + 1 == len(self.axes)
        self.first = self.axes[0] if is_run else 0
        """The dimension of the result at which those of the indices stand."""

    @property
    def forward(self) -> list[int]:
        """The order that puts the dimensions of the indices, which come first, to their place."""
        count = len(self.shape)
        before = [count + i for i in range(self.first)]
        return [*before, *range(count), *range(count + self.first, count + len(self.others))]

    @property
    def backward(self) -> list[int]:
        """The inverse order."""
        return [int(i) for i in np.argsort(self.forward)]

    def in_front(self, x: Value) -> Value:
        """Emit the tensor with the indexed dimensions first."""
        return x.transpose([*self.axes, *self.others])

    def back(self, x: Value) -> Value:
        """Emit the inverse of ``in_front``."""
        return x.transpose([int(i) for i in np.argsort([*self.axes, *self.others])])


@aten("index.Tensor", "_unsafe_index.Tensor", note="not by booleans")
def index(emit: Emitter, x: Value, indices: Sequence[Value | None]) -> Value:
    given = [i for i in indices if i is not None]
    if not given:
        return x
    if len(given) == 1 and given[0].dtype.name not in BOOLEANS:
        return x.gather(_indices(given[0]), [*indices].index(given[0]))
    places = Places(x, indices)
    found = places.in_front(x).op(nn.GatherNdOp, places.indices, batch_dims=0)
    return found.transpose(places.forward)


@aten("index_put", "_unsafe_index_put", note="by booleans only a number")
def index_put(
    emit: Emitter,
    x: Value,
    indices: Sequence[Value | None],
    values: Value,
    accumulate: bool = False,
) -> Value:
    given = [i for i in indices if i is not None]
    if len(given) == 1 and given[0].dtype == np.bool_ and not values.rank:
        start = [*indices].index(given[0])
        after = x.rank - start - given[0].rank
        mask = given[0].reshape((*given[0].shape, *[1] * after))
        return where(mask, x + values if accumulate else values.cast(x.dtype), x)
    places = Places(x, indices)
    moved = places.in_front(x)
    shape = (*places.shape, *moved.shape[len(places.axes) :])
    stands = [shape[d] for d in places.forward]
    updates = values.cast(x.dtype).expand(tuple(stands)).transpose(places.backward)
    reduction = "add" if accumulate else "none"
    return places.back(moved.op(nn.ScatterNdOp, places.indices, updates, reduction=reduction))
