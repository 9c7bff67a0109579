"""Converters of normalizations, most with a residual that is added first."""

from __future__ import annotations

import numpy as np

from tessella.dialects import nn
from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops.contributed.channels import channels_first
from tessella.frontends.onnx.ops.normalization import check_groups, layer_norm, moments
from tessella.frontends.onnx.registry import contributed
from tessella.support.errors import ShapeError

contributed("LayerNormalization", domain="", axis=-1, epsilon=1e-5, stash_type=1)(layer_norm)


@contributed("SimplifiedLayerNormalization", domain="", axis=-1, epsilon=1e-5, stash_type=1)
def simplified_layer_norm(call: Call) -> list[Value | None]:
    """Emit RMS normalization over all dimensions from the axis on. The output for the inverse root
    mean square is computed only if it is used."""
    x, axis, epsilon = call.x, call.axis(call.x), call.number("epsilon")
    y = x.op(nn.RmsNormOp, call.operand(1), axis=axis, epsilon=epsilon)
    if not call.node.uses(1):
        return [y]
    square = (x * x).mean(range(axis, x.rank), keepdims=True)
    return [y, (square + epsilon).op(nn.SqrtOp).op(nn.ReciprocalOp)]


@contributed("SkipLayerNormalization", epsilon=1e-12)
def skip_layer_norm(call: Call) -> list[Value | None]:
    """Emit layer normalization of the sum with a residual, and if its output is used, that sum."""
    epsilon, total = call.number("epsilon"), _with_residual(call, 4)
    last = total.rank - 1
    y = total.op(nn.LayerNormOp, call.operand(2), call.optional(3), axis=last, epsilon=epsilon)
    if not call.node.uses(1) and not call.node.uses(2):
        return [y, None, None, total]
    mean, variance = moments(total, [last])
    return [y, mean, (variance + epsilon).op(nn.SqrtOp).op(nn.ReciprocalOp), total]


@contributed("SkipSimplifiedLayerNormalization", epsilon=1e-12)
def skip_simplified_layer_norm(call: Call) -> list[Value | None]:
    """Emit RMS normalization of the sum with a residual, and if its output is used, that sum."""
    epsilon, total = call.number("epsilon"), _with_residual(call, 3)
    last = total.rank - 1
    y = total.op(nn.RmsNormOp, call.operand(2), axis=last, epsilon=epsilon)
    if call.node.uses(1):
        call.unsupported("output mean, which RMS normalization does not compute")
    if not call.node.uses(2):
        return [y, None, None, total]
    square = (total * total).mean([last], keepdims=True)
    return [y, None, (square + epsilon).op(nn.SqrtOp).op(nn.ReciprocalOp), total]


def _with_residual(call: Call, bias: int) -> Value:
    """Emit the sum of the first two operands, and of the bias at an operand index, if any.

    The bias is added first, as it belongs to the product before the node.
    """
    x, more = call.x, call.optional(bias)
    return (x if more is None else x + more) + call.operand(1)


@contributed("EmbedLayerNormalization", epsilon=1e-12)
def embed_layer_norm(call: Call) -> list[Value | None]:
    """Emit layer normalization of the sum of the embeddings of words, positions and segments; the
    number of tokens that the mask shows; and the sum of the embeddings."""
    call.meaningless("mask_index_type")
    ids, segments, positions = call.x, call.optional(1), call.optional(8)
    call.check_ranks(2, 2, 2, 2, 2)
    batch, length = ids.shape
    if positions is None:
        positions = call.positions(length, 1, 2)
    total = call.operand(2).gather(ids, 0) + call.operand(3).gather(positions, 0)
    if segments is not None:
        total = total + call.operand(4).gather(segments, 0)
    y = total.op(
        nn.LayerNormOp,
        call.operand(5),
        call.operand(6),
        axis=2,
        epsilon=call.number("epsilon"),
    )
    mask = call.optional(7)
    if mask is None:
        return [y, call.build.splat(0, (batch,), np.int32), total]
    return [y, mask.equals(1).cast(np.int32).sum([1]), total]


@contributed("GroupNorm", epsilon=1e-5, channels_last=1)
def group_norm(call: Call) -> Value:
    """Emit group normalization with a scale and a bias for each channel, then SiLU if the attribute
    says so."""
    return _normalized(call, call.x)


@contributed("SkipGroupNorm", epsilon=1e-5, channels_last=1)
def skip_group_norm(call: Call) -> list[Value]:
    """Emit group normalization of the sum with a residual and a bias, and that sum."""
    x, skip, bias = call.x, call.operand(3), call.optional(4)
    if skip.rank == 2:
        skip = skip.reshape((skip.shape[0], *[1] * (x.rank - 2), skip.shape[1]))
    if bias is not None:
        skip = skip + bias
    if not call.flag("channels_last"):
        call.unsupported("channels-first images")
    total = x + skip
    return [_normalized(call, total), total]


def _normalized(call: Call, x: Value) -> Value:
    scale, bias = (call.operand(i).cast(x.dtype) for i in (1, 2))
    groups, epsilon, kind = (
        call.integer("groups"),
        call.number("epsilon"),
        call.integer("activation"),
    )

    def normalize(images: Value) -> Value:
        check_groups(images, groups)
        return images.op(nn.GroupNormOp, scale, bias, groups=groups, epsilon=epsilon)

    if kind not in (0, 1):
        raise ShapeError("attribute 'activation' is neither 0 nor 1", found=str(kind))
    y = channels_first(x, normalize) if call.flag("channels_last") else normalize(x)
    return y.op(nn.SiluOp) if kind else y
