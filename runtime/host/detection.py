"""NumPy semantics of the ops on detectors' boxes."""

from __future__ import annotations

import functools
import itertools
from typing import Any, NamedTuple

import numpy as np

from tessella.runtime.host.registry import Array, kernel
from tessella.support.errors import ExecutionError


class _Boxes(NamedTuple):
    """Boxes, as the arrays of their low and high corners, [boxes, 2] each."""

    low: Array
    high: Array

    def at(self, places: Any) -> _Boxes:
        """Return the boxes at the given positions."""
        return _Boxes(self.low[places], self.high[places])

    @property
    def areas(self) -> Array:
        sides = self.high - self.low
        return sides[..., 0] * sides[..., 1]


@kernel("non_max_suppression")
def non_max_suppression(
    boxes: Array,
    scores: Array,
    most: Array,
    overlap: Array,
    least: Array | None = None,
    *,
    room: int,
    centered: bool,
) -> tuple[Array, Array]:
    """Return the boxes that non-maximum suppression selects, as rows of batch, class and box,
    padded with zeros, and their number."""
    limit = min(int(most), room)
    selected = np.zeros((scores.shape[0] * scores.shape[1] * room, 3), np.int64)
    count = 0
    for batch, group in np.ndindex(*scores.shape[:2]):
        cornered, own = _corners(boxes[batch], centered), scores[batch, group]
        candidates = np.flatnonzero(own == own if least is None else own > least)
        order = candidates[np.argsort(-own[candidates], kind="stable")]
        for place in _kept(cornered, order, overlap, limit):
            selected[count] = batch, group, place
            count += 1
    return selected, np.array(count)


def _corners(boxes: Array, centered: bool) -> _Boxes:
    first, second = boxes[:, :2], boxes[:, 2:]
    if centered:
        half = second / 2
        return _Boxes(first - half, first + half)
    return _Boxes(np.minimum(first, second), np.maximum(first, second))


def _kept(boxes: _Boxes, order: Array, overlap: Array, limit: int) -> list[int]:
    """Return the positions of the boxes that non-maximum suppression selects in a class: at most
    ``limit``, of the candidates in ``order``."""
    kept: list[int] = []
    while len(order) and len(kept) < limit:
        place, order = int(order[0]), order[1:]
        kept.append(place)
        order = order[~_overlaps(boxes.at(place), boxes.at(order), overlap)]
    return kept


def _overlaps(box: _Boxes, others: _Boxes, overlap: Array) -> Array:
    """Return whether the intersection over union of a box with each other box exceeds ``overlap``.

    The intersection of boxes without area is empty.
    """
    sides = np.minimum(box.high, others.high) - np.maximum(box.low, others.low)
    common = sides[:, 0] * sides[:, 1]
    union = box.areas + others.areas - common
    has_area = (box.areas > 0) & (others.areas > 0) & (union > 0)
    return (sides > 0).all(1) & (common > 0) & has_area & (common / union > overlap)


MOST_POINTS = 1 << 20
"""The most points of a region along a dimension, which bounds the memory of their positions."""


class _Taps(NamedTuple):
    """The two elements around each point along a dimension, [points], and their weights."""

    places: tuple[Array, Array]
    weights: tuple[Array, Array]


@kernel("roi_align")
def roi_align(
    x: Array,
    rois: Array,
    batches: Array,
    *,
    sizes: tuple[int, int],
    scale: float,
    samples: int,
    mode: str,
    half_pixel: bool,
) -> Array:
    """Sample regions of images at the points of a grid, and return the mean or the maximum of the
    samples for each element of the result (ONNX's RoiAlign)."""
    _check_images(x, batches)
    result = np.zeros((len(rois), x.shape[1], *sizes), x.dtype)
    moved = rois * x.dtype.type(scale) - x.dtype.type(0.5 if half_pixel else 0)
    for roi, batch, into in zip(moved, batches, result, strict=True):
        ends = zip(roi[1::-1], roi[:1:-1], x.shape[2:], sizes, strict=True)
        (rows, high), (columns, wide) = (_taps(*each, samples, half_pixel) for each in ends)
        if high > 0 and wide > 0:
            values = _values(x[batch], rows, columns, np.add if mode == "avg" else np.maximum)
            points = values.reshape(len(values), sizes[0], high, sizes[1], wide)
            into[...] = points.mean((2, 4)) if mode == "avg" else points.max((2, 4))
    return result


def _check_images(x: Array, batches: Array) -> None:
    if ((batches < 0) | (batches >= len(x))).any():
        raise ExecutionError(
            "a region refers to an image that does not exist",
            expected=f"in [0, {len(x)})",
            found=str(batches),
        )


@kernel("max_roi_pool")
def max_roi_pool(
    x: Array, rois: Array, batches: Array, *, sizes: tuple[int, int], scale: float
) -> Array:
    """Return the maximum of the pixels of each part of regions of images (ONNX's MaxRoiPool)."""
    _check_images(x, batches)
    result = np.zeros((len(rois), x.shape[1], *sizes), x.dtype)
    rounded = _rounded(rois * x.dtype.type(scale))
    for roi, batch, into in zip(rounded, batches, result, strict=True):
        ends = zip(roi[1::-1], roi[:1:-1], x.shape[2:], sizes, strict=True)
        rows, columns = (_pixels(*each) for each in ends)
        for (p, (top, bottom)), (q, (left, right)) in itertools.product(
            enumerate(rows), enumerate(columns)
        ):
            if top < bottom and left < right:
                into[:, p, q] = x[batch, :, top:bottom, left:right].max((1, 2))
    return result


def _rounded(x: Array) -> Array:
    """Return numbers rounded to the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    return whole + np.copysign(np.abs(x - whole) >= 0.5, x).astype(x.dtype)


def _pixels(low: Any, high: Any, extent: int, size: int) -> Array:
    """Return, for each of the ``size`` parts of a region along a dimension, its first pixel and the
    one after its last pixel: [size, 2]. Both are 0 if a bound of the region is NaN."""
    one = low.dtype.type(1)
    part = np.maximum(high - low + one, one) / low.dtype.type(size)
    numbers = np.arange(size + 1).astype(low.dtype) * part
    ends = np.stack([np.floor(numbers[:-1]), np.ceil(numbers[1:])], 1) + low
    inside = np.where(ends > 0, ends, 0)
    return np.where(inside < extent, inside, extent).astype(np.int64)


def _taps(
    low: Any, high: Any, extent: int, size: int, samples: int, half_pixel: bool
) -> tuple[_Taps, int]:
    """Return the points of a region along a dimension, and the number of points per result
    element."""
    length = high - low if half_pixel else np.maximum(high - low, low.dtype.type(1))
    part = length / low.dtype.type(size)
    count = samples or (max(0, int(np.ceil(part))) if np.isfinite(part) else 0)
    if size * count > MOST_POINTS:
        raise ExecutionError(
            "a region is too large",
            expected=f"at most {MOST_POINTS} points along a dimension",
            found=str(size * count),
        )
    numbers = np.arange(size * count)
    inner = (numbers % max(count, 1) + 0.5).astype(low.dtype) * part / max(count, 1)
    at = low + (numbers // max(count, 1)).astype(low.dtype) * part + inner.astype(low.dtype)
    inside = (at >= -1) & (at <= extent)
    at = np.where(inside, np.maximum(at, 0), 0)
    first = np.minimum(at.astype(np.int64), extent - 1)
    at = np.where(first == extent - 1, first, at).astype(low.dtype)
    weight = np.where(inside, at - first, 0).astype(low.dtype)
    weights = np.where(inside, 1 - weight, 0).astype(low.dtype), weight
    return _Taps((first, np.minimum(first + 1, extent - 1)), weights), count


def _values(x: Array, rows: _Taps, columns: _Taps, join: np.ufunc) -> Array:
    """Return the weighted elements around each point, combined by ``join``: [channels, rows,
    columns]."""
    around = itertools.product(zip(*rows, strict=True), zip(*columns, strict=True))
    values = (x[:, y[:, None], at] * (v[:, None] * w) for (y, v), (at, w) in around)
    return functools.reduce(join, values)
