"""Scaled dot-product attention, as exporters emit it and as users write it.

    softmax(q kᵀ) v                                    ->  attention q k v
    softmax(scale * q kᵀ + mask) v                     ->  attention q k v mask
    softmax((q * a) (k * b)ᵀ + mask) v                 ->  attention q k v mask, scale = a * b
    p = softmax ..;  where(is_nan p, 0, p) v           ->  attention .., nan_as_zero
    softmax(where(triangle, scale * q kᵀ, -1e9)) v     ->  attention q k v, causal
    softmax(where(triangle, scale * q kᵀ, -inf) + mask) v  ->  attention q k v mask, causal
    softmax(where(triangle, scale * q kᵀ, least) + mask) v
                             ->  attention q k v where(triangle, mask, least + mask)
    attention q k v mask, mask a triangle of 0         ->  attention q k v, causal
    attention q k v 0                                  ->  attention q k v
    attention q (repeat k) (repeat v)                  ->  attention of q's heads in groups, k and v


The scores are scaled once, after the sums. They round differently, by a few units in the last
place. The softmax is along the last axis, and neither mask nor v enlarges the scores.

Heads of k and v that are repeated, one for each of a group of q's, broadcast over the group.

A triangle is a constant, or compares positions. It hides keys by -inf, or by a number that no score
comes near: at most -1e9, or the least of its type. Each query sees at least one key, so that no row
is all hidden.

A mask that is added to the hidden scores may hide the visible keys of a row as well, as those of
left-padded prompts do. A fill of -inf stays hidden under any mask. The least of a type swallows any
score that it is added to, so it can move into the mask. Other fills do neither, and are not fused.
Where the mask is NaN or +inf under a fill of -inf, the sum would be NaN; it is hidden instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from tessella.dialects.elements import element_of
from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn.attention import AttentionOp
from tessella.dialects.nn.core import NnOp, shape_of
from tessella.dialects.nn.linear import MatmulOp
from tessella.dialects.nn.movement import ExpandOp, ReshapeOp
from tessella.dialects.nn.reduction import SoftmaxOp
from tessella.passes.patterns.factors import is_normal
from tessella.passes.patterns.nodes import AnyValue, Node, Number, Product, Triangle, either, op
from tessella.passes.patterns.pattern import Match, Pattern
from tessella.support.sizes import Size

HIDDEN = -1e9
"""The fill that exporters add to the scores of hidden keys; fills may be lower."""


def _is_along_last(softmax: SoftmaxOp) -> bool:
    return softmax.settings["axis"] == len(shape_of(softmax.x)) - 1


def _is_not_causal(attention: AttentionOp) -> bool:
    return not attention.settings["causal"]


def _hides(fill: float, like: SSAValue) -> bool:
    """Return whether adding or selecting the number ``fill`` hides keys: a score that low has
    probability 0 beside ordinary ones."""
    return fill <= HIDDEN or fill == -element_of(like.type).largest


def _is_plain(product: MatmulOp) -> bool:
    return not product.settings["transpose_b"]


_Q = Product((AnyValue("q"),), scale="q_scale")
_K = Product((AnyValue("k"),), scale="k_scale")
_SCALED = Product((op(MatmulOp, _Q, _K, name="scores"),), scale="scale")
_VISIBLE = Triangle("past", below=1, above=lambda x, _: x == 0)
_CAUSAL = op(ew.WhereOp, _VISIBLE, _SCALED, Number(name="fill", where=_hides))
_SHOWN = either(_CAUSAL, _SCALED)
_SCORES = either(op(ew.AddOp, _SHOWN, AnyValue("mask")), _SHOWN)
_P = op(SoftmaxOp, _SCORES, name="p", where=_is_along_last)
_WITHOUT_NAN = op(ew.WhereOp, op(ew.IsNanOp, _P, name="is_nan"), 0.0, _P)
_MASKED = op(
    AttentionOp,
    *(AnyValue(name) for name in "qkv"),
    Triangle("past", below=0, above=_hides),
    name="attention",
    where=_is_not_causal,
)
_SHOWN_ALL = op(AttentionOp, *(AnyValue(name) for name in "qkv"), 0.0, name="attention")
_ATTENTION = op(MatmulOp, either(_WITHOUT_NAN, _P), AnyValue("v"), where=_is_plain)


def _attention(m: Match) -> NnOp | None:
    scores = shape_of(m["scores"])
    if shape_of(m["p"]) != scores or m.shape[:-1] != scores[:-1]:
        return None
    past, mask = m.size("past"), m.get("mask")
    if past is not None and not _has_all(m["past"], scores):
        return None
    if past is not None and mask is not None and m.number("fill") != -math.inf:
        if m.number("fill") != -element_of(mask.type).largest:
            return None
        mask, past = _filled(m, mask), None
    scale = m.number("scale") * m.number("q_scale") * m.number("k_scale")
    if not is_normal(scale, m["q"]):
        return None
    return m.make(
        AttentionOp,
        *(m["q"], m["k"], m["v"], mask),
        scale=scale,
        transposed_k=not m.op("scores").settings["transpose_b"],
        causal=past is not None,
        past=0 if past is None else past,
        nan_as_zero=m.get("is_nan") is not None,
    )


def _filled(m: Match, mask: SSAValue) -> SSAValue:
    """Return the mask with the fill value added at the positions that the triangular mask hides."""
    hidden = m.make(ew.AddOp, mask, m.splat(m.number("fill"), (), mask))
    return m.make(ew.WhereOp, m["past"], mask, hidden.res).res


def _causal(m: Match) -> NnOp | None:
    attention = m.op("attention")
    if not _has_all(m["past"], attention.scores_shape):
        return None
    settings = attention.settings | {"causal": True, "past": m.size("past")}
    return m.make(AttentionOp, m["q"], m["k"], m["v"], **settings)


def _has_all(triangle: SSAValue, scores: Sequence[Size]) -> bool:
    """Return whether a triangular mask has a row for each query and a column for each key of scores
    of this shape."""
    return shape_of(triangle)[-2:] == tuple(scores[-2:])


def _unmasked(m: Match) -> NnOp:
    return m.make(AttentionOp, m["q"], m["k"], m["v"], **m.op("attention").settings)


# ** grouped heads **


def _has_heads(value: SSAValue) -> bool:
    """Return whether a value has the shape [.., heads, 1, rows, columns], in which the dimension of
    1 can be repeated."""
    shape = shape_of(value)
    return len(shape) > 3 and shape[-3] == 1


def _repeated(name: str) -> Node:
    expanded = op(ExpandOp, AnyValue(name, where=_has_heads), name=f"{name} expanded")
    return op(ReshapeOp, expanded, name=f"{name} repeated")


_HEADS = (AnyValue("q"), _repeated("k"), _repeated("v"))
_GROUPED = either(
    op(AttentionOp, *_HEADS, AnyValue("mask"), name="attention"),
    op(AttentionOp, *_HEADS, name="attention"),
)


def _is_repeated(m: Match, name: str, heads: tuple[Size, ...], group: Size) -> bool:
    """Return whether the operand ``name``, k or v, has each head repeated for a group of q's
    heads."""
    matrix = shape_of(m[name])[-2:]
    return (
        shape_of(m[name]) == (*heads, 1, *matrix)
        and shape_of(m[f"{name} expanded"]) == (*heads, group, *matrix)
        and shape_of(m[f"{name} repeated"]) == (*heads[:-1], heads[-1] * group, *matrix)
    )


def _grouped(m: Match) -> NnOp | None:
    *heads, group, _, _ = shape_of(m["k expanded"])
    batch, matrix = (*heads[:-1], heads[-1] * group), shape_of(m["q"])[-2:]
    if shape_of(m["q"]) != (*batch, *matrix):
        return None
    if not all(_is_repeated(m, name, tuple(heads), group) for name in "kv"):
        return None
    q = m.reshaped(m["q"], (*heads, group, *matrix))
    mask = m.get("mask")
    if mask is not None and len(shape := shape_of(mask)) > 2:
        apart = (heads[-1], group) if shape[-3] == batch[-1] else (1, 1)
        mask = m.reshaped(mask, (*shape[:-3], *apart, *shape[-2:]))
    new = m.make(AttentionOp, q, m["k"], m["v"], mask, **m.op("attention").settings)
    return m.make(ReshapeOp, new.res, shape=m.shape)


PATTERNS = (
    Pattern("attention", _ATTENTION, _attention),
    Pattern("causal-attention", _MASKED, _causal),
    Pattern("unmasked-attention", _SHOWN_ALL, _unmasked),
    Pattern("grouped-attention", _GROUPED, _grouped),
)
