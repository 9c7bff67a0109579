"""Indexing of traced arrays, and gathers at arrays of indices."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from tessella.dialects import nn
from tessella.dialects.nn.core import broadcast_shapes
from tessella.frontends.emitter import Value
from tessella.frontends.ranges import StridedIndices
from tessella.frontends.trace.dispatch import FUNCTIONS
from tessella.frontends.trace.function import function
from tessella.frontends.trace.movement import as_axis
from tessella.frontends.trace.promote import cast as converted
from tessella.frontends.trace.size import TracedSize, as_size
from tessella.frontends.trace.traced import Trace, Traced
from tessella.support.conditions import decided
from tessella.support.decisions import decided_zero
from tessella.support.errors import ShapeError, TessellaError
from tessella.support.sizes import Size

_INT64 = np.dtype(np.int64)


@dataclass
class _Plan:
    """An indexing expression, decomposed into a slice, then gathers along single axes, then a
    reshape."""

    shape: tuple[Size, ...]
    starts: list[Size] = field(default_factory=list[Size])
    sizes: list[Size] = field(default_factory=list[Size])
    steps: list[int] = field(default_factory=list[int])
    gathers: dict[int, Value] = field(default_factory=dict[int, Value])
    result: list[Size] = field(default_factory=list[Size])

    def slice(self, start: Size, size: Size, step: int) -> None:
        self.starts.append(0 if decided_zero(size) else start)
        self.sizes.append(size)
        self.steps.append(step)

    def keep(self, key: slice) -> None:
        """Slice the next axis, which the result keeps."""
        start, stop = (None if at is None else as_size(at) for at in (key.start, key.stop))
        step = 1 if key.step is None else operator.index(key.step)
        if step == 0:
            raise ValueError("slice step cannot be zero")
        steps = StridedIndices.sliced(slice(start, stop, step), self.shape[len(self.starts)])
        self.slice(steps.start, steps.count, step)
        self.result.append(self.sizes[-1])

    def drop(self, index: Size) -> None:
        """Select the element of the next axis at an index; the result does not have this axis."""
        axis = len(self.starts)
        size = self.shape[axis]
        if decided(index < -size) or decided(index >= size):
            raise ShapeError(
                f"the index of axis {axis} is out of range",
                expected=f"in [-{size}, {size})",
                found=str(index),
            )
        self.slice(index + size if decided(index < 0) else index, 1, 1)

    def gather(self, indices: Value) -> None:
        """Gather the elements of the next axis at these indices, whose axes replace it."""
        axis = len(self.starts)
        self.slice(0, self.shape[axis], 1)
        self.gathers[axis] = indices
        self.result += indices.shape


@function
def indexing(trace: Trace, x: npt.ArrayLike, key: Any) -> Value:
    """Return the value of ``x[key]``."""
    value = trace.lift(x)
    plan = _Plan(value.shape)
    for each in _checked(_expanded([_index(trace, k) for k in _keys(key)], value.rank)):
        if each is None:
            plan.result.append(1)
        elif isinstance(each, slice):
            plan.keep(each)
        elif isinstance(each, Value):
            plan.gather(each)
        else:
            plan.drop(each)
    value = value.slice(plan.starts, plan.sizes, plan.steps)
    for axis, indices in reversed(plan.gathers.items()):
        value = value.gather(indices, axis)
    return value.reshape(plan.result)


Index = Size | slice | None | Value


def _keys(key: Any) -> Sequence[Any]:
    return cast("tuple[Any, ...]", key) if isinstance(key, tuple) else (key,)


def _index(trace: Trace, key: Any) -> Any:
    """Return one index of a key as a number, slice, None or Ellipsis, or else as an array of
    indices. Raises ShapeError for an index that is not an integer."""
    if key is None or key is ... or isinstance(key, slice):
        return cast("slice | None", key)
    if isinstance(key, TracedSize):
        return key.size
    if not isinstance(key, Traced):
        key = np.asarray(key)
        if key.dtype.kind in "iu" and not key.shape:
            return operator.index(key.item())
        key = key if key.size else key.astype(_INT64)
    if key.dtype.kind not in "iu":
        raise ShapeError(
            "an array can be indexed by integers, slices, None and ...",
            found=f"an index of type {key.dtype.name}",
            hint="in place of x[mask] choose elements with tessella.where(mask, x, other): the "
            "shape of a result cannot depend on elements",
        )
    return as_indices(trace, key)


def as_indices(trace: Trace, indices: npt.ArrayLike | Value) -> Value:
    """Return indices of any integer type as int32 or int64, which gathers take. Raises ShapeError
    for other types."""
    value = trace.lift(indices)
    if value.dtype.kind not in "iu":
        raise ShapeError("indices must be integers", found=value.dtype.name)
    return value if value.dtype == np.int32 else value.cast(_INT64)


def _expanded(keys: Sequence[Any], rank: int) -> list[Any]:
    """Return the indices of a key with ``...`` replaced by slices, one for each axis without an
    index. Raises ShapeError for too many indices."""
    count = sum(key is not None and key is not ... for key in keys)
    dots = [i for i, key in enumerate(keys) if key is ...]
    if count > rank or len(dots) > 1:
        raise ShapeError(
            "too many indices", expected=f"at most {rank}, and one ...", found=str(len(keys))
        )
    at = dots[0] if dots else len(keys)
    return [*keys[:at], *[slice(None)] * (rank - count), *keys[at + 1 :]]


def _checked(keys: Sequence[Any]) -> Sequence[Index]:
    """Return the indices of a key. Raises ShapeError for more than one array of indices, or if
    NumPy would move its axes to the front."""
    arrays = [i for i, key in enumerate(keys) if isinstance(key, Value) and key.rank]
    others = [i for i, key in enumerate(keys) if not (key is None or isinstance(key, slice))]
    if len(arrays) > 1:
        raise ShapeError(
            "an array can be indexed by one array at a time",
            found=f"{len(arrays)} arrays",
            hint="index in steps: x[a][:, b], or see tessella.take",
        )
    if arrays and others[-1] - others[0] >= len(others):
        raise ShapeError(
            "an integer and an array index an array with other axes between them",
            hint="index in steps, first by the integer",
        )
    return keys


@function
def take(
    trace: Trace, x: npt.ArrayLike, indices: npt.ArrayLike, axis: SupportsIndex | None = None
) -> Value:
    """Return the slices of ``x`` at ``indices`` along an axis, or the elements of the flattened
    ``x`` if ``axis`` is None.

    An index that is out of range is an ExecutionError when the program runs.
    """
    value = trace.lift(x)
    if axis is None:
        value = value.flat()
    along = as_axis(axis or 0, value.rank)
    return value.gather(as_indices(trace, indices), along)


@function
def _take_along_axis(
    trace: Trace, x: npt.ArrayLike, indices: npt.ArrayLike, axis: SupportsIndex | None = -1
) -> Value:
    value, places = trace.lift(x), as_indices(trace, indices)
    if axis is None:
        value = value.flat()
    if value.rank != places.rank:
        raise ShapeError("ranks differ", expected=str(value.rank), found=str(places.rank))
    along = as_axis(axis or 0, value.rank)
    shapes = [(*s[:along], 1, *s[along + 1 :]) for s in (value.shape, places.shape)]
    shape = broadcast_shapes(shapes)
    data, at = (
        v.expand((*shape[:along], v.shape[along], *shape[along + 1 :])) for v in (value, places)
    )
    return data.op(nn.GatherElementsOp, at, axis=along)


@function
def put_along_axis(
    trace: Trace,
    x: npt.ArrayLike,
    indices: npt.ArrayLike,
    values: npt.ArrayLike,
    axis: SupportsIndex | None,
) -> Value:
    """Return a copy of ``x`` with ``values`` at ``indices`` along an axis, or in the flattened
    ``x`` if ``axis`` is None.

    If several values are for one element, the last one stays, as in ``np.put_along_axis``.
    """
    start, places = trace.lift(x), as_indices(trace, indices)
    value = start if axis is not None else start.flat()
    if value.rank != places.rank:
        raise ShapeError("ranks differ", expected=str(value.rank), found=str(places.rank))
    along = as_axis(axis or 0, value.rank)
    at = places.expand((*value.shape[:along], places.shape[along], *value.shape[along + 1 :]))
    given = converted(trace, values, value.dtype).expand(at.shape)
    result = value.op(nn.ScatterElementsOp, at, given, axis=along, reduction="none")
    return result.reshape(start.shape)


def _np_take(x: Any, indices: Any, axis: Any = None, mode: str = "raise") -> Any:
    if mode != "raise":
        raise TessellaError(f"np.take of a traced array does not take mode={mode!r}")
    return take(x, indices, axis)


FUNCTIONS.update({"indexing": indexing, np.take: _np_take, np.take_along_axis: _take_along_axis})
