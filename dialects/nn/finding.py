"""Ops with result sizes that are known only at run time: distinct slices, and decoded images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import I64, BoolAttr, IntegerAttr, StringAttr, TensorType, i64
from xdsl.irdl import base, irdl_op_definition, operand_def, prop_def, result_def

from tessella.dialects.elements import attribute_of
from tessella.dialects.nn.checks import check_axes, check_choice
from tessella.dialects.nn.core import Defaults, Tensor, shape_of, tensor, tensor_type
from tessella.dialects.nn.symbolic import FindingOp, Found
from tessella.runtime.host.images import CHANNELS
from tessella.support.errors import ShapeError


@irdl_op_definition
class UniqueOp(FindingOp):
    """The distinct slices of x along `axis`, sorted or in order of first occurrence.

    `first` has the position of each distinct slice's first occurrence in x, `inverse` the number of
    each slice of x among the distinct ones, and `counts` how often each distinct slice occurs.

    `%v, %f, %i, %c = nn.unique %x sizes [[k]] : tensor<[k]x4xf32>, tensor<[k]xi64>, tensor<7xi64>,
    tensor<[k]xi64>` defines the symbol k, the number of distinct slices.
    """

    name = "nn.unique"
    RESULTS: ClassVar[int] = 4
    DEFAULTS: ClassVar[Defaults] = {"axis": 0, "sorted": True}
    x = operand_def(base(TensorType))
    axis = prop_def(IntegerAttr[I64])
    sorted = prop_def(BoolAttr)
    values = result_def(base(TensorType))
    first = result_def(base(TensorType))
    inverse = result_def(base(TensorType))
    counts = result_def(base(TensorType))

    @property
    def found(self) -> Sequence[Found]:
        """The dimension of the result that has the number of distinct slices."""
        axis = self.settings["axis"]
        return (Found(0, axis, shape_of(self.x)[axis]),)

    def infer(self) -> Sequence[Tensor]:
        shape = shape_of(self.x)
        axis: int = self.settings["axis"]
        check_axes(self, [axis], len(shape))
        (count,) = self.found_sizes()
        element = tensor_type(self.x).element_type
        numbers = (tensor(i64, [size]) for size in (count, shape[axis], count))
        return [tensor(element, (*shape[:axis], count, *shape[axis + 1 :])), *numbers]


@irdl_op_definition
class DecodeImageOp(FindingOp):
    """The pixels of the image in the bytes of a file, [height, width, channels].

    `%p = nn.decode_image %data sizes [[h], [w]] : tensor<[h]x[w]x3xui8>` defines the symbols h and
    w. The image has no pixels if the bytes cannot be decoded.
    """

    name = "nn.decode_image"
    DEFAULTS: ClassVar[Defaults] = {"format": "RGB"}
    data = operand_def(base(TensorType))
    format = prop_def(StringAttr)
    res = result_def(base(TensorType))

    @property
    def found(self) -> Sequence[Found]:
        """The dimensions of the result that have the height and the width."""
        return Found(0, 0), Found(0, 1)

    def infer(self) -> Sequence[Tensor]:
        check_choice(self, "format", self.settings["format"], tuple(CHANNELS))
        type = tensor_type(self.data)
        if type.element_type != attribute_of("u8") or len(shape_of(self.data)) != 1:
            raise ShapeError(f"{self.name}: the data is a vector of bytes", found=str(type))
        channels = CHANNELS[self.settings["format"]]
        return [tensor(type.element_type, (*self.found_sizes(), channels))]
