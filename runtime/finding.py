"""Functions in NumPy whose results have sizes that depend on values: what steps do, where a program
is cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tessella.runtime.elements import widened
from tessella.runtime.values import Array, Value
from tessella.support.errors import ShapeError


def non_zero(inputs: Sequence[Value]) -> Sequence[Array]:
    """The positions of elements that are not zero."""
    return [np.array(np.nonzero(np.atleast_1d(widened(inputs[0]))), np.int64)]


def unique(inputs: Sequence[Value], *, axis: int | None, is_sorted: bool) -> Sequence[Array]:
    """The different elements, or slices along an axis, sorted or in the order of the first ones;
    where each is first, which each is, and how many there are of each."""
    x = inputs[0].reshape(-1) if axis is None else inputs[0]
    at = axis or 0
    _, first, inverse, counts = np.unique(
        widened(x), return_index=True, return_inverse=True, return_counts=True, axis=at
    )
    order = np.arange(len(first)) if is_sorted else np.argsort(first)
    rank = np.argsort(order)
    first, counts = first[order], counts[order]
    return [
        np.take(x, first, at),
        *(a.astype(np.int64) for a in (first, rank[inverse.reshape(-1)], counts)),
    ]


def compress(inputs: Sequence[Value], *, axis: int | None) -> Sequence[Array]:
    """The slices along an axis, or the elements, for which a condition holds."""
    x, condition = inputs
    chosen = np.flatnonzero(condition)
    if chosen.size and chosen[-1] >= (x.size if axis is None else x.shape[axis]):
        raise ShapeError("the condition is longer than the data", found=str(condition.shape))
    return [np.take(x, chosen, axis)]


def non_max_suppression(inputs: Sequence[Value], *, centered: bool) -> Sequence[Array]:
    """The boxes that no box of a higher score overlaps, as batch, class and box. Boxes are given by
    corners, or by center and size."""
    boxes, scores = inputs[:2]
    limits = _Limits(*(_number(inputs, i, default) for i, default in _THRESHOLDS))
    if boxes.ndim != 3 or scores.ndim != 3 or boxes.shape[::2] != (len(scores), 4):
        raise ShapeError(
            "boxes and scores do not fit together",
            expected="[batches, boxes, 4] and [batches, classes, boxes]",
            found=f"{list(boxes.shape)} and {list(scores.shape)}",
        )
    kept = [
        [batch, group, box]
        for batch in range(scores.shape[0])
        for group in range(scores.shape[1])
        for box in _suppressed(boxes[batch], scores[batch, group], limits, centered)
    ]
    return [np.array(kept, np.int64).reshape(-1, 3)]


_THRESHOLDS = ((2, 0.0), (3, 0.0), (4, -np.inf))
"""The operands that are numbers: boxes of a class at most, overlap, least score; and defaults."""


def _number(inputs: Sequence[Value], index: int, default: float) -> float:
    array = inputs[index] if index < len(inputs) else None
    return default if array is None or not array.size else float(array.reshape(-1)[0])


class _Limits(NamedTuple):
    """The boxes of a class at most, the overlap that suppresses a box, and the least score."""

    most: float
    overlap: float
    least: float


def _corners(boxes: Array, centered: bool) -> Array:
    """The low y and x and the high y and x of boxes, each in a row of its own. The boxes may be
    flipped, or given by center and size."""
    a, b, c, d = np.ascontiguousarray(boxes.T)
    if centered:
        return np.stack([b - d / 2, a - c / 2, b + d / 2, a + c / 2])
    return np.stack([np.minimum(a, c), np.minimum(b, d), np.maximum(a, c), np.maximum(b, d)])


_BLOCK = 128
"""Boxes that are decided at a time: their overlaps with each other and with those that are kept fit
into a near cache."""


def _suppressed(boxes: Array, scores: Array, limits: _Limits, centered: bool) -> Array:
    """The boxes of a class that are kept, by falling scores."""
    most, overlap, least = limits
    candidates = np.flatnonzero(scores > least)
    ranks = _ranks(scores[candidates])
    order: Array = candidates[:0]
    kept: Array = np.empty(0, np.int64)
    done, size = 0, _BLOCK
    while done < len(ranks) and len(kept) < most:
        # as many more are ordered as may be needed
        size = max(4 * size, _BLOCK + 4 * int(min(most, len(ranks))))
        order = candidates[_first_places(ranks, size)]
        ranked = _corners(boxes[order], centered)
        while done < len(order) and len(kept) < most:
            kept = np.append(kept, _kept_of_block(ranked, kept, done, overlap))
            done += _BLOCK
    return order[kept[: int(min(most, len(kept)))]]


def _ranks(scores: Array) -> Array:
    """Integers in the order of falling scores, none of them NaN; equal scores are in the order of
    their places, which are the lower 32 bits."""
    bits = (scores.astype(np.float32) + np.float32(0)).view(np.int32)
    rising = np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits)
    return (~rising.astype(np.int64) << 32) | np.arange(len(scores))


def _first_places(ranks: Array, count: int) -> Array:
    """The places of the first ranks, in order."""
    if count < len(ranks):
        ranks = np.partition(ranks, count)[:count]
    return np.sort(ranks) & 0xFFFFFFFF


def _kept_of_block(ranked: Array, kept: Array, start: int, overlap: float) -> Array:
    """The boxes of a block that neither boxes kept before nor each other suppress."""
    block = ranked[:, start : start + _BLOCK]
    free = np.ones(block.shape[1], bool)
    for first in range(0, len(kept), 8 * _BLOCK):
        free[_pairs(block, ranked[:, kept[first : first + 8 * _BLOCK]], overlap)[0]] = False
    among = np.flatnonzero(free)
    return start + among[_first(block[:, among], overlap)]


def _first(boxes: Array, overlap: float) -> Array:
    """Which boxes no earlier one that is kept overlaps."""
    after, before = _pairs(boxes, boxes, overlap)
    later = before < after
    after, before = after[later], before[later]
    kept, open_ = np.zeros(boxes.shape[1], bool), np.ones(boxes.shape[1], bool)
    while open_.any():
        waits = np.zeros_like(open_)
        waits[after[open_[before]]] = True
        found = open_ & ~waits
        kept |= found
        open_ &= waits
        open_[after[found[before]]] = False
    return kept


def _pairs(boxes: Array, others: Array, overlap: float) -> tuple[Array, Array]:
    """The pairs of a box and another one whose intersection over their union is more than a
    number. The union is computed of those alone that have an intersection."""
    low = [np.maximum.outer(a, b) for a, b in zip(boxes[:2], others[:2], strict=True)]
    high = [np.minimum.outer(a, b) for a, b in zip(boxes[2:], others[2:], strict=True)]
    meets = (high[0] > low[0]) & (high[1] > low[1])
    if overlap < 0:
        meets[:] = True
    # a flat search and a division take a tenth of the time of a search in two dimensions
    found = np.flatnonzero(meets)
    first, second = np.divmod(found, max(1, others.shape[1]))
    common = np.ones(len(found), boxes.dtype)
    for a, b in zip(low, high, strict=True):
        common *= np.maximum(b.reshape(-1)[found] - a.reshape(-1)[found], 0)
    union = _areas(boxes)[first] + _areas(others)[second] - common
    share = np.divide(common, union, out=np.zeros_like(common), where=union > 0)
    above = share > overlap
    return first[above], second[above]


def _areas(boxes: Array) -> Array:
    return (boxes[2] - boxes[0]) * (boxes[3] - boxes[1])


FINDING: Mapping[str, Callable[..., Sequence[Value]]] = {
    "non_zero": non_zero,
    "unique": unique,
    "compress": compress,
    "non_max_suppression": non_max_suppression,
}
