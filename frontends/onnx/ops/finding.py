"""Ops whose results' sizes depend on values: they run in NumPy, and cut the program."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.cut import Find
from tessella.frontends.onnx.registry import converts
from tessella.support.sizes import Size, product

_INDEX = np.dtype(np.int64)
_IN_NUMPY = "in NumPy; the program is cut there"


@converts("NonZero", 9, 13, note=_IN_NUMPY)
def non_zero(call: Call) -> Sequence[Value]:
    """The positions of elements that are not zero."""
    rank = max(1, call.x.rank)
    return call.found(Find("non_zero", types=[(_INDEX, [rank, "count"])]))


@converts("Unique", 11, 11, note=_IN_NUMPY)
def unique(call: Call) -> Sequence[Value]:
    """The different elements, or slices along an axis, sorted or in the order of the first ones."""
    axis, shape = call.attribute("axis"), call.x.shape
    taken: list[Size | str] = ["count"]
    whole = product(shape)
    if axis is not None:
        axis = front_axis(axis, len(shape))
        taken, whole = [*shape[:axis], "count", *shape[axis + 1 :]], shape[axis]
    numbers = (["count"], [whole], ["count"])
    types = [(call.x.dtype, taken), *((_INDEX, shape) for shape in numbers)]
    settings = {"axis": axis, "is_sorted": call.flag("sorted", True)}
    return call.found(Find("unique", settings, types))


@converts("NonMaxSuppression", 10, 11, note=_IN_NUMPY)
def non_max_suppression(call: Call) -> Sequence[Value]:
    """The boxes that no box of a higher score overlaps, as batch, class and box."""
    call.check_ranks(3, 3)
    settings = {"centered": call.flag("center_point_box")}
    return call.found(Find("non_max_suppression", settings, [(_INDEX, ["count", 3])]))
