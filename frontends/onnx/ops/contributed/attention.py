"""Converters of Attention and MultiHeadAttention, of their forms for quantized operands and for
packed sequences: projections to heads, a mask, and one `nn.attention`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tessella.dialects.elements import element_of
from tessella.frontends.emitter import Value, concat, product, where
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops.contributed.heads import (
    Attention,
    appended,
    bias_of,
    check_shape,
    joined,
    masks,
    padding_mask,
    scale_of,
    split,
)
from tessella.frontends.onnx.ops.contributed.quantized import quantized_product
from tessella.frontends.onnx.registry import contributed
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size, total

Three = tuple[Value, Value, Value]
"""Queries, keys and values."""


@contributed("Attention", mask_filter_value=-10000.0, scale=0.0)
def attention(call: Call) -> list[Value | None]:
    """Emit attention of the projections of one operand, and the keys and values of all tokens so
    far, which are stacked."""
    x, bias = call.x, call.optional(2)
    projected = product(x, call.operand(1))
    if bias is not None:
        projected = projected + bias
    return _of_stacked(call, projected, mask=3, past=4, bias=5)


@contributed("QAttention", mask_filter_value=-10000.0, scale=0.0)
def quantized_attention(call: Call) -> list[Value | None]:
    """Emit Attention of a quantized operand and quantized weights; all else is floats."""
    projected = quantized_product(call, (0, 3, 6), (1, 4, 7), 2)
    return _of_stacked(call, projected, mask=5, past=8)


def _of_stacked(
    call: Call, projected: Value, mask: int, past: int, bias: int | None = None
) -> list[Value | None]:
    """Emit attention of a projection to queries, keys and values, one after the other, and the
    present state. The other arguments are the indices of operands."""
    q, k, v = _heads(call, projected)
    before, earlier = call.optional(past), None
    if before is not None:
        batch, heads, _, size = k.shape
        expected = (2, batch, heads, before.shape[3] if before.rank == 5 else 0, size)
        check_shape("the past state", before, expected)
        earlier = [before.part(0, i, 1).reshape(expected[1:]) for i in (0, 1)]
    keys, values = (
        appended(None if earlier is None else earlier[i], new) for i, new in enumerate((k, v))
    )
    bound = _attention(call, (q, keys, values), _past_of(before, 3), mask, bias)
    present = None
    if call.node.uses(1):
        present = concat([part.reshape((1, *part.shape)) for part in (keys, values)], 0)
    return [joined(bound.result()), present]


def _heads(call: Call, projected: Value) -> Three:
    """Emit the heads of queries, keys and values from a projection [.., D + D + Dv]."""
    heads, width = call.integer("num_heads"), projected.shape[-1]
    sizes: Sequence[Size] = call.integers("qkv_hidden_sizes") or (width // 3,) * 3
    if len(sizes) != 3 or total(sizes) != width:
        raise ShapeError(
            "the projections do not divide into queries, keys and values",
            expected=f"{' + '.join(map(str, sizes))} elements",
            found=str(projected.type),
        )
    starts = (0, sizes[0], sizes[0] + sizes[1])
    parts = (
        projected.part(projected.rank - 1, start, size)
        for start, size in zip(starts, sizes, strict=True)
    )
    q, k, v = (split(part, heads) for part in parts)
    return q, k, v


def _past_of(past: Value | None, axis: int) -> Size:
    return 0 if past is None else past.shape[axis]


def _attention(call: Call, heads: Three, past: Size, mask: int, bias: int | None) -> Attention:
    """Return the attention of a node, with its masks; ``mask`` and ``bias`` are the indices of
    operands."""
    q, k, v = heads
    keys = k.shape[2]
    hidden = padding_mask(call, mask, q, keys, past)
    added = None if bias is None else bias_of(call, bias, q, keys)
    is_causal = call.flag("unidirectional")
    return Attention(q, k, v, scale_of(call, q), masks(added, hidden), past if is_causal else None)


# ** projected operands **


@contributed("MultiHeadAttention", mask_filter_value=-10000.0, scale=0.0)
def multi_head_attention(call: Call) -> list[Value | None]:
    """Emit attention of projected operands, the keys and values of all tokens so far, and if its
    output is used, the scores before the softmax."""
    for index, what in ((8, "a cache that the op writes in place"), (9, "a beam search")):
        if call.optional(index) is not None:
            call.unsupported(f"input {index} is given, which belongs to {what}")
    q, k, v = _projected(call, call.integer("num_heads"))
    earlier = call.optional(6), call.optional(7)
    if (earlier[0] is None) != (earlier[1] is None):
        raise ShapeError("one of past_key and past_value is given without the other")
    for name, before, new in zip(("past_key", "past_value"), earlier, (k, v), strict=True):
        if before is not None:
            batch, heads, _, size = new.shape
            count = before.shape[2] if before.rank == 4 else 0
            check_shape(name, before, (batch, heads, count, size))
    keys, values = (appended(old, new) for old, new in zip(earlier, (k, v), strict=True))
    bound = _attention(call, (q, keys, values), _past_of(earlier[0], 2), 4, 5)
    scores = None
    if call.node.uses(3):
        scores = bound.scores(call)
        # ONNX Runtime gives the least number for the scores of later keys
        least = -element_of(scores.type).largest
        scores = where(scores.equals(-math.inf), least, scores)
    return [joined(bound.result()), keys, values, scores]


def _projected(call: Call, heads: int) -> Three:
    """Emit the heads of the operands, which may be packed, with their part of the bias."""
    query, key, value = call.x, call.optional(1), call.optional(2)
    if key is None or value is None:
        packed = query if key is None else key
        parts = _unpacked(packed, heads, 3 if key is None else 2)
        q, k, v = parts if key is None else (split(query, heads), *parts)
    else:
        q, k, v = (x if x.rank == 4 else split(x, heads) for x in (query, key, value))
    bias = call.optional(3)
    if bias is None:
        return q, k, v
    widths = [x.shape[1] * x.shape[3] for x in (q, k, v)]
    check_shape("the bias", bias, (total(widths),))
    columns = [
        bias.part(0, total(widths[:i]), widths[i]).reshape((x.shape[1], 1, x.shape[3]))
        for i, x in enumerate((q, k, v))
    ]
    # keys and values that come as heads are those of another node, which has added the bias
    is_cross = key is not None and key.rank == 4
    return q + columns[0], k if is_cross else k + columns[1], v if is_cross else v + columns[2]


def _unpacked(x: Value, heads: int, count: int) -> list[Value]:
    """Emit the heads in x[B, S, N, count, D]."""
    if x.rank != 5:
        raise ShapeError(
            "an operand is not packed, and others are missing",
            expected=f"[batch, tokens, {heads}, {count}, size]",
            found=str(x.type),
        )
    batch, length, _, _, size = x.shape
    check_shape("the packed operand", x, (batch, length, heads, count, size))
    parts = (x.part(3, i, 1).reshape((batch, length, heads, size)) for i in range(count))
    return [part.transpose((0, 2, 1, 3)) for part in parts]


# ** packed sequences **


@contributed("PackedAttention", scale=0.0)
def packed_attention(call: Call) -> Value:
    """Emit the attention of the projections of tokens [T, D] of several sequences, one after the
    other; tokens see those of their own sequence."""
    projected = product(call.x, call.operand(1)) + call.operand(2)
    return _of_packed(call, _heads(call, _one_batch(projected)), starts=4, bias=5)


@contributed("PackedMultiHeadAttention", scale=0.0)
def packed_multi_head_attention(call: Call) -> Value:
    """Emit the attention of projected tokens [T, D] of several sequences, one after the other;
    tokens see those of their own sequence."""
    # a token sees no padding
    call.meaningless("mask_filter_value")
    given = [call.optional(i) for i in range(3)]
    inputs = {i: None if x is None else _one_batch(x) for i, x in enumerate(given)}
    heads = _projected(call.replaced(inputs), call.integer("num_heads"))
    return _of_packed(call, heads, starts=5, bias=6)


def _one_batch(x: Value) -> Value:
    return x.reshape((1, *x.shape))


def _of_packed(call: Call, heads: Three, starts: int, bias: int) -> Value:
    """Emit the attention of the heads of packed tokens; ``starts`` and ``bias`` are the indices of
    operands."""
    if call.optional(bias) is not None:
        call.unsupported("input attention_bias, which has positions of padded sequences")
    q, k, v = heads
    count, ends = q.shape[2], call.operand(starts).cast(np.int64)
    ends = ends.part(0, 1, ends.shape[0] - 1).reshape((ends.shape[0] - 1, 1))
    # the number of sequences that end before a token is the number of its own
    number = (call.positions(count, 1, 2) >= ends).cast(np.int64).sum([0])
    same = number.reshape((count, 1)).equals(number.reshape((1, count)))
    mask = where(same, q.like(0), -math.inf)
    y = joined(Attention(q, k, v, scale_of(call, q), mask).result())
    return y.reshape(y.shape[1:])
