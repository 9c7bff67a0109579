"""NumPy's counting functions: searchsorted, bincount, histogram and others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.dialects.nn.core import shapes_differ
from tessella.frontends.emitter import Value, where
from tessella.frontends.searching import found_places
from tessella.frontends.trace.dispatch import FUNCTIONS
from tessella.frontends.trace.function import function
from tessella.frontends.trace.indexing import as_indices
from tessella.frontends.trace.promote import as_operand, cast, common, kind_of
from tessella.frontends.trace.segments import reduced
from tessella.frontends.trace.size import TracedSize, as_size
from tessella.frontends.trace.traced import DType, Trace, Traced
from tessella.frontends.trace.ufuncs import BOOL, comparable_kinds
from tessella.support.errors import ShapeError, TessellaError
from tessella.support.sizes import Size

_INT64, _FLOAT64 = np.dtype(np.int64), np.dtype(np.float64)


def _vector(name: str, value: Value) -> Value:
    if value.rank != 1:
        raise ShapeError(
            f"{name} is not a vector", expected="one dimension", found=str(value.shape)
        )
    return value


@function
def _bincount(
    trace: Trace, x: npt.ArrayLike, weights: npt.ArrayLike | None = None, minlength: int = 0
) -> Value:
    """Return the number of occurrences of each integer from 0 to ``minlength`` - 1, or the sum of
    the weights of these occurrences. An integer out of that range is an error when the program
    runs."""
    numbers, count = trace.lift(x), as_size(minlength)
    if numbers.dtype == BOOL:
        numbers = numbers.cast(_INT64)
    places = _vector("x of np.bincount", as_indices(trace, numbers))
    if type(count) is int and count < 1:
        raise TessellaError(
            "np.bincount of a traced array needs minlength: the shape of a result cannot depend "
            "on elements",
            hint="give minlength=n, with n greater than all elements; a greater one is an error "
            "when the program runs",
        )
    places = where(
        places < 0, count, places
    )  # made out of range, as a negative number would count from the end
    given = None if weights is None else _vector("weights", trace.lift(weights))
    return _totals(places, count, given, _FLOAT64)


def _totals(places: Value, count: Size, weights: Value | None, dtype: DType) -> Value:
    """Emit the number of occurrences of each integer from 0 to ``count`` - 1 as int64, or the sum
    of the weights of these occurrences as ``dtype``."""
    if weights is None:
        weights, dtype = places.emitter.splat(1, places.shape, _INT64), _INT64
    return reduced(weights, places, count, "add", dtype)


@function
def _searchsorted(
    trace: Trace,
    a: npt.ArrayLike,
    v: npt.ArrayLike,
    side: str = "left",
    sorter: npt.ArrayLike | None = None,
) -> Value:
    """Return the positions at which elements of ``v`` would be inserted into the sorted ``a``."""
    if side not in ("left", "right"):
        raise ShapeError("side is unknown", expected="'left' or 'right'", found=repr(side))
    ordered, values = common(trace, *_comparable(trace, a, v))
    ordered = _vector("a of np.searchsorted", ordered)
    if sorter is not None:
        places = as_indices(trace, sorter)
        if shapes_differ(places.shape, ordered.shape):
            raise ShapeError(
                "the sorter of np.searchsorted has a place for each element of a",
                expected=str(ordered.shape),
                found=str(places.shape),
            )
        ordered = ordered.gather(places, 0)
    return found_places(ordered, values, side)


def _comparable(trace: Trace, *arrays: npt.ArrayLike) -> Sequence[Any]:
    """Return operands that can be compared: an integer that the dtype of an array among them may
    not represent becomes int64."""
    operands = [as_operand(x) for x in arrays]
    kinds = [kind_of(x) for x in operands]
    columns = zip(operands, kinds, comparable_kinds(operands, kinds), strict=True)
    return [x if own is kind else cast(trace, x, np.dtype(kind)) for x, own, kind in columns]


@function
def _counts(
    trace: Trace, x: npt.ArrayLike, edges: npt.ArrayLike, weights: npt.ArrayLike | None
) -> Value:
    """Return for each bin the number of elements between its edges, or the sum of their weights.

    The last edge belongs to the last bin. An extra bin, which is dropped, counts the elements
    outside all edges.
    """
    values, bounds = (each.flat() for each in common(trace, x, edges))
    count = bounds.shape[0] - 1
    place = found_places(bounds, values, "right") - 1
    place = where(values.equals(bounds.part(0, count, 1)), count - 1, place)
    place = where(place < 0, count, place)
    given = None if weights is None else trace.lift(weights).flat()
    result = _INT64 if given is None else given.dtype
    dtype = _FLOAT64 if given is not None and given.is_float else result
    return _totals(place, count + 1, given, dtype).part(0, 0, count).cast(result)


def _histogram(
    a: Any,
    bins: Any = 10,
    range: tuple[float, float] | None = None,
    density: bool | None = None,
    weights: Any = None,
) -> tuple[Any, Any]:
    edges = _edges(a, bins, range)
    counts: Any = _counts(a, edges, weights)
    if density:
        return counts / (edges[1:] - edges[:-1]).astype(float) / counts.sum(), edges
    return counts, edges


def _edges(a: Any, bins: Any, range: tuple[float, float] | None) -> Any:
    """Return the edges of bins: the array ``bins``, or NumPy's edges for a number of bins and a
    range. Raises TessellaError if they depend on elements."""
    if isinstance(bins, Traced) and bins.ndim:
        return bins
    if not isinstance(bins, str) and np.ndim(bins):
        return np.histogram_bin_edges(np.empty(0), bins)
    if isinstance(bins, str | Traced | TracedSize) or range is None:
        raise TessellaError(
            "np.histogram of a traced array needs bins that are known while tracing",
            found=f"bins={bins!r}, range={range!r}",
            hint="give a number of bins with range=(low, high), or an array of edges",
        )
    dtype = a.dtype if isinstance(a, Traced) else np.asarray(a).dtype
    return np.histogram_bin_edges(np.empty(0, dtype), bins, range)


FUNCTIONS.update({np.bincount: _bincount, np.searchsorted: _searchsorted, np.histogram: _histogram})
