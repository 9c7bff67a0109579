"""NumPy semantics of the ops on the boxes of detectors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tessella.runtime.host.registry import Array, kernel


class _Boxes(NamedTuple):
    """Boxes by their low and high corners, [boxes, 2] each."""

    low: Array
    high: Array

    def at(self, places: Any) -> _Boxes:
        """Those at places."""
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
    """The boxes that are kept, as batch, class and box, then zeros; and how many they are."""
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
    """The places of the boxes of a class that are kept."""
    kept: list[int] = []
    while len(order) and len(kept) < limit:
        place, order = int(order[0]), order[1:]
        kept.append(place)
        order = order[~_overlaps(boxes.at(place), boxes.at(order), overlap)]
    return kept


def _overlaps(box: _Boxes, others: _Boxes, overlap: Array) -> Array:
    """Whether the intersection of a box with each of others is more than that of their union. Boxes
    without an area have none."""
    sides = np.minimum(box.high, others.high) - np.maximum(box.low, others.low)
    common = sides[:, 0] * sides[:, 1]
    union = box.areas + others.areas - common
    has_area = (box.areas > 0) & (others.areas > 0) & (union > 0)
    return (sides > 0).all(1) & (common > 0) & has_area & (common / union > overlap)
