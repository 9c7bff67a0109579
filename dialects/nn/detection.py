"""Ops on the boxes of detectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, TensorType, i64
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

from tessella.dialects.nn.checks import check_float, check_same_element, check_shape
from tessella.dialects.nn.core import (
    Defaults,
    NnOp,
    Tensor,
    shape_of,
    shapes_differ,
    tensor,
    tensor_type,
)
from tessella.dialects.sizes import size_def
from tessella.support.conditions import decided
from tessella.support.errors import ShapeError


@irdl_op_definition
class NonMaxSuppressionOp(NnOp):
    """The boxes of each class by falling scores, without those that overlap one before them.

    `boxes[batch, box]` are two opposite corners, or with `centered` a center, a width and a
    height; `scores[batch, class, box]` tell how likely a class is. A box is left out if its
    intersection with one that is kept is more than `overlap` of their union, or if its score is not
    above `least`, or NaN. `most` boxes of a class are kept at most, and no more than `room`.
    `selected` has the batch, the class and the box of each that is kept, and then zeros; `count` is
    their number.
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
