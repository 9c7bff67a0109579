"""Functions that only move elements, such as reshape and concatenate."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from tessella.dialects import nn
from tessella.dialects.nn.core import normalise_axis, shapes_differ
from tessella.frontends.emitter import Value, concat
from tessella.frontends.shapes import resolved_shape
from tessella.frontends.trace.dispatch import FUNCTIONS
from tessella.frontends.trace.function import function
from tessella.frontends.trace.promote import common
from tessella.frontends.trace.size import TracedSize, as_size
from tessella.frontends.trace.traced import Trace, Traced
from tessella.support.decisions import decided_zero, differs
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size

Shape = SupportsIndex | Sequence[SupportsIndex]


def as_ints(values: Shape) -> tuple[int, ...]:
    """Return a number, or a sequence of numbers, as a tuple of Python integers."""
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if isinstance(values, Sequence):
        return tuple(map(operator.index, values))
    return (operator.index(values),)


def as_sizes(values: Shape) -> tuple[Size, ...]:
    """Return a size, or a sequence of sizes, as a tuple; symbolic sizes become expressions."""
    if isinstance(values, Sequence):
        return tuple(map(as_size, values))
    return (as_size(values),) if isinstance(values, TracedSize) else as_ints(values)


def as_axes(axis: Shape | None, rank: int) -> tuple[int, ...]:
    """Return axes as nonnegative numbers; all axes for None. Raises ShapeError if an axis is out of
    range or given twice."""
    if axis is None:
        return tuple(range(rank))
    axes = as_ints(axis)
    if axes and not rank:
        raise ShapeError("a scalar has no axes", found=str(axis))
    places = tuple(normalise_axis(each, rank) for each in axes)
    if len(set(places)) != len(places):
        raise ShapeError("an axis is given twice", found=str(axis))
    return places


def as_axis(axis: SupportsIndex, rank: int) -> int:
    """Return an axis as a nonnegative number. Raises ShapeError if it is out of range, or not a
    single number."""
    axes = as_axes(axis, rank)
    if len(axes) != 1 or isinstance(axis, Sequence):
        raise ShapeError("one axis is needed", expected="a number", found=str(axis))
    return axes[0]


@function
def reshape(trace: Trace, x: npt.ArrayLike, shape: Shape) -> Value:
    """Return the elements in row-major order in another shape. One size may be -1, which is
    inferred."""
    value = trace.lift(x)
    return value.reshape(resolved_shape(value.shape, as_sizes(shape)))


@function
def transpose(trace: Trace, x: npt.ArrayLike, axes: Sequence[SupportsIndex] | None = None) -> Value:
    """Return the array with its dimensions in the order ``axes``, or in reverse order."""
    value = trace.lift(x)
    perm = tuple(range(value.rank))[::-1] if axes is None else as_axes(axes, value.rank)
    return value.transpose(perm)


@function
def expand_dims(trace: Trace, x: npt.ArrayLike, axis: Shape) -> Value:
    """Return the array with new dimensions of size 1, at the positions ``axis`` of the result."""
    return _expanded(trace.lift(x), as_ints(axis))


def _expanded(value: Value, added: Sequence[int]) -> Value:
    rank = value.rank + len(added)
    places = as_axes(added, rank)
    sizes = iter(value.shape)
    return value.reshape([1 if d in places else next(sizes) for d in range(rank)])


@function
def squeeze(trace: Trace, x: npt.ArrayLike, axis: Shape | None = None) -> Value:
    """Return the array without the dimensions ``axis``, which must have size 1, or without all
    dimensions of size 1."""
    value = trace.lift(x)
    ones = [d for d, size in enumerate(value.shape) if not differs(size, 1)]
    gone = ones if axis is None else as_axes(axis, value.rank)
    if any(d not in ones for d in gone):
        raise ShapeError(
            "a dimension to be squeezed is not of size 1", expected=str(ones), found=str(list(gone))
        )
    return value.reshape([n for d, n in enumerate(value.shape) if d not in gone])


@function
def broadcast_to(trace: Trace, x: npt.ArrayLike, shape: Shape) -> Value:
    """Return the array repeated along new leading dimensions, and along dimensions of size 1."""
    return trace.lift(x).expand(as_sizes(shape))


@function
def concatenate(
    trace: Trace, arrays: Sequence[npt.ArrayLike], axis: SupportsIndex | None = 0
) -> Value:
    """Return arrays joined along an axis, or flattened and joined if ``axis`` is None."""
    values = common(trace, *arrays)
    if axis is None:
        values = [x.flat() for x in values]
    if not values or any(not x.rank for x in values):
        raise ShapeError(
            "nothing to concatenate", expected="arrays of at least one dimension", found=str(values)
        )
    return concat(values, as_axis(axis or 0, values[0].rank))


@function
def stack(trace: Trace, arrays: Sequence[npt.ArrayLike], axis: SupportsIndex = 0) -> Value:
    """Return arrays of the same shape joined along a new axis."""
    values = common(trace, *arrays)
    if not values or any(shapes_differ(x.shape, values[0].shape) for x in values):
        raise ShapeError(
            "only arrays of one shape can be stacked", found=", ".join(str(x.shape) for x in values)
        )
    along = as_axis(axis, values[0].rank + 1)
    return concat([_expanded(x, [along]) for x in values], along)


@function
def _copy(trace: Trace, x: npt.ArrayLike) -> Traced:
    copied = Traced(trace, trace.lift(x), isinstance(x, Traced) and x.weak)
    copied.is_copy = True
    return copied


@function
def _swapaxes(trace: Trace, x: npt.ArrayLike, axis1: SupportsIndex, axis2: SupportsIndex) -> Value:
    value = trace.lift(x)
    order = list(range(value.rank))
    a, b = as_axis(axis1, value.rank), as_axis(axis2, value.rank)
    order[a], order[b] = b, a
    return value.transpose(order)


@function
def _moveaxis(trace: Trace, x: npt.ArrayLike, source: Shape, destination: Shape) -> Value:
    value = trace.lift(x)
    moved, targets = as_axes(source, value.rank), as_axes(destination, value.rank)
    order = [d for d in range(value.rank) if d not in moved]
    for target, axis in sorted(zip(targets, moved, strict=True)):
        order.insert(target, axis)
    return value.transpose(order)


@function
def _flip(trace: Trace, x: npt.ArrayLike, axis: Shape | None = None) -> Value:
    value = trace.lift(x)
    axes = as_axes(axis, value.rank)
    steps = [-1 if d in axes else 1 for d in range(value.rank)]
    last = {d: n - 1 for d, n in enumerate(value.shape) if d in axes and not decided_zero(n)}
    starts = [last.get(d, 0) for d in range(value.rank)]
    return value.slice(starts, value.shape, steps)


@function
def _tile(trace: Trace, x: npt.ArrayLike, reps: Shape) -> Value:
    value, repeats = trace.lift(x), as_sizes(reps)
    rank = max(value.rank, len(repeats))
    padded = value.reshape((*[1] * (rank - value.rank), *value.shape))
    ones = (1,) * (rank - len(repeats))
    return padded.op(nn.TileOp, repeats=(*ones, *repeats))


_PLAIN: dict[Callable[..., Any], Callable[[Any], Any]] = {
    np.ravel: lambda x: reshape(x, -1),
    np.shape: lambda x: x.shape,
    np.ndim: lambda x: x.ndim,
    np.size: lambda x: x.size,
}

FUNCTIONS.update(
    {
        np.reshape: reshape,
        np.copy: _copy,
        np.transpose: transpose,
        np.expand_dims: expand_dims,
        np.squeeze: squeeze,
        np.broadcast_to: broadcast_to,
        np.concatenate: concatenate,
        np.stack: stack,
        np.swapaxes: _swapaxes,
        np.moveaxis: _moveaxis,
        np.flip: _flip,
        np.tile: _tile,
        **_PLAIN,
    }
)
