"""Functions in NumPy whose results have sizes that depend on values: what steps do, where a program
is cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

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
    most, overlap, least = (_number(inputs, i, default) for i, default in _THRESHOLDS)
    if boxes.ndim != 3 or scores.ndim != 3 or boxes.shape[::2] != (len(scores), 4):
        raise ShapeError(
            "boxes and scores do not fit together",
            expected="[batches, boxes, 4] and [batches, classes, boxes]",
            found=f"{list(boxes.shape)} and {list(scores.shape)}",
        )
    corners = _corners(boxes, centered)
    kept = [
        [batch, group, box]
        for batch in range(scores.shape[0])
        for group in range(scores.shape[1])
        for box in _suppressed(corners[batch], scores[batch, group], most, overlap, least)
    ]
    return [np.array(kept, np.int64).reshape(-1, 3)]


_THRESHOLDS = ((2, 0.0), (3, 0.0), (4, -np.inf))
"""The operands that are numbers: boxes of a class at most, overlap, least score; and defaults."""


def _number(inputs: Sequence[Value], index: int, default: float) -> float:
    array = inputs[index] if index < len(inputs) else None
    return default if array is None or not array.size else float(array.reshape(-1)[0])


def _corners(boxes: Array, centered: bool) -> Array:
    """Low y and x, high y and x of boxes, which may be flipped, or given by center and size."""
    if centered:
        x, y, width, height = np.moveaxis(boxes, -1, 0)
        return np.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], -1)
    a, b = boxes[..., :2], boxes[..., 2:]
    return np.concatenate([np.minimum(a, b), np.maximum(a, b)], -1)


def _suppressed(
    boxes: Array, scores: Array, most: float, overlap: float, least: float
) -> list[int]:
    """The boxes of a class that are kept, by falling scores."""
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > least]
    kept: list[int] = []
    while len(order) and len(kept) < most:
        best, order = int(order[0]), order[1:]
        kept.append(best)
        order = order[_overlaps(boxes[best], boxes[order]) <= overlap]
    return kept


def _overlaps(box: Array, others: Array) -> Array:
    """The intersection of a box with others, over their union; 0 for boxes without area."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    common = np.prod(np.maximum(high - low, 0), -1)
    areas = np.prod(others[:, 2:] - others[:, :2], -1) + np.prod(box[2:] - box[:2])
    union = areas - common
    return np.divide(common, union, out=np.zeros_like(common), where=union > 0)


FINDING: Mapping[str, Callable[..., Sequence[Value]]] = {
    "non_zero": non_zero,
    "unique": unique,
    "compress": compress,
    "non_max_suppression": non_max_suppression,
}
