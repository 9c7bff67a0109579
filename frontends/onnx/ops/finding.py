"""Ops whose results' sizes depend on values: they run in NumPy, and cut the program."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from tessella.dialects.nn.core import shape_of
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.cut import Operands, given
from tessella.frontends.onnx.model import Array
from tessella.frontends.onnx.registry import converts
from tessella.runtime.elements import widened
from tessella.support.errors import ShapeError

_IN_NUMPY = "in NumPy; the program is cut there"


@converts("NonZero", 9, 13, note=_IN_NUMPY)
def non_zero(call: Call) -> Sequence[SSAValue]:
    """The positions of elements that are not zero."""

    def find(arrays: Operands) -> list[Array]:
        x = widened(given(arrays, 0))
        return [np.array(np.nonzero(np.atleast_1d(x)), np.int64)]

    return call.found(find)


@converts("Unique", 11, 11, note=_IN_NUMPY)
def unique(call: Call) -> Sequence[SSAValue]:
    """The different elements, or slices along an axis, sorted or in the order of the first ones."""
    is_sorted, axis = call.flag("sorted", True), call.attribute("axis")
    if axis is not None:
        axis = front_axis(axis, len(shape_of(call.x)))

    def find(arrays: Operands) -> list[Array]:
        return _unique(given(arrays, 0), axis, is_sorted)

    return call.found(find)


def _unique(x: Array, axis: int | None, is_sorted: bool) -> list[Array]:
    x = x.reshape(-1) if axis is None else x
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


@converts("NonMaxSuppression", 10, 11, note=_IN_NUMPY)
def non_max_suppression(call: Call) -> Sequence[SSAValue]:
    """The boxes that no box of a higher score overlaps, as batch, class and box."""
    centered = call.flag("center_point_box")

    def find(arrays: Operands) -> list[Array]:
        boxes, scores = given(arrays, 0), given(arrays, 1)
        most, overlap, least = (_number(arrays, i, default) for i, default in _THRESHOLDS)
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

    return call.found(find)


_THRESHOLDS = ((2, 0.0), (3, 0.0), (4, -np.inf))
"""The operands that are numbers: boxes of a class at most, overlap, least score; and defaults."""


def _number(arrays: Operands, index: int, default: float) -> float:
    array = arrays[index] if index < len(arrays) else None
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
