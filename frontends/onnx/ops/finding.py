"""Converters of ops whose result sizes depend on values.

Native code stores the results at the front of arrays with room for all elements, and counts them.
`nn.trim` cuts the arrays to their sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessella.dialects import nn
from tessella.dialects.nn.core import shapes_differ
from tessella.dialects.nn.evaluate_sizes import holds_sizes
from tessella.frontends.emitter import Value, concat
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.ops.compaction import Chosen, by_place, by_value, coordinates
from tessella.frontends.onnx.registry import converts
from tessella.runtime.elements import element_of, widened
from tessella.runtime.host.images import CHANNELS
from tessella.support.conditions import always
from tessella.support.decisions import are_ordered, decided_min
from tessella.support.errors import ShapeError
from tessella.support.sizes import MOST, Size

_INDEX = np.dtype(np.int64)
_COUNTED = "the number of results is a symbol"


@converts("NonZero", 9, 13, note=_COUNTED)
def non_zero(call: Call) -> Value:
    """Emit the positions of nonzero elements, a row for each dimension."""
    x, known = call.x, call.build.static(call.x)
    if known is not None:
        found = np.array(np.nonzero(np.atleast_1d(widened(known))), np.int64)
        return call.constant(found[: x.rank])
    return coordinates(_chosen(call, x.cast(np.bool_)), x.shape)


@converts(
    "Unique", 11, 28, note=f"{_COUNTED}; slices along an axis in NumPy", runs="native or NumPy"
)
def unique(call: Call) -> Sequence[Value]:
    """Emit the distinct elements, or slices along an axis, sorted or in order of first
    occurrence."""
    x, axis, is_sorted = call.x, call.attribute("axis"), call.flag("sorted", True)
    if axis is None:
        x, axis = x.flat(), 0
    axis = front_axis(axis, x.rank)
    element = element_of(x.dtype)
    is_native = element is not None and element.is_native and x.rank == 1
    if not is_native or call.build.static(x) is not None or not always(x.shape[0] > 0):
        return call.found(nn.UniqueOp, x, most=[x.shape[axis]], axis=axis, sorted=is_sorted)
    number = x.cast(np.uint8) if x.dtype == np.bool_ else x
    groups = by_value(number) if is_sorted else by_place(number)
    first = call.trimmed(groups.first, groups.count)
    return [x.gather(first, 0), first.cast(_INDEX), groups.inverse, groups.counts(first.shape[0])]


@converts("ImageDecoder", 20, 20, note="by Pillow", runs="Python")
def image_decoder(call: Call) -> Value:
    """Emit the pixels of an encoded image."""
    call.check_ranks(1)
    pixel_format = call.choice("pixel_format", *CHANNELS)
    return call.found(nn.DecodeImageOp, call.x, most=[MOST, MOST], format=pixel_format)[0]


@converts("Compress", 9, 28, note=_COUNTED)
def compress(call: Call) -> Value:
    """Emit the slices along an axis, or the elements, for which a condition is true."""
    x, axis, condition = call.x, call.attribute("axis"), call.operand(1)
    if axis is None:
        x, axis = x.flat(), 0
    axis = front_axis(axis, x.rank)
    if condition.rank != 1:
        raise ShapeError("the condition is no list", expected="[n]", found=str(condition.type))
    known = call.build.static(condition)
    if known is None:
        return x.gather(_chosen(call, condition), axis)
    chosen = np.flatnonzero(known)
    if chosen.size and chosen[-1] >= x.shape[axis]:
        raise ShapeError(
            "the condition is longer than the data, and chooses beyond it",
            expected=f"places below {x.shape[axis]}",
            found=str(chosen[-1]),
        )
    return x.gather(call.constant(chosen.astype(np.int64)), axis)


def _chosen(call: Call, mask: Value) -> Value:
    """Emit the row-major positions of the elements for which a mask is true."""
    mask = mask.flat()
    if always(mask.shape[0] > 0):
        chosen = Chosen.by(mask)
        return call.trimmed(chosen.places, chosen.count)
    # an element before the first one, so that there is one
    chosen = Chosen.by(concat([mask.emitter.splat(False, (1,), np.bool_), mask], 0))
    return call.trimmed(chosen.places, chosen.count) - 1


@converts("NonMaxSuppression", 10, 11, note=_COUNTED)
def non_max_suppression(call: Call) -> Value:
    """Emit the boxes that no selected box of a higher score overlaps too much, each as its batch,
    class and box."""
    call.check_ranks(3, 3)
    boxes, scores = map(call.operand, range(2))
    most = call.optional(2) or call.constant(np.array(0, np.int64))
    overlap = call.optional(3) or boxes.like(0.0)
    given = zip((most, overlap, call.optional(4)), _NUMBERS, strict=True)
    numbers = [_single(x, name) for x, name in given if x is not None]
    overlap = call.checked(numbers[1].reshape((1,)), 0, 1, "iou_threshold")
    numbers[1] = overlap.reshape(())
    room = _room(call, numbers[0], scores.shape[-1])
    centered = call.flag("center_point_box")
    selected, count = call.build.emit(
        nn.NonMaxSuppressionOp, boxes, scores, *numbers, room=room, centered=centered
    )
    known = call.build.static(selected), call.build.static(count)
    if known[0] is None or known[1] is None:
        return call.trimmed(selected, count)
    return call.constant(known[0][: int(known[1])])


_NUMBERS = "max_output_boxes_per_class", "iou_threshold", "score_threshold"


def _single(value: Value, name: str) -> Value:
    if value.rank > 1 or shapes_differ(value.shape, (1,) * value.rank):
        raise ShapeError(f"{name} is not a single number", expected="(1,)", found=str(value.shape))
    return value.reshape(())


def _room(call: Call, most: Value, boxes: Size) -> Size:
    """Return an upper bound on the boxes found for a class: ``most`` if its value is known and
    smaller, otherwise the number of boxes."""
    known = call.build.static(most)
    if known is None or holds_sizes(known):
        return boxes
    limit = max(0, int(known))
    return decided_min(limit, boxes) if are_ordered(limit, boxes) else boxes
