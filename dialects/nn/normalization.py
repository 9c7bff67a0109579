"""Normalizations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import I64, Float64Type, FloatAttr, IntegerAttr, TensorType
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
    check_axes,
    check_float,
    check_least,
    check_rank,
    check_same_element,
    check_shape,
)
from tessella.dialects.nn.core import (
    LAST_AXIS,
    Defaults,
    NnOp,
    Tensor,
    broadcast_shapes,
    shape_of,
    shapes_differ,
    shown,
    tensor,
    tensor_type,
)
from tessella.dialects.nn.host_work import POINT, elements
from tessella.dialects.nn.traits import ReadsRows
from tessella.support.decisions import decided_min
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size


class NormalizationOp(NnOp):
    """A normalization of floats: the result has the type of the first operand, x."""

    res = result_def(base(TensorType))
    traits = traits_def(Pure())

    def infer(self) -> Sequence[Tensor]:
        check_same_element(self)
        check_float(self, self.operands[0])
        x = tensor_type(self.operands[0])
        return [tensor(x.element_type, shape_of(x))]


class TrailingNormOp(NormalizationOp):
    """A normalization over all dimensions from `axis` on; the other operands broadcast to x."""

    traits = traits_def(ReadsRows())

    DEFAULTS: ClassVar[Defaults] = {"axis": LAST_AXIS, "epsilon": 1e-5}
    axis = prop_def(IntegerAttr[I64])
    epsilon = prop_def(FloatAttr[Float64Type])

    def infer(self) -> Sequence[Tensor]:
        x, *others = self.operands
        shape = shape_of(x)
        check_axes(self, [self.settings["axis"]], len(shape))
        for value in others:
            if shapes_differ(broadcast_shapes([shape, shape_of(value)]), shape):
                raise ShapeError(
                    f"{self.name}: an operand does not broadcast to x",
                    expected=f"at most {shown(shape)}",
                    found=str(value.type),
                )
        return super().infer()


class ChannelNormOp(NormalizationOp):
    """A normalization of x[N, C, ..]; the other operands hold one number for each channel."""

    DEFAULTS: ClassVar[Defaults] = {"epsilon": 1e-5}
    epsilon = prop_def(FloatAttr[Float64Type])

    def infer(self) -> Sequence[Tensor]:
        x, *others = self.operands
        check_rank(self, x, 2)
        for value in others:
            check_shape(self, value, shape_of(x)[1:2])
        return super().infer()


@irdl_op_definition
class LayerNormOp(TrailingNormOp):
    """(x - mean) / sqrt(variance + epsilon) * scale + bias (ONNX's LayerNormalization)."""

    name = "nn.layer_norm"
    x = operand_def(base(TensorType))
    scale = operand_def(base(TensorType))
    bias = opt_operand_def(base(TensorType))


@irdl_op_definition
class RmsNormOp(TrailingNormOp):
    """x / sqrt(mean(x^2) + epsilon) * scale (ONNX's RMSNormalization)."""

    name = "nn.rms_norm"
    x = operand_def(base(TensorType))
    scale = operand_def(base(TensorType))


@irdl_op_definition
class GroupNormOp(ChannelNormOp):
    """x[N, C, spatial..] normalized over its spatial dimensions and the channels of a group, times
    scale[C], plus bias[C]. With one channel in a group it is ONNX's InstanceNormalization."""

    name = "nn.group_norm"
    x = operand_def(base(TensorType))
    scale = operand_def(base(TensorType))
    bias = operand_def(base(TensorType))
    groups = prop_def(IntegerAttr[I64])

    def infer(self) -> Sequence[Tensor]:
        check_rank(self, self.x, 3)
        check_least(self, "groups", [self.settings["groups"]], 1)
        if shape_of(self.x)[1] % self.settings["groups"]:
            raise ShapeError(
                f"{self.name}: the channels are not a multiple of groups",
                expected=f"a multiple of {self.settings['groups']}",
                found=str(self.x.type),
            )
        return super().infer()


@irdl_op_definition
class BatchNormOp(ChannelNormOp):
    """(x - mean[C]) / sqrt(variance[C] + epsilon) * scale[C] + bias[C] for x[N, C, ..]."""

    name = "nn.batch_norm"
    x = operand_def(base(TensorType))
    scale = operand_def(base(TensorType))
    bias = operand_def(base(TensorType))
    mean = operand_def(base(TensorType))
    variance = operand_def(base(TensorType))


@irdl_op_definition
class LrnOp(NormalizationOp):
    """x / (bias + alpha / size * s)^beta for x[N, C, ..], where s is the sum of x^2 over the `size`
    nearest channels."""

    name = "nn.lrn"
    DEFAULTS: ClassVar[Defaults] = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0}
    x = operand_def(base(TensorType))
    size = prop_def(IntegerAttr[I64])
    alpha = prop_def(FloatAttr[Float64Type])
    beta = prop_def(FloatAttr[Float64Type])
    bias = prop_def(FloatAttr[Float64Type])

    def infer(self) -> Sequence[Tensor]:
        check_rank(self, self.x, 2)
        check_least(self, "size", [self.settings["size"]], 1)
        return super().infer()

    @property
    def host_bytes(self) -> Size:
        channels = shape_of(self.x)[1]
        turns = decided_min(self.settings["size"], 2 * channels)
        return turns * (POINT + elements(self.x))
