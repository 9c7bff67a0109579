"""Poolings, and sums of windows.

A window moves over the spatial dimensions of x[N, C, spatial..].
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import I64, BoolAttr, DenseArrayBase, TensorType
from xdsl.irdl import base, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from tessella.dialects.nn.checks import (
    check_float,
    check_least,
    check_length,
    check_number,
    check_rank,
)
from tessella.dialects.nn.core import Defaults, NnOp, Tensor, shape_of, tensor, tensor_type
from tessella.dialects.nn.host_work import POINT, WIDE, elements, padded
from tessella.dialects.nn.linear import WINDOW, window_rest, window_too_large
from tessella.dialects.nn.traits import ChoosesElements, TakesComplex
from tessella.support.conditions import decided
from tessella.support.decisions import decided_zero, known_all
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size


def pool_extent(
    size: Size, kernel: int, stride: int, before: int, after: int, dilation: int, ceil_mode: bool
) -> Size:
    """Return the number of windows over one padded dimension. Raises ShapeError if the window does
    not fit.

    With ``ceil_mode``, a last window may extend beyond the padding, unless it would start in the
    padding (the formula of ONNX's MaxPool-22 and of torch).
    """
    rest = window_rest(size, kernel, stride, before, after, dilation)
    extent = rest // stride + 1
    fits = extent * stride < size + before
    if ceil_mode and decided(fits) and not decided_zero(rest % stride):
        extent += 1
    if decided(extent < 1):
        raise window_too_large(size, kernel, before, after, dilation)
    return extent


class PoolOp(NnOp):
    """A pooling. `pads` lists the padding before each spatial dimension, then after each. With
    `ceil_mode`, a last window may extend beyond the padding, unless it would start in the
    padding."""

    DEFAULTS: ClassVar[Defaults] = {**WINDOW, "ceil_mode": False}
    x = operand_def(base(TensorType))
    kernel_shape = prop_def(DenseArrayBase[I64])
    strides = prop_def(DenseArrayBase[I64])
    pads = prop_def(DenseArrayBase[I64])
    dilations = prop_def(DenseArrayBase[I64])
    ceil_mode = prop_def(BoolAttr)
    res = result_def(base(TensorType))
    traits = traits_def(Pure())

    def infer(self) -> Sequence[Tensor]:
        check_rank(self, self.x, 3)
        x, settings = shape_of(self.x), self.settings
        rank = len(x) - 2
        for name, length in (("kernel_shape", 1), ("strides", 1), ("pads", 2), ("dilations", 1)):
            check_length(self, name, settings[name], length * rank)
        pads: tuple[int, ...] = settings["pads"]
        spatial = [
            pool_extent(
                x[2 + d], settings["kernel_shape"][d], settings["strides"][d], pads[d],
                pads[rank + d], settings["dilations"][d], settings["ceil_mode"],
            )
            for d in range(rank)
        ]  # fmt: skip
        return [tensor(tensor_type(self.x).element_type, (*x[:2], *spatial))]

    @property
    def channels(self) -> Mapping[int, int]:
        return {-1: 1, 0: 1}

    @property
    def operations(self) -> Size:
        return math.prod(shape_of(self.res)) * math.prod(self.settings["kernel_shape"])

    @property
    def host_bytes(self) -> Size:
        # with ceil_mode, the last window may extend as far again beyond the end of the padding
        room = padded(self.x, self.settings["pads"]) * (1 << len(self.settings["strides"]))
        points = math.prod(self.settings["kernel_shape"])
        return room * WIDE + points * (POINT + elements(self.results[0]))


@irdl_op_definition
class MaxPoolOp(PoolOp):
    """The largest element of each window. Padding counts as the type's least value."""

    name = "nn.max_pool"
    traits = traits_def(Pure(), ChoosesElements())

    def infer(self) -> Sequence[Tensor]:
        check_number(self, self.x)
        return super().infer()


@irdl_op_definition
class AvgPoolOp(PoolOp):
    """The mean of each window's elements; with `count_include_pad` the padding counts as zeros.

    Positions beyond the padding (see `ceil_mode`) never count.
    """

    name = "nn.avg_pool"
    DEFAULTS: ClassVar[Defaults] = {**PoolOp.DEFAULTS, "count_include_pad": False}
    count_include_pad = prop_def(BoolAttr)

    def infer(self) -> Sequence[Tensor]:
        check_float(self, self.x)
        return super().infer()


@irdl_op_definition
class Col2imOp(NnOp):
    """The sum of the windows x[N, C, kernel.., windows..] in an image of the sizes `image` (ONNX's
    Col2Im).

    Element x[k, i] is added to element `i * stride + k * dilation - start` of the image. Elements
    outside the image are dropped.
    """

    name = "nn.col2im"
    x = operand_def(base(TensorType))
    image = prop_def(DenseArrayBase[I64])
    strides = prop_def(DenseArrayBase[I64])
    dilations = prop_def(DenseArrayBase[I64])
    starts = prop_def(DenseArrayBase[I64])
    res = result_def(base(TensorType))
    traits = traits_def(Pure(), TakesComplex())

    def infer(self) -> Sequence[Tensor]:
        check_number(self, self.x)
        settings, rank = self.settings, len(self.settings["image"])
        for name in ("strides", "dilations", "starts"):
            check_length(self, name, settings[name], rank)
        for name, least in (("image", 0), ("strides", 1), ("dilations", 1), ("starts", 0)):
            check_least(self, name, settings[name], least)
        shape = shape_of(self.x)
        if rank < 1 or len(shape) != 2 + 2 * rank:
            raise ShapeError(
                f"{self.name}: the operand has the wrong rank",
                expected=f"{2 + 2 * rank} dimensions, for an image of {rank}",
                found=str(self.x.type),
            )
        known_all(shape[2 : 2 + rank])
        return [tensor(tensor_type(self.x).element_type, (*shape[:2], *settings["image"]))]

    @property
    def operations(self) -> Size:
        return math.prod(shape_of(self.x))

    @property
    def host_bytes(self) -> Size:
        taps = math.prod(shape_of(self.x)[2 : 2 + len(self.settings["image"])])
        return 2 * elements(self.res) * WIDE + elements(self.x) * WIDE + taps * POINT
