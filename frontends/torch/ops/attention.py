"""Converters of attention, and of its gradient."""

from __future__ import annotations

import math

from tessella.dialects import nn
from tessella.frontends.emitter import Emitter, Value, where
from tessella.frontends.heads import repeated_heads
from tessella.frontends.torch.ops.creation import positions
from tessella.frontends.torch.ops.reduction import logsumexp
from tessella.frontends.torch.registry import aten, refuse
from tessella.support.decisions import known


def _factor(q: Value, scale: float | None) -> float:
    return 1 / math.sqrt(known(q.shape[-1])) if scale is None else scale


def _scores(q: Value, k: Value, factor: float, mask: Value | None, is_causal: bool) -> Value:
    """Emit the scores that the softmax takes."""
    scores = q.op(nn.MatmulOp, k, transpose_b=True) * factor
    if mask is not None:
        scores = scores + mask.cast(scores.dtype)
    if not is_causal:
        return scores
    rows, columns = scores.shape[-2:]
    seen = positions(q.emitter, columns) <= positions(q.emitter, rows).reshape((rows, 1))
    return where(seen, scores, -math.inf)


@aten("_scaled_dot_product_flash_attention_for_cpu", note="without dropout")
def attention(
    emit: Emitter,
    q: Value,
    k: Value,
    v: Value,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, Value]:
    """Emit attention, and the logarithms of the sums of each row's exponentials, which the gradient
    reads."""
    if dropout:
        raise refuse("dropout")
    factor = _factor(q, scale)
    k, v = (repeated_heads(x, q.shape[1]) for x in (k, v))
    mask = None if attn_mask is None else attn_mask.cast(q.dtype)
    # a row whose scores are all -inf gives 0
    settings = {"causal": is_causal, "past": 0, "transposed_k": False, "nan_as_zero": True}
    y = q.op(nn.AttentionOp, k, v, mask, scale=factor, **settings)
    return y, logsumexp(emit, _scores(q, k, factor, mask, is_causal), -1)


@aten("_scaled_dot_product_flash_attention_for_cpu_backward", note="without dropout")
def attention_backward(
    emit: Emitter,
    grad: Value,
    q: Value,
    k: Value,
    v: Value,
    out: Value,
    logarithms: Value,
    dropout: float,
    is_causal: bool,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, Value, Value]:
    if dropout:
        raise refuse("dropout")
    if q.shape[1] != k.shape[1]:
        raise refuse("the gradient of heads that share keys")
    factor = _factor(q, scale)
    scores = _scores(q, k, factor, attn_mask, is_causal)
    weights = (scores - logarithms.cast(q.dtype).reshape((*logarithms.shape, 1))).op(nn.ExpOp)
    of_rows = (grad * out).sum([grad.rank - 1], keepdims=True)
    of_scores = weights * (grad.op(nn.MatmulOp, v, transpose_b=True) - of_rows) * factor
    last = [*range(q.rank - 2), q.rank - 1, q.rank - 2]
    of_k, of_v = of_scores.transpose(last) @ q, weights.transpose(last) @ grad
    return of_scores @ k, of_k, of_v
