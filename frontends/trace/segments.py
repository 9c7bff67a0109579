"""Segment reductions: slices of an array are aggregated by segment number, as indexed writes.

``segments`` has integers in [-count, count); negative numbers count from the end, as indices do.
Any other number is an ExecutionError when the program runs. Its shape is that of the first
dimensions of ``values``. The result has ``count`` slices.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tessella.dialects import nn
from tessella.dialects.nn.core import shapes_differ
from tessella.frontends.emitter import Value
from tessella.frontends.trace.function import function
from tessella.frontends.trace.indexing import as_indices
from tessella.frontends.trace.reduction import reduced_dtype
from tessella.frontends.trace.size import as_size
from tessella.frontends.trace.traced import DType, Trace
from tessella.frontends.trace.ufuncs import BOOL
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size

_BYTE = np.dtype(np.uint8)


@function
def segment_sum(trace: Trace, values: npt.ArrayLike, segments: npt.ArrayLike, count: int) -> Value:
    """Return the sum of the slices in each segment, in the dtype of ``sum``; 0 for an empty
    segment."""
    value, places = trace.lift(values), as_indices(trace, segments)
    return reduced(value, places, as_size(count), "add", reduced_dtype(np.sum, value))


@function
def segment_prod(trace: Trace, values: npt.ArrayLike, segments: npt.ArrayLike, count: int) -> Value:
    """Return the product of the slices in each segment, in the dtype of ``prod``; 1 for an empty
    segment."""
    value, places = trace.lift(values), as_indices(trace, segments)
    return reduced(value, places, as_size(count), "mul", reduced_dtype(np.prod, value))


@function
def segment_mean(trace: Trace, values: npt.ArrayLike, segments: npt.ArrayLike, count: int) -> Value:
    """Return the mean of the slices in each segment, in the dtype of ``mean``; 0 for an empty
    segment."""
    value, places, size = trace.lift(values), as_indices(trace, segments), as_size(count)
    total = reduced(value, places, size, "add", reduced_dtype(np.mean, value))
    one = trace.emitter.splat(1, places.shape, total.dtype)
    found = reduced(one, places, size, "add", total.dtype)
    ones = (1,) * (total.rank - 1)
    return total / found.op(nn.MaxOp, found.like(1)).reshape((size, *ones))


@function
def segment_max(trace: Trace, values: npt.ArrayLike, segments: npt.ArrayLike, count: int) -> Value:
    """Return the maximum of the slices in each segment; NaN if any of its elements is NaN; the
    least value of the dtype for an empty segment."""
    return _extreme(trace, values, segments, count, "max")


@function
def segment_min(trace: Trace, values: npt.ArrayLike, segments: npt.ArrayLike, count: int) -> Value:
    """Return the minimum of the slices in each segment; NaN if any of its elements is NaN; the
    greatest value of the dtype for an empty segment."""
    return _extreme(trace, values, segments, count, "min")


def _extreme(
    trace: Trace, values: npt.ArrayLike, segments: npt.ArrayLike, count: int, reduction: str
) -> Value:
    value, places = trace.lift(values), as_indices(trace, segments)
    if value.dtype.kind == "c":
        raise ShapeError(f"segment_{reduction} takes real numbers", found=value.dtype.name)
    dtype = _BYTE if value.dtype == BOOL else value.dtype
    return reduced(value, places, as_size(count), reduction, dtype).cast(value.dtype)


def _identity(reduction: str, dtype: DType) -> float:
    """Return the neutral element of a reduction for a dtype."""
    if reduction in ("add", "mul"):
        return 0 if reduction == "add" else 1
    sign = 1 if reduction == "min" else -1
    if dtype.kind == "f":
        return sign * np.inf
    limits = np.iinfo(dtype)
    return int(limits.max if reduction == "min" else limits.min)


def reduced(values: Value, places: Value, count: Size, reduction: str, dtype: DType) -> Value:
    """Emit the reduction of the slices of ``values`` in each segment, in a dtype. ``places`` are
    the segments' numbers. Raises ShapeError if shapes do not fit."""
    found = values.shape[: places.rank]
    if len(found) < places.rank or shapes_differ(found, places.shape):
        raise ShapeError(
            "the segments are not those of the values",
            expected=f"values whose first dimensions are {places.shape}",
            found=str(values.shape),
        )
    shape = (count, *values.shape[places.rank :])
    start = values.emitter.splat(_identity(reduction, dtype), shape, dtype)
    return start.scatter(places, values.cast(dtype), reduction)
