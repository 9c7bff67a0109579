"""Converters of activations with a bias, and of small ops that ONNX has too."""

from __future__ import annotations

import math

from tessella.dialects import nn
from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops.constants import trilu
from tessella.frontends.onnx.ops.elementwise import gelu, swish
from tessella.frontends.onnx.ops.grid import grid_sample
from tessella.frontends.onnx.ops.indexing import gather_nd
from tessella.frontends.onnx.registry import contributed
from tessella.support.decisions import decided_zero
from tessella.support.errors import ShapeError

contributed("Gelu")(gelu)
contributed("QuickGelu", alpha=1.702)(swish)
contributed("GridSample", mode="bilinear")(grid_sample)
contributed("Trilu", reads=(1,), upper=1)(trilu)
contributed("GatherND")(gather_nd)


@contributed("FastGelu")
def fast_gelu(call: Call) -> Value:
    """Emit the tanh approximation of GELU, of the sum with a bias if there is one."""
    bias = call.optional(1)
    return (call.x if bias is None else call.x + bias).op(nn.GeluTanhOp)


@contributed("BiasGelu")
def bias_gelu(call: Call) -> Value:
    """Emit GELU of the sum with a bias."""
    return (call.x + call.operand(1)).op(nn.GeluOp)


@contributed("BiasAdd")
def bias_add(call: Call) -> Value:
    """Emit the sum of the operand, a bias and a residual."""
    return call.x + call.operand(1) + call.operand(2)


@contributed("BiasSplitGelu")
def bias_split_gelu(call: Call) -> Value:
    """Emit the first half of the channels times GELU of the second half, after a bias."""
    x = call.x + call.operand(1)
    channels = x.shape[-1]
    if not decided_zero(channels % 2):
        raise ShapeError("the channels do not divide into two halves", found=str(x.type))
    half = channels // 2
    left, right = (x.part(x.rank - 1, start, half) for start in (0, half))
    return left * right.op(nn.GeluOp)


@contributed("BiasSoftmax", axis=1)
def bias_softmax(call: Call) -> Value:
    """Emit the softmax of the sum with a bias, over all dimensions from the axis on."""
    # the bias has dimensions of size 1 where it broadcasts, whichever these are
    call.meaningless("is_inner_broadcast")
    x, axis = call.x + call.operand(1), call.axis(call.x)
    return softmax_from(x, axis)


def softmax_from(x: Value, axis: int) -> Value:
    """Emit the softmax over all dimensions from the axis on."""
    if axis == x.rank - 1:
        return x.op(nn.SoftmaxOp, axis=axis)
    rows = x.reshape((math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))
    return rows.op(nn.SoftmaxOp, axis=1).reshape(x.shape)
