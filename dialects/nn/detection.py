"""Boxes and regions of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    I64,
    BoolAttr,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.irdl import (
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from tessella.dialects.nn.checks import (
    check_choice,
    check_float,
    check_least,
    check_length,
    check_same_element,
    check_shape,
)
from tessella.dialects.nn.core import (
    Defaults,
    NnOp,
    Tensor,
    shape_of,
    shapes_differ,
    tensor,
    tensor_type,
)
from tessella.dialects.sizes import size_def, sizes_def
from tessella.support.conditions import decided
from tessella.support.errors import ShapeError


@irdl_op_definition
class NonMaxSuppressionOp(NnOp):
    """Non-maximum suppression: the boxes of each class in descending order of their scores, without
    boxes that overlap a selected box with a higher score.

    `boxes[batch, box]` holds two opposite corners, or with `centered` a center, a width and a
    height; `scores[batch, class, box]` holds the likelihood of a class. Boxes with equal scores
    keep their order. A box is dropped if its intersection with a selected box is more than
    `overlap` of their union, or if its score is NaN or not above `least`. At most `most` boxes of a
    class are selected, and no more than `room`. `selected` has a row of batch, class and box for
    each selected box, followed by zeros; `count` is the number of selected boxes. Both are i64.
    """

    name = "nn.non_max_suppression"
    DEFAULTS: ClassVar[Defaults] = {"centered": False}
    RESULTS: ClassVar[int] = 2
    boxes = operand_def(base(TensorType))
    scores = operand_def(base(TensorType))
    most = operand_def(base(TensorType))
    overlap = operand_def(base(TensorType))
    least = opt_operand_def(base(TensorType))
    room = size_def()
    centered = prop_def(BoolAttr)
    selected = result_def(base(TensorType))
    count = result_def(base(TensorType))
    traits = traits_def(Pure())

    def infer(self) -> Sequence[Tensor]:
        numbers = [x for x in (self.overlap, self.least) if x is not None]
        check_float(self, self.boxes)
        check_same_element(self, [self.boxes, self.scores, *numbers])
        for number in (self.most, *numbers):
            check_shape(self, number, ())
        if tensor_type(self.most).element_type != i64:
            raise ShapeError(f"{self.name}: most is an i64", found=str(self.most.type))
        boxes, scores, room = shape_of(self.boxes), shape_of(self.scores), self.settings["room"]
        if len(scores) != 3 or shapes_differ(boxes, (scores[0], scores[2], 4)):
            raise ShapeError(
                f"{self.name}: boxes and scores do not fit together",
                expected="[batches, boxes, 4] and [batches, classes, boxes]",
                found=f"{boxes} and {scores}",
            )
        if not (decided(room >= 0) and decided(room <= scores[2])):
            raise ShapeError(
                f"{self.name}: room is out of range",
                expected=f"in [0, {scores[2]}]",
                found=str(room),
            )
        return [tensor(i64, (scores[0] * scores[1] * room, 3)), tensor(i64, ())]


ROI_MODES = ("avg", "max")


@irdl_op_definition
class RoiAlignOp(NnOp):
    """Regions of images, each sampled at the points of a grid: [regions, channels, *sizes] (ONNX's
    RoiAlign).

    `rois[region]` holds the low x and y and the high x and y, which are multiplied by `scale`. With
    `half_pixel`, the center of an element is half a pixel from its corner; without it, a region is
    at least a pixel wide and high. `batches[region]` is the number of the region's image in
    `x[batch, channel, y, x]`. An element of the result is the average, or in the mode `max` the
    maximum, of the values at `samples` by `samples` points in its part of the region; if `samples`
    is 0, the number of points is the number of pixels of that part. The value at a point mixes the
    four elements around the point; in the mode `max`, it is the maximum of these elements times
    their weights. The value is 0 outside the image, and the result is 0 for a region without
    points.
    """

    name = "nn.roi_align"
    DEFAULTS: ClassVar[Defaults] = {"scale": 1.0, "samples": 0, "mode": "avg", "half_pixel": True}
    x = operand_def(base(TensorType))
    rois = operand_def(base(TensorType))
    batches = operand_def(base(TensorType))
    sizes = sizes_def()
    scale = prop_def(FloatAttr[Float64Type])
    samples = prop_def(IntegerAttr[I64])
    mode = prop_def(StringAttr)
    half_pixel = prop_def(BoolAttr)
    res = result_def(base(TensorType))
    traits = traits_def(Pure())

    def infer(self) -> Sequence[Tensor]:
        check_choice(self, "mode", self.settings["mode"], ROI_MODES)
        check_least(self, "samples", [self.settings["samples"]], 0)
        return [_of_regions(self)]


@irdl_op_definition
class MaxRoiPoolOp(NnOp):
    """Maxima over regions of images: [regions, channels, *sizes] (ONNX's MaxRoiPool).

    `rois[region]` holds the first x and y and the last x and y, which are multiplied by `scale` and
    rounded to whole pixels, halves away from zero. A region has at least one pixel.
    `batches[region]` is the number of the region's image in `x[batch, channel, y, x]`. A region is
    divided into `sizes` parts. An element of the result is the maximum of the pixels that one part
    touches; it is 0 if the part touches no pixel of the image.
    """

    name = "nn.max_roi_pool"
    DEFAULTS: ClassVar[Defaults] = {"scale": 1.0}
    x = operand_def(base(TensorType))
    rois = operand_def(base(TensorType))
    batches = operand_def(base(TensorType))
    sizes = sizes_def()
    scale = prop_def(FloatAttr[Float64Type])
    res = result_def(base(TensorType))
    traits = traits_def(Pure())

    def infer(self) -> Sequence[Tensor]:
        check_least(self, "sizes", self.settings["sizes"], 1)
        return [_of_regions(self)]


def _of_regions(op: RoiAlignOp | MaxRoiPoolOp) -> Tensor:
    """Return the result type of an op on regions. Raises ShapeError if its operands do not fit."""
    sizes, shape = op.settings["sizes"], shape_of(op.x)
    check_float(op, op.x)
    check_same_element(op, [op.x, op.rois])
    check_length(op, "sizes", sizes, 2)
    check_least(op, "sizes", sizes, 0)
    if tensor_type(op.batches).element_type != i64 or len(shape_of(op.batches)) != 1:
        raise ShapeError(f"{op.name}: batches list i64", found=str(op.batches.type))
    count = shape_of(op.batches)[0]
    check_shape(op, op.rois, (count, 4))
    if len(shape) != 4 or not all(decided(extent >= 1) for extent in shape[2:]):
        raise ShapeError(
            f"{op.name} takes images",
            expected="[n, channels, height, width], not empty",
            found=str(op.x.type),
        )
    return tensor(tensor_type(op.x).element_type, (count, shape[1], *sizes))
