"""Normalizations, with the statistics of the data or with known ones."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.nn.core import dtype_of, shape_of
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.model import Node
from tessella.frontends.onnx.registry import Rule, converts, only
from tessella.support.errors import ShapeError


def _statistics(node: Node) -> str | None:
    used = any(node.uses(i) for i in range(1, len(node.outputs)))
    if used and not node.attributes.get("training_mode", 0):
        return "statistics of training are used"
    return None


@converts(
    "BatchNormalization",
    1,
    15,
    Rule("not the statistics of training before version 14", _statistics),
)
def batch_norm(call: Call) -> SSAValue | tuple[SSAValue, ...]:
    """With known statistics, or in training mode (version 14 on) with those of the batch."""
    if call.version >= 14 and call.flag("training_mode"):
        return _training_batch_norm(call)
    if call.version < 7 and not call.flag("is_test"):
        call.unsupported("training mode (is_test=0)")
    dtype = dtype_of(call.x.type)
    parameters = [call.cast(call.operand(i), dtype) for i in range(1, 5)]
    if call.version < 9 and not call.flag("spatial", True):
        return _normalized(call, call.x, *parameters, axes=(0,))
    if len(shape_of(call.x)) < 2:
        return _normalized(call, call.x, *parameters, axes=(0,))
    return call.emit(nn.BatchNormOp, call.x, *parameters, epsilon=call.number("epsilon"))


def _normalized(
    call: Call,
    x: SSAValue,
    scale: SSAValue,
    bias: SSAValue,
    mean: SSAValue,
    variance: SSAValue,
    *,
    axes: Sequence[int],
) -> SSAValue:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias; all but x lack the axes."""
    shape = [1 if d in axes else size for d, size in enumerate(shape_of(x))]
    scale, bias, mean, variance = (call.reshape(v, shape) for v in (scale, bias, mean, variance))
    spread = call.emit(nn.AddOp, variance, call.scalar(call.number("epsilon"), x))
    centered = call.emit(nn.SubOp, x, mean)
    unit = call.emit(nn.DivOp, centered, call.emit(nn.SqrtOp, spread))
    return call.emit(nn.AddOp, call.emit(nn.MulOp, unit, scale), bias)


def moments(call: Call, x: SSAValue, axes: Sequence[int]) -> tuple[SSAValue, SSAValue]:
    """Mean and variance over axes, which stay with size 1."""
    mean = call.emit(nn.ReduceMeanOp, x, axes=tuple(axes), keepdims=True)
    centered = call.emit(nn.SubOp, x, mean)
    square = call.emit(nn.MulOp, centered, centered)
    return mean, call.emit(nn.ReduceMeanOp, square, axes=tuple(axes), keepdims=True)


def _training_batch_norm(call: Call) -> tuple[SSAValue, SSAValue, SSAValue]:
    x, rank = call.x, len(shape_of(call.x))
    axes = [d for d in range(rank) if d != 1]
    mean, variance = moments(call, x, axes)
    y = _normalized(call, x, call.operand(1), call.operand(2), mean, variance, axes=axes)
    momentum = call.number("momentum")
    running = [
        call.emit(
            nn.AddOp,
            call.emit(nn.MulOp, old, call.scalar(momentum, old)),
            call.emit(nn.MulOp, call.reshape(new, shape_of(old)), call.scalar(1 - momentum, old)),
        )
        for old, new in ((call.operand(3), mean), (call.operand(4), variance))
    ]
    return y, running[0], running[1]


@converts("LayerNormalization", 17, 17)
def layer_norm(call: Call) -> list[SSAValue | None]:
    """Mean and inverse deviation are computed apart where they are asked for."""
    x, axis = call.x, call.axis(call.x)
    operands = [v for v in (x, call.operand(1), call.optional(2)) if v is not None]
    y = call.emit(nn.LayerNormOp, *operands, axis=axis, epsilon=call.number("epsilon"))
    if not call.node.uses(1) and not call.node.uses(2):
        return [y]
    mean, variance = moments(call, x, range(axis, len(shape_of(x))))
    spread = call.emit(nn.AddOp, variance, call.scalar(call.number("epsilon"), variance))
    return [y, mean, call.emit(nn.ReciprocalOp, call.emit(nn.SqrtOp, spread))]


@converts("RMSNormalization", 23, 23)
def rms_norm(call: Call) -> SSAValue:
    """Over all dimensions from the axis on."""
    axis, epsilon = call.axis(call.x), call.number("epsilon")
    return call.emit(nn.RmsNormOp, call.x, call.operand(1), axis=axis, epsilon=epsilon)


@converts("InstanceNormalization", 1, 22)
def instance_norm(call: Call) -> SSAValue:
    """Over the spatial dimensions: groups of one channel."""
    groups = max(1, shape_of(call.x)[1]) if len(shape_of(call.x)) > 1 else 1
    return call.emit(
        nn.GroupNormOp, *call.operands(), groups=groups, epsilon=call.number("epsilon")
    )


@converts("GroupNormalization", 18, 21)
def group_norm(call: Call) -> SSAValue:
    """Scale and bias are of a group, since version 21 of a channel."""
    x, groups, shape = call.x, call.integer("num_groups"), shape_of(call.x)
    if len(shape) < 2 or groups < 1 or shape[1] % groups:
        raise ShapeError(
            "the channels are not a multiple of num_groups", found=f"{x.type}, {groups}"
        )
    parameters = [call.operand(1), call.operand(2)]
    if call.version < 21:
        each = (groups, shape[1] // groups)
        columns = (call.reshape(value, (groups, 1)) for value in parameters)
        parameters = [call.reshape(call.expand(v, each), shape[1:2]) for v in columns]
    images = call.reshape(x, (*shape, *[1] * (len(shape) < 3)))
    y = call.emit(
        nn.GroupNormOp, images, *parameters, groups=groups, epsilon=call.number("epsilon")
    )
    return call.reshape(y, shape)


@converts("MeanVarianceNormalization", 9, 13)
def mean_variance_norm(call: Call) -> SSAValue:
    """(x - mean) / (sqrt(variance) + 1e-9)."""
    rank = len(shape_of(call.x))
    axes = [front_axis(axis, rank) for axis in call.integers("axes") or (0, 2, 3)]
    mean, variance = moments(call, call.x, axes)
    deviation = call.emit(nn.SqrtOp, variance)
    spread = call.emit(nn.AddOp, deviation, call.scalar(1e-9, deviation))
    return call.emit(nn.DivOp, call.emit(nn.SubOp, call.x, mean), spread)


@converts("LRN", 1, 13)
def lrn(call: Call) -> SSAValue:
    """Over neighbouring channels."""
    return call.emit(
        nn.LrnOp,
        call.x,
        size=call.integer("size"),
        alpha=call.number("alpha"),
        beta=call.number("beta"),
        bias=call.number("bias"),
    )


@converts("LpNormalization", 1, 22, only("p", 2, 1))
def lp_norm(call: Call) -> SSAValue:
    """x over its 1-norm or 2-norm along an axis; 0 where the norm is 0."""
    x, axis = call.x, call.axis(call.x)
    one = call.integer("p") == 1
    terms = call.emit(nn.AbsOp, x) if one else call.emit(nn.MulOp, x, x)
    norm = call.emit(nn.ReduceSumOp, terms, axes=(axis,), keepdims=True)
    norm = norm if one else call.emit(nn.SqrtOp, norm)
    zero = call.scalar(0, x)
    empty = call.emit(nn.EqualOp, norm, zero)
    return call.emit(nn.WhereOp, empty, zero, call.emit(nn.DivOp, x, norm))
