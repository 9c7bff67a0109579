"""The converter of GroupQueryAttention, the attention of decoders that ONNX Runtime's model builder
writes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tessella.dialects import nn
from tessella.frontends.emitter import Value, concat, where
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops.contributed.heads import (
    Attention,
    bias_of,
    check_shape,
    joined,
    masks,
    scale_of,
    split,
)
from tessella.frontends.onnx.ops.contributed.rotary import rotated
from tessella.frontends.onnx.registry import contributed
from tessella.support.conditions import always, decided
from tessella.support.decisions import decided_max, decided_zero, differs
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size, symbols_of


@contributed(
    "GroupQueryAttention",
    reads=(6,),
    causal=1,
    do_rotary=0,
    k_quant_type="NONE",
    local_window_size=-1,
    qk_norm_epsilon=1e-6,
    qk_output=0,
    rotary_interleaved=0,
    scale=0.0,
    sliding_window_cache=0,
    smooth_softmax=0,
    softcap=0.0,
    v_quant_type="NONE",
)
def group_query_attention(call: Call) -> list[Value | None]:
    """Emit attention in which each head of keys and values serves a group of queries' heads, and
    the cache with the new keys and values."""
    for index in (12, 13):
        if call.optional(index) is not None:
            call.unsupported(f"input {index} is given, a scale of a quantized cache")
    q, k, v = _heads(call)
    q, k = _normalized(call, q, k)
    cache = _Cache.of(call, q)
    if call.flag("do_rotary"):
        cos, sin, interleaved = call.operand(7), call.operand(8), call.flag("rotary_interleaved")
        places = cache.places(call)
        q, k = (rotated(x, places, cos, sin, interleaved=interleaved) for x in (q, k))
    else:
        call.meaningless("rotary_interleaved")
    keys, values = cache.appended(call, 3, k), cache.appended(call, 4, v)
    seen = [x.part(2, 0, cache.total) for x in (keys, values)]
    bound = Attention(q, seen[0], seen[1], scale_of(call, q))
    is_causal, added = call.flag("causal"), bias_of(call, 10, q, cache.total)
    past = cache.kept if is_causal and not isinstance(cache.kept, Value) else None
    bound = replace(bound, mask=masks(added, cache.hidden(call, q)), past=past)
    result, scores = _attended(call, _grouped(bound))
    return [joined(result.reshape(q.shape)), keys, values, scores]


def _heads(call: Call) -> tuple[Value, Value, Value]:
    """Emit the heads of queries, keys and values, which may be packed in one operand."""
    heads, shared = call.integer("num_heads"), call.integer("kv_num_heads")
    if shared < 1 or heads < 1 or heads % shared:
        raise ShapeError(
            "num_heads is not a multiple of kv_num_heads", found=f"{heads} and {shared}"
        )
    key, value = call.optional(1), call.optional(2)
    if key is not None and value is not None:
        return split(call.x, heads), split(key, shared), split(value, shared)
    every = split(call.x, heads + 2 * shared)
    starts = (0, heads), (heads, shared), (heads + shared, shared)
    q, k, v = (every.part(1, start, count) for start, count in starts)
    return q, k, v


def _normalized(call: Call, q: Value, k: Value) -> tuple[Value, Value]:
    """Emit RMS normalization of the heads of queries and keys, if the node has its scales."""
    scales, epsilon = (call.optional(14), call.optional(15)), call.number("qk_norm_epsilon")
    if scales[0] is None or scales[1] is None:
        return q, k
    return (
        q.op(nn.RmsNormOp, scales[0], axis=3, epsilon=epsilon),
        k.op(nn.RmsNormOp, scales[1], axis=3, epsilon=epsilon),
    )


@dataclass(frozen=True)
class _Cache:
    """The cache of keys or values: rows of earlier tokens, rows of the new ones, free rows."""

    room: Size
    """The number of rows before the call."""
    new: Size
    total: Size
    """The number of earlier and new tokens, at most, of all sequences."""
    kept: Size | Value
    """The number of earlier tokens: of all sequences, or of each, [B, 1, 1, 1] of int64."""

    @staticmethod
    def of(call: Call, q: Value) -> _Cache:
        """Return the cache of a node with these queries."""
        batch, _, new, _ = q.shape
        past, total = call.optional(3), call.static_size(6, "total_sequence_length")
        room: Size = 0 if past is None else past.shape[2] if past.rank == 4 else 0
        kept = _kept(room, new, total)
        check_shape("seqlens_k", call.operand(5).flat(), (batch,))
        if batch == 1 or kept == 0:
            return _Cache(room, new, total, kept)
        if new != 1:
            raise ShapeError(
                "several tokens of several sequences follow earlier ones",
                expected="a batch of 1, one token, or no earlier tokens",
                found=f"{batch} sequences, {new} tokens of {total}",
            )
        # the token itself is the last one of `seqlens_k + 1`
        each = call.operand(5).cast(np.int64).reshape((batch, 1, 1, 1))
        return _Cache(room, new, total, each)

    def rows(self, call: Call) -> Value:
        """Emit the positions of the new tokens: [B or 1, 1, S, 1]."""
        return call.positions(self.new, 2, 4) + self.kept

    def places(self, call: Call) -> Value:
        """Emit the positions by which new tokens are rotated: [B or 1, S]."""
        given = call.optional(9)
        if given is not None and not (isinstance(self.kept, int) and self.kept == 0):
            return given
        rows = self.rows(call)
        rows = rows.reshape((rows.shape[0], self.new))
        # a prompt is counted from the first position alone
        return rows if given is None else rows + given.slice((0, 0), (1, 1)).cast(np.int64)

    def appended(self, call: Call, index: int, new: Value) -> Value:
        """Emit the cache with new keys or values, from the operand at an index. Free rows are 0."""
        past, whole = call.optional(index), decided_max(self.total, self.room)
        if past is not None:
            check_shape("the cache", past, (*new.shape[:2], self.room, new.shape[3]))
        free = (0, 0, 0, 0)
        if not isinstance(self.kept, Value):
            rows = new
            if past is not None and self.kept != 0:
                rows = concat([past.part(2, 0, self.kept), new], 2)
            return rows.pad(free, (0, 0, whole - self.total, 0))
        assert past is not None
        places = call.positions(whole, 2, 4)
        rows = past.pad(free, (0, 0, whole - self.room, 0))
        return where(places < self.kept, rows, where(places.equals(self.kept), new, 0))

    def hidden(self, call: Call, q: Value) -> Value | None:
        """Emit the mask that hides keys beyond the window, and keys that some sequences lack; None
        if there are none."""
        window = call.integer("local_window_size")
        rows, keys = self.rows(call), call.positions(self.total, 3, 4)
        shows = keys <= rows if isinstance(self.kept, Value) else None
        if window > 0:
            near = keys > rows - window
            shows = near if shows is None else shows & near
        return None if shows is None else where(shows, q.like(0), -math.inf)


def _kept(room: Size, new: Size, total: Size) -> Size:
    """Return the number of earlier tokens that a cache of ``room`` rows has.

    A cache grows by the new tokens, or has rows for the total. Raises UndecidedSizeError if
    symbols' values decide which, and ShapeError if the total does not fit.
    """
    has_rows = not symbols_of([room]) and decided(total <= room)
    fits = has_rows or not differs(total, room + new) or decided(total <= room)
    if not always(total >= new):
        fits = fits and (not differs(total, new) or decided(total > new))
    if not fits:
        raise ShapeError(
            "total_sequence_length does not fit the cache",
            expected=f"{room + new}, or from {new} to {room}",
            found=str(total),
        )
    kept = total - new
    return 0 if decided_zero(kept) else kept


def _grouped(bound: Attention) -> Attention:
    """Return attention of q[B, N, G, S, D], k[B, N, 1, T, D] and v[B, N, 1, T, D].

    Each head of keys and values serves a group of heads of queries.
    """
    batch, heads, new, size = bound.q.shape
    shared, keys = bound.k.shape[1:3]
    group = heads // shared
    k, v = (x.reshape((batch, shared, 1, keys, size)) for x in (bound.k, bound.v))
    mask = bound.mask
    if mask is not None:
        apart = (1, 1) if mask.shape[1] == 1 else (shared, group)
        mask = mask.reshape((mask.shape[0], *apart, *mask.shape[2:]))
    q = bound.q.reshape((batch, shared, group, new, size))
    return replace(bound, q=q, k=k, v=v, mask=mask)


def _attended(call: Call, bound: Attention) -> tuple[Value, Value | None]:
    """Emit the attention of groups of heads, and if the node returns them, the scores before or
    after the softmax."""
    softcap, sink = call.number("softcap"), _sink(call, bound)
    kind = _kind(call) if call.node.uses(3) else 0
    if not softcap and sink is None and not kind:
        return bound.result(), None
    scores = bound.scores(call, softcap)
    keys, last = scores.shape[-1], scores.rank - 1
    whole = scores
    if sink is not None:
        whole = concat([scores, sink.expand((*scores.shape[:-1], 1))], last)
    weights = whole.op(nn.SoftmaxOp, axis=last).part(last, 0, keys)
    batch, shared, group, new, _ = bound.q.shape
    # ONNX Runtime gives 0 for the scores of hidden keys
    told = where(scores.equals(-math.inf), 0, scores) if kind == 1 else weights
    return weights @ bound.v, told.reshape((batch, shared * group, new, keys)) if kind else None


def _kind(call: Call) -> int:
    """Return which scores the node returns: 1 for those before the softmax, 2 for the weights after
    it. Raises ShapeError for a node that returns none."""
    kind = call.integer("qk_output")
    if kind not in (1, 2):
        raise ShapeError(
            "output 3 is used, and attribute 'qk_output' is not 1 or 2", found=str(kind)
        )
    return kind


def _sink(call: Call, bound: Attention) -> Value | None:
    """Return the score of a key without a value that each head has: [1, N, G, 1, 1]; None without
    such a key."""
    given = call.optional(11)
    if given is not None:
        shared, group = bound.q.shape[1:3]
        return given.reshape((1, shared, group, 1, 1))
    return bound.q.like(0).reshape((1,) * 5) if call.flag("smooth_softmax") else None
