"""Functions that only move elements."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from tessella.dialects import nn
from tessella.dialects.nn.core import normalise_axis, shapes_differ
from tessella.frontends.trace.dispatch import FUNCTIONS
from tessella.frontends.trace.function import function
from tessella.frontends.trace.promote import common
from tessella.frontends.trace.size import TracedSize, as_size
from tessella.frontends.trace.traced import Trace, Traced
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size, differs, product

Shape = SupportsIndex | Sequence[SupportsIndex]


def as_ints(values: Shape) -> tuple[int, ...]:
    """A number, or several, as a tuple of Python numbers."""
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if isinstance(values, Sequence):
        return tuple(map(operator.index, values))
    return (operator.index(values),)


def as_sizes(values: Shape) -> tuple[Size, ...]:
    """A size, or several, as a tuple of numbers and expressions."""
    if isinstance(values, Sequence):
        return tuple(map(as_size, values))
    return (as_size(values),) if isinstance(values, TracedSize) else as_ints(values)


def as_axes(axis: Shape | None, rank: int) -> tuple[int, ...]:
    """Axes counted from the front; all of them for None. Raises ShapeError."""
    if axis is None:
        return tuple(range(rank))
    axes = as_ints(axis)
    if axes and not rank:
        raise ShapeError("a scalar has no axes", found=str(axis))
    return tuple(normalise_axis(each, rank) for each in axes)


def as_axis(axis: SupportsIndex, rank: int) -> int:
    """One axis counted from the front. Raises ShapeError."""
    axes = as_axes(axis, rank)
    if len(axes) != 1 or isinstance(axis, Sequence):
        raise ShapeError("one axis is needed", expected="a number", found=str(axis))
    return axes[0]


@function
def reshape(trace: Trace, x: npt.ArrayLike, shape: Shape) -> Traced:
    """The elements in row-major order in another shape; one size may be -1, which is computed."""
    value = trace.lift(x)
    sizes, total = list(as_sizes(shape)), product(value.sizes)
    known = product(size for size in sizes if differs(size, -1))
    if sizes.count(-1) == 1 and known and total % known == 0:
        sizes[sizes.index(-1)] = total // known
    if differs(product(sizes), total) or any(size < 0 for size in sizes):
        raise ShapeError(
            f"an array of {total} elements does not fit into the shape",
            expected=f"{total} elements, as {value.sizes} has; at most one size is -1",
            found=str(as_sizes(shape)),
        )
    return trace.reshape(value, sizes)


@function
def transpose(
    trace: Trace, x: npt.ArrayLike, axes: Sequence[SupportsIndex] | None = None
) -> Traced:
    """The dimensions in the order ``axes``, or in reverse order."""
    value = trace.lift(x)
    perm = tuple(range(value.ndim))[::-1] if axes is None else as_axes(axes, value.ndim)
    return trace.transpose(value, perm)


@function
def expand_dims(trace: Trace, x: npt.ArrayLike, axis: Shape) -> Traced:
    """New dimensions of size 1, at the positions ``axis`` of the result."""
    value = trace.lift(x)
    added = as_ints(axis)
    rank = value.ndim + len(added)
    places = as_axes(added, rank)
    if len(set(places)) != len(places):
        raise ShapeError("an axis is given twice", found=str(added))
    sizes = iter(value.sizes)
    shape = [1 if d in places else next(sizes) for d in range(rank)]
    return trace.reshape(value, shape)


@function
def squeeze(trace: Trace, x: npt.ArrayLike, axis: Shape | None = None) -> Traced:
    """The array without the dimensions ``axis``, or all, of size 1."""
    value = trace.lift(x)
    ones = [d for d, size in enumerate(value.sizes) if not differs(size, 1)]
    gone = ones if axis is None else as_axes(axis, value.ndim)
    if any(d not in ones for d in gone):
        raise ShapeError(
            "a dimension to be squeezed is not of size 1", expected=str(ones), found=str(list(gone))
        )
    return trace.reshape(value, [n for d, n in enumerate(value.sizes) if d not in gone])


@function
def broadcast_to(trace: Trace, x: npt.ArrayLike, shape: Shape) -> Traced:
    """The array repeated along new dimensions, and along those of size 1."""
    return trace.expand(trace.lift(x), as_sizes(shape))


@function
def concatenate(
    trace: Trace, arrays: Sequence[npt.ArrayLike], axis: SupportsIndex | None = 0
) -> Traced:
    """Arrays one after another along an axis; flattened ones for None."""
    values = common(trace, *arrays)
    if axis is None:
        values = [trace.lift(reshape(x, -1)) for x in values]
    if not values or any(not x.ndim for x in values):
        raise ShapeError(
            "nothing to concatenate", expected="arrays of at least one dimension", found=str(values)
        )
    return trace.emit(nn.ConcatOp, values, axis=as_axis(axis or 0, values[0].ndim))


@function
def stack(trace: Trace, arrays: Sequence[npt.ArrayLike], axis: SupportsIndex = 0) -> Traced:
    """Arrays of one shape one after another along a new axis."""
    values = common(trace, *arrays)
    if not values or any(shapes_differ(x.sizes, values[0].sizes) for x in values):
        raise ShapeError(
            "only arrays of one shape can be stacked", found=", ".join(str(x.sizes) for x in values)
        )
    return trace.lift(concatenate([expand_dims(x, axis) for x in values], axis))


@function
def _copy(trace: Trace, x: npt.ArrayLike) -> Traced:
    value = trace.lift(x)
    copied = Traced(trace, value.value, value.weak)
    copied.is_copy = True
    return copied


@function
def _swapaxes(trace: Trace, x: npt.ArrayLike, axis1: SupportsIndex, axis2: SupportsIndex) -> Traced:
    value = trace.lift(x)
    order = list(range(value.ndim))
    a, b = as_axes((axis1, axis2), value.ndim)
    order[a], order[b] = b, a
    return trace.lift(transpose(value, order))


@function
def _moveaxis(trace: Trace, x: npt.ArrayLike, source: Shape, destination: Shape) -> Traced:
    value = trace.lift(x)
    moved, targets = as_axes(source, value.ndim), as_axes(destination, value.ndim)
    order = [d for d in range(value.ndim) if d not in moved]
    for target, axis in sorted(zip(targets, moved, strict=True)):
        order.insert(target, axis)
    return trace.lift(transpose(value, order))


@function
def _flip(trace: Trace, x: npt.ArrayLike, axis: Shape | None = None) -> Traced:
    value: Any = trace.lift(x)
    axes = as_axes(axis, value.ndim)
    return value[tuple(slice(None, None, -1 if d in axes else 1) for d in range(value.ndim))]


@function
def _tile(trace: Trace, x: npt.ArrayLike, reps: Shape) -> Traced:
    value, repeats = trace.lift(x), as_sizes(reps)
    rank = max(value.ndim, len(repeats))
    padded = trace.reshape(value, (*[1] * (rank - value.ndim), *value.sizes))
    ones = (1,) * (rank - len(repeats))
    return trace.emit(nn.TileOp, [padded], repeats=(*ones, *repeats))


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
