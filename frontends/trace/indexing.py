"""Indexing, and taking elements at indices that are arrays."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, SupportsIndex, cast

import numpy as np
import numpy.typing as npt

from tessella.dialects import nn
from tessella.dialects.nn.core import broadcast_shapes
from tessella.frontends.ranges import Steps
from tessella.frontends.trace import promote
from tessella.frontends.trace.dispatch import FUNCTIONS
from tessella.frontends.trace.function import function
from tessella.frontends.trace.movement import as_axis, reshape
from tessella.frontends.trace.size import TracedSize, as_size
from tessella.frontends.trace.traced import Trace, Traced
from tessella.support.errors import ShapeError, TessellaError
from tessella.support.sizes import Size

_INT64 = np.dtype(np.int64)


@dataclass
class _Plan:
    """What indexing does: a slice, then gathers along single axes, then a reshape."""

    shape: tuple[Size, ...]
    starts: list[Size] = field(default_factory=list[Size])
    sizes: list[Size] = field(default_factory=list[Size])
    steps: list[int] = field(default_factory=list[int])
    gathers: dict[int, Traced] = field(default_factory=dict[int, Traced])
    result: list[Size] = field(default_factory=list[Size])

    def slice(self, start: Size, size: Size, step: int) -> None:
        self.starts.append(start if size else 0)
        self.sizes.append(size)
        self.steps.append(step)

    def keep(self, key: slice) -> None:
        """A slice of the next axis."""
        start, stop = (None if at is None else as_size(at) for at in (key.start, key.stop))
        step = 1 if key.step is None else operator.index(key.step)
        if step == 0:
            raise ValueError("slice step cannot be zero")
        steps = Steps.sliced(slice(start, stop, step), self.shape[len(self.starts)])
        self.slice(steps.start, steps.count, step)
        self.result.append(self.sizes[-1])

    def drop(self, index: Size) -> None:
        """One element of the next axis."""
        axis = len(self.starts)
        size = self.shape[axis]
        if not -size <= index < size:
            raise ShapeError(
                f"the index of axis {axis} is out of range",
                expected=f"in [-{size}, {size})",
                found=str(index),
            )
        self.slice(index + size if index < 0 else index, 1, 1)

    def gather(self, indices: Traced) -> None:
        """The elements of the next axis at these indices."""
        axis = len(self.starts)
        self.slice(0, self.shape[axis], 1)
        self.gathers[axis] = indices
        self.result += indices.sizes


@function
def _indexing(trace: Trace, x: npt.ArrayLike, key: Any) -> Traced:
    value = trace.lift(x)
    plan = _Plan(value.sizes)
    for each in _checked(_expanded([_index(trace, k) for k in _keys(key)], value.ndim)):
        if each is None:
            plan.result.append(1)
        elif isinstance(each, slice):
            plan.keep(each)
        elif isinstance(each, Traced):
            plan.gather(each)
        else:
            plan.drop(each)
    if tuple(plan.sizes) != value.sizes or any(step != 1 for step in plan.steps):
        ints = {name: tuple(getattr(plan, name)) for name in ("starts", "sizes", "steps")}
        value = trace.emit(nn.SliceOp, [value], **ints)
    for axis, indices in reversed(plan.gathers.items()):
        value = trace.emit(nn.GatherOp, [value, indices], axis=axis)
    return trace.reshape(value, plan.result)


Index = Size | slice | None | Traced


def _keys(key: Any) -> Sequence[Any]:
    return cast("tuple[Any, ...]", key) if isinstance(key, tuple) else (key,)


def _index(trace: Trace, key: Any) -> Any:
    """A number, slice, None or Ellipsis as it is; anything else as an array of indices."""
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


def as_indices(trace: Trace, indices: npt.ArrayLike) -> Traced:
    """Integers of any type as those that gathers take."""
    value = trace.lift(indices)
    if value.dtype.kind not in "iu":
        raise ShapeError("indices must be integers", found=value.dtype.name)
    return value if value.dtype == np.int32 else promote.cast(trace, value, _INT64)


def _expanded(keys: Sequence[Any], rank: int) -> list[Any]:
    """The keys with as many slices as there are axes for ``...``, or at the end."""
    count = sum(key is not None and key is not ... for key in keys)
    dots = [i for i, key in enumerate(keys) if key is ...]
    if count > rank or len(dots) > 1:
        raise ShapeError(
            "too many indices", expected=f"at most {rank}, and one ...", found=str(len(keys))
        )
    at = dots[0] if dots else len(keys)
    return [*keys[:at], *[slice(None)] * (rank - count), *keys[at + 1 :]]


def _checked(keys: Sequence[Any]) -> Sequence[Index]:
    """Raises ShapeError for arrays of indices whose axes NumPy would move to the front."""
    arrays = [i for i, key in enumerate(keys) if isinstance(key, Traced) and key.sizes]
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
) -> Traced:
    """The slices of x at the indices along an axis; of the flattened x for None.

    An index that is out of range is an ExecutionError when the program runs.
    """
    value = trace.lift(x)
    if axis is None:
        value = trace.lift(reshape(value, -1))
    along = as_axis(axis or 0, value.ndim)
    return trace.emit(nn.GatherOp, [value, as_indices(trace, indices)], axis=along)


@function
def _take_along_axis(
    trace: Trace, x: npt.ArrayLike, indices: npt.ArrayLike, axis: SupportsIndex | None = -1
) -> Traced:
    value, places = trace.lift(x), as_indices(trace, indices)
    if axis is None:
        value = trace.lift(reshape(value, -1))
    if value.ndim != places.ndim:
        raise ShapeError("ranks differ", expected=str(value.ndim), found=str(places.ndim))
    along = as_axis(axis or 0, value.ndim)
    shapes = [(*s[:along], 1, *s[along + 1 :]) for s in (value.sizes, places.sizes)]
    shape = broadcast_shapes(shapes)
    data, at = (
        trace.expand(v, (*shape[:along], v.sizes[along], *shape[along + 1 :]))
        for v in (value, places)
    )
    return trace.emit(nn.GatherElementsOp, [data, at], axis=along)


def _np_take(x: Any, indices: Any, axis: Any = None, mode: str = "raise") -> Any:
    if mode != "raise":
        raise TessellaError(f"np.take of a traced array does not take mode={mode!r}")
    return take(x, indices, axis)


FUNCTIONS.update({"indexing": _indexing, np.take: _np_take, np.take_along_axis: _take_along_axis})
