"""Attention of heads, which the converters of all attention ops share.

Queries are q[B, N, S, D], keys k[B, N, T, D] and values v[B, N, T, Dv]: batch, heads, tokens,
elements. A mask is added to the scores [B, N, S, T]; each of its dimensions may be 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tessella.dialects import nn
from tessella.dialects.nn.core import shapes_differ, shown
from tessella.frontends.emitter import Value, concat, where
from tessella.frontends.onnx.call import Call
from tessella.support.decisions import decided_zero, known
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size


def check_shape(name: str, value: Value, shape: Sequence[Size]) -> None:
    """Raise ShapeError unless a value has this shape."""
    if shapes_differ(value.shape, shape):
        raise ShapeError(f"{name} does not fit", expected=shown(shape), found=str(value.type))


def split(x: Value, heads: Size) -> Value:
    """Emit x[B, S, N * D] as heads [B, N, S, D]."""
    if x.rank != 3 or not decided_zero(x.shape[2] % heads):
        raise ShapeError(
            "the elements of tokens do not divide into heads",
            expected=f"[batch, tokens, {heads} * size]",
            found=str(x.type),
        )
    batch, length, width = x.shape
    return x.reshape((batch, length, heads, width // heads)).transpose((0, 2, 1, 3))


def joined(x: Value) -> Value:
    """Emit heads [B, N, S, D] as x[B, S, N * D]."""
    batch, heads, length, size = x.shape
    return x.transpose((0, 2, 1, 3)).reshape((batch, length, heads * size))


def appended(past: Value | None, new: Value) -> Value:
    """Emit the keys or values of earlier tokens, followed by those of new ones."""
    return new if past is None else concat([past, new], 2)


def scale_of(call: Call, q: Value) -> float:
    """Return the factor of scores: the attribute, or 1 / sqrt(D) if it is absent or 0."""
    return call.number("scale", 0.0) or 1 / math.sqrt(known(q.shape[-1]))


@dataclass(frozen=True)
class Attention:
    """The attention of heads: softmax(scale * q kᵀ + mask) v."""

    q: Value
    k: Value
    v: Value
    scale: float
    mask: Value | None = None
    past: Size | None = None
    """The number of keys before the first query, if each query sees no later keys than its own;
    None if queries see all keys."""

    def result(self) -> Value:
        """Emit the attention, as one op."""
        return self.q.op(
            nn.AttentionOp,
            *(self.k, self.v, self.mask),
            scale=self.scale,
            transposed_k=False,
            causal=self.past is not None,
            past=0 if self.past is None else self.past,
            nan_as_zero=False,
        )

    def scores(self, call: Call, softcap: float = 0.0) -> Value:
        """Emit the scores with the mask, which are the operand of the softmax. A ``softcap`` other
        than 0 bounds them before the mask is added."""
        scores = self.q.op(nn.MatmulOp, self.k, transpose_b=True) * self.scale
        if softcap:
            scores = (scores * (1 / softcap)).op(nn.TanhOp) * softcap
        if self.mask is not None:
            scores = scores + self.mask
        if self.past is not None:
            rows = call.positions(self.q.shape[-2], 0, 2) + self.past
            keys = call.positions(self.k.shape[-2], 1, 2)
            scores = where(keys <= rows, scores, -math.inf)
        return scores


def fill_of(call: Call) -> float:
    """Return the number that is added to the scores of keys that a mask hides."""
    return call.number("mask_filter_value", -10000.0)


def padding_mask(call: Call, index: int, q: Value, keys: Size, past: Size) -> Value | None:
    """Emit the additive mask of an operand that says which keys are hidden; None if it is absent.

    The operand has 0 for hidden keys: [B, T], [B, S, T], or [B, 1, M, M] of all tokens so far. Or
    it has the end of the visible keys of each sequence: [B], [2 * B] with the starts after all
    ends, or [3 * B + 2] with other numbers after them.
    """
    given = call.optional(index)
    if given is None:
        return None
    batch, _, queries, _ = q.shape
    if given.rank == 1:
        shows = _between(given, batch, call.positions(keys, 3, 4))
    elif given.rank == 2:
        check_shape("the mask", given, (batch, keys))
        shows = given.reshape((batch, 1, 1, keys)) > 0
    elif given.rank == 3:
        check_shape("the mask", given, (batch, queries, keys))
        shows = given.reshape((batch, 1, queries, keys)) > 0
    elif given.rank == 4:
        shows = given.part(2, past, queries).part(3, 0, keys) > 0
    else:
        raise ShapeError("the mask has the wrong rank", expected="1 to 4", found=str(given.type))
    return where(shows, q.like(0), fill_of(call))


def _between(ends: Value, batch: Size, places: Value) -> Value:
    """Emit which positions are visible, from ends [B], or [2 * B] with starts after them."""
    count = ends.shape[0]
    if count not in (batch, 2 * batch, 3 * batch + 2):
        check_shape("the mask", ends, (batch,))
    columns = (batch, 1, 1, 1)
    numbers = ends.cast(np.int64)
    shows = places < numbers.part(0, 0, batch).reshape(columns)
    if count == 2 * batch:
        shows = shows & (places >= numbers.part(0, batch, batch).reshape(columns))
    return shows


def bias_of(call: Call, index: int, q: Value, keys: Size) -> Value | None:
    """Return the operand that is added to the scores; None if it is absent. Raises ShapeError
    unless it is [B or 1, N or 1, S, T]."""
    bias = call.optional(index)
    if bias is None:
        return None
    batch, heads, queries, _ = q.shape
    if bias.rank == 4:
        batch, heads = (1 if bias.shape[i] == 1 else size for i, size in ((0, batch), (1, heads)))
    check_shape("the bias of scores", bias, (batch, heads, queries, keys))
    return bias


def masks(*given: Value | None) -> Value | None:
    """Emit the sum of the masks that are present; None if there are none."""
    present = [mask for mask in given if mask is not None]
    return sum(present[1:], present[0]) if present else None
