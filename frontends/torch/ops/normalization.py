"""Converters of normalizations; most also return the statistics, which gradients read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessella.dialects import nn
from tessella.frontends.emitter import Emitter, Value
from tessella.frontends.torch.registry import aten
from tessella.support.sizes import Size, product


def _moments(x: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    """Emit the mean and the variance over axes, which keep size 1."""
    mean = x.mean(axes, keepdims=True)
    centered = x - mean
    return mean, (centered * centered).mean(axes, keepdims=True)


def _inverse(variance: Value, epsilon: float) -> Value:
    return (variance + epsilon).op(nn.SqrtOp).op(nn.ReciprocalOp)


def _wide(x: Value) -> Value:
    """Return a tensor of 16-bit floats as float32, in which PyTorch keeps statistics."""
    return x.cast(np.float32) if x.dtype.itemsize == 2 else x


@aten("native_layer_norm")
def layer_norm(
    emit: Emitter,
    x: Value,
    shape: Sequence[Size],
    weight: Value | None,
    bias: Value | None,
    eps: float,
) -> tuple[Value, Value, Value]:
    axis = x.rank - len(shape)
    scale = emit.splat(1, (), x.dtype).expand(tuple(shape)) if weight is None else weight
    given = [scale.cast(x.dtype), *([] if bias is None else [bias.cast(x.dtype)])]
    y = x.op(nn.LayerNormOp, *given, axis=axis, epsilon=eps)
    mean, variance = _moments(_wide(x), range(axis, x.rank))
    return y, mean, _inverse(variance, eps)


@aten("native_group_norm")
def group_norm(
    emit: Emitter,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    batch: Size,
    channels: Size,
    size: Size,
    groups: int,
    eps: float,
) -> tuple[Value, Value, Value]:
    scale = emit.splat(1, (), x.dtype).expand((channels,)) if weight is None else weight
    shift = emit.splat(0, (), x.dtype).expand((channels,)) if bias is None else bias
    affine = scale.cast(x.dtype), shift.cast(x.dtype)
    images = x if x.rank > 2 else x.reshape((*x.shape, 1))
    y = images.op(nn.GroupNormOp, *affine, groups=groups, epsilon=eps).reshape(x.shape)
    rows = _wide(x).reshape((batch, groups, channels // groups * size))
    mean, variance = _moments(rows, [2])
    inverse = _inverse(variance, eps)
    return y, mean.reshape((batch, groups)), inverse.reshape((batch, groups))


@aten("_fused_rms_norm")
def rms_norm(
    emit: Emitter, x: Value, shape: Sequence[Size], weight: Value | None, eps: float | None
) -> tuple[Value, Value]:
    epsilon = float(np.finfo(np.float32).eps) if eps is None else eps
    axis = x.rank - len(shape)
    scale = emit.splat(1, (), x.dtype).expand(tuple(shape)) if weight is None else weight
    y = x.op(nn.RmsNormOp, scale.cast(x.dtype), axis=axis, epsilon=epsilon)
    wide = _wide(x)
    return y, _inverse((wide * wide).mean(range(axis, x.rank), keepdims=True), epsilon)


# ** by statistics of a batch **


def _column(x: Value, value: Value) -> Value:
    """Emit a value for each channel in the rank of the images."""
    return value.reshape((1, x.shape[1], *[1] * (x.rank - 2)))


def _affine(x: Value, y: Value, weight: Value | None, bias: Value | None) -> Value:
    y = y if weight is None else y * _column(x, weight.cast(y.dtype))
    return (y if bias is None else y + _column(x, bias.cast(y.dtype))).cast(x.dtype)


@aten("_native_batch_norm_legit_no_training")
def batch_norm_inference(
    emit: Emitter,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    variance: Value,
    momentum: float,
    eps: float,
) -> tuple[Value, Value, Value]:
    empty = emit.splat(0, (0,), _wide(x).dtype)
    if weight is None or bias is None or x.rank < 3:
        scaled = (_wide(x) - _column(x, mean)) * _column(x, _inverse(variance, eps))
        return _affine(x, scaled, weight, bias), empty, empty
    operands = (v.cast(x.dtype) for v in (weight, bias, mean, variance))
    return x.op(nn.BatchNormOp, *operands, epsilon=eps), empty, empty


@aten("_native_batch_norm_legit.no_stats")
def batch_norm_no_stats(
    emit: Emitter,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, Value, Value]:
    wide = _wide(x)
    mean, variance = _moments(wide, [d for d in range(x.rank) if d != 1])
    inverse = _inverse(variance, eps)
    y = _affine(x, (wide - mean) * inverse, weight, bias)
    return y, mean.flat(), inverse.flat()


@aten("_native_batch_norm_legit_functional")
def batch_norm_training(
    emit: Emitter,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    mean: Value,
    variance: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    if not training:
        found = batch_norm_inference(emit, x, weight, bias, mean, variance, momentum, eps)
        return (*found, mean, variance)
    axes = [d for d in range(x.rank) if d != 1]
    wide = _wide(x)
    average, spread = _moments(wide, axes)
    inverse = _inverse(spread, eps)
    y = _affine(x, (wide - average) * inverse, weight, bias)
    count = emit.scalar(product(x.shape[d] for d in axes), np.int64).cast(wide.dtype)
    unbiased = spread.flat() * (count / (count - 1))
    new = [
        before * (1 - momentum) + after.cast(before.dtype) * momentum
        for before, after in ((mean, average.flat()), (variance, unbiased))
    ]
    return y, average.flat(), inverse.flat(), *new
