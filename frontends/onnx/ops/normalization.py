"""Converters of normalizations, with the statistics of the data or with given statistics."""

from __future__ import annotations

from collections.abc import Sequence

from tessella.dialects import nn
from tessella.frontends.emitter import Value, where
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.model import Node
from tessella.frontends.onnx.registry import Rule, converts, only
from tessella.support.decisions import decided_zero, known
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
def batch_norm(call: Call) -> Value | tuple[Value, ...]:
    """Emit batch normalization with given statistics, or in training mode (version 14 on) with the
    statistics of the batch."""
    if call.flag("training_mode"):
        return _training_batch_norm(call)
    call.meaningless("momentum")
    x, epsilon = call.x, call.number("epsilon")
    scale, bias, mean, variance = (call.operand(i).cast(x.dtype) for i in range(1, 5))
    if x.rank < 2:
        return _normalized(x, scale, bias, mean, variance, epsilon=epsilon, axes=(0,))
    return x.op(nn.BatchNormOp, scale, bias, mean, variance, epsilon=epsilon)


def _normalized(
    x: Value,
    scale: Value,
    bias: Value,
    mean: Value,
    variance: Value,
    *,
    epsilon: float,
    axes: Sequence[int],
) -> Value:
    """Emit (x - mean) / sqrt(variance + epsilon) * scale + bias; the other operands have all
    dimensions of x except ``axes``."""
    shape = [1 if d in axes else size for d, size in enumerate(x.shape)]
    scale, bias, mean, variance = (v.reshape(shape) for v in (scale, bias, mean, variance))
    return (x - mean) / (variance + epsilon).op(nn.SqrtOp) * scale + bias


def moments(x: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    """Emit the mean and the variance over axes, which keep size 1."""
    mean = x.mean(axes, keepdims=True)
    centered = x - mean
    return mean, (centered * centered).mean(axes, keepdims=True)


def _training_batch_norm(call: Call) -> tuple[Value, Value, Value]:
    x, scale, bias, *old = call.operands()
    axes = [d for d in range(x.rank) if d != 1]
    new, momentum = moments(x, axes), call.number("momentum")
    y = _normalized(x, scale, bias, *new, epsilon=call.number("epsilon"), axes=axes)
    mean, variance = (
        before * momentum + batch.reshape(before.shape) * (1 - momentum)
        for before, batch in zip(old, new, strict=True)
    )
    return y, mean, variance


@converts("LayerNormalization", 17, 17)
def layer_norm(call: Call) -> list[Value | None]:
    """Emit layer normalization. The outputs for the mean and the inverse standard deviation are
    computed only if they are used."""
    x, axis, epsilon = call.x, call.axis(call.x), call.number("epsilon")
    bias = call.optional(2)
    y = x.op(nn.LayerNormOp, call.operand(1), bias, axis=axis, epsilon=epsilon)
    if not call.node.uses(1) and not call.node.uses(2):
        return [y]
    mean, variance = moments(x, range(axis, x.rank))
    return [y, mean, (variance + epsilon).op(nn.SqrtOp).op(nn.ReciprocalOp)]


@converts("RMSNormalization", 23, 23)
def rms_norm(call: Call) -> Value:
    """Emit RMS normalization over all dimensions from the axis on."""
    axis, epsilon = call.axis(call.x), call.number("epsilon")
    return call.x.op(nn.RmsNormOp, call.operand(1), axis=axis, epsilon=epsilon)


@converts("InstanceNormalization", 1, 22)
def instance_norm(call: Call) -> Value:
    """Emit instance normalization over the spatial dimensions, as group normalization with groups
    of one channel."""
    x, *parameters = call.operands()
    groups = max(1, known(x.shape[1])) if x.rank > 1 else 1
    return x.op(nn.GroupNormOp, *parameters, groups=groups, epsilon=call.number("epsilon"))


@converts("GroupNormalization", 18, 21)
def group_norm(call: Call) -> Value:
    """Emit group normalization, with a scale and a bias for each channel."""
    x, groups = call.x, call.integer("num_groups")
    check_groups(x, groups)
    images = x.reshape((*x.shape, *[1] * (x.rank < 3)))
    scale, bias, epsilon = call.operand(1), call.operand(2), call.number("epsilon")
    return images.op(nn.GroupNormOp, scale, bias, groups=groups, epsilon=epsilon).reshape(x.shape)


def check_groups(x: Value, groups: int) -> None:
    """Raise ShapeError unless the number of channels of ``x`` is a multiple of ``groups``."""
    if x.rank < 2 or groups < 1 or not decided_zero(x.shape[1] % groups):
        raise ShapeError(
            "the channels do not divide into groups",
            expected="[n, channels, ..], and a positive num_groups that divides the channels",
            found=f"{x.type}, num_groups {groups}",
        )


@converts("MeanVarianceNormalization", 9, 13)
def mean_variance_norm(call: Call) -> Value:
    """Emit (x - mean) / (sqrt(variance) + 1e-9), with the statistics over the attribute's axes."""
    x = call.x
    axes = [front_axis(axis, x.rank) for axis in call.integers("axes") or (0, 2, 3)]
    mean, variance = moments(x, axes)
    return (x - mean) / (variance.op(nn.SqrtOp) + 1e-9)


@converts("LRN", 1, 13)
def lrn(call: Call) -> Value:
    """Emit local response normalization over neighbouring channels."""
    return call.x.op(
        nn.LrnOp,
        size=call.integer("size"),
        alpha=call.number("alpha"),
        beta=call.number("beta"),
        bias=call.number("bias"),
    )


@converts("LpNormalization", 1, 22, only("p", 2, 1))
def lp_norm(call: Call) -> Value:
    """Emit x divided by its 1-norm or 2-norm along an axis; 0 if the norm is 0."""
    x, axis = call.x, call.axis(call.x)
    if call.integer("p") == 1:
        norm = abs(x).sum([axis], keepdims=True)
    else:
        norm = (x * x).sum([axis], keepdims=True).op(nn.SqrtOp)
    return where(norm.equals(0), 0, x / norm)
