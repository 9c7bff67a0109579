"""Converters of attention with graphs that change its scores and probabilities."""

from __future__ import annotations

import math

import numpy as np

from tessella.dialects import nn
from tessella.frontends.emitter import Value
from tessella.frontends.heads import repeated_heads
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.loop_body import converted
from tessella.frontends.onnx.model import DTYPES
from tessella.frontends.onnx.registry import converts
from tessella.frontends.onnx.tensors import element_name
from tessella.support.decisions import known
from tessella.support.errors import ShapeError


@converts("ai.onnx.preview.FlexAttention", 1, 1)
def flex_attention(call: Call) -> Value:
    """Emit attention, softmax(scale * q kᵀ) v. A graph may change the scores, and another one the
    probabilities."""
    call.check_ranks(4, 4, 4)
    q, k, v = call.operands()
    scale = call.attribute("scale")
    if scale is None:
        scale = 1 / math.sqrt(known(q.shape[-1]))
    root = math.sqrt(scale)
    k, v = (repeated_heads(x, q.shape[1]) for x in (k, v))
    scores = (q * root).op(nn.MatmulOp, k * root, transpose_b=True)
    scores = _changed(call, "score_mod", scores.cast(_precision(call, q)))
    probabilities = _changed(call, "prob_mod", scores.op(nn.SoftmaxOp, axis=3))
    return (probabilities @ v.cast(probabilities.dtype)).cast(q.dtype)


def _precision(call: Call, q: Value) -> np.dtype[np.generic]:
    """Return the type in which the softmax is computed. Raises UnsupportedError for a type that
    tessella does not have."""
    code = call.attribute("softmax_precision")
    if code is None:
        return np.dtype(np.float64 if q.dtype == np.float64 else np.float32)
    name = element_name(code)
    if name not in DTYPES:
        call.unsupported(f"a softmax in {name}")
    return DTYPES[name]


def _changed(call: Call, name: str, x: Value) -> Value:
    """Emit the graph of an attribute on ``x``; return ``x`` if the node does not have it. Raises
    ShapeError if the graph changes the type."""
    if call.attribute(name) is None:
        return x
    y = converted(call, call.graph(name), [x], 1)[0]
    if y.type != x.type:
        raise ShapeError(f"{name} changes the type", expected=str(x.type), found=str(y.type))
    return y
