"""Scaled dot-product attention, as exporters emit it and as users write it.

    softmax(q kᵀ) v                                    ->  attention q k v
    softmax(scale * q kᵀ + mask) v                     ->  attention q k v mask
    softmax((q * a) (k * b)ᵀ + mask) v                 ->  attention q k v mask, scale = a * b
    p = softmax ..;  where(is_nan p, 0, p) v           ->  attention .., nan_as_zero

The scores are scaled once, after the sums. They round differently, by a few units in the last
place. The softmax is along the last axis, and neither mask nor v enlarges the scores.
"""

from __future__ import annotations

from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn.attention import AttentionOp
from tessella.dialects.nn.core import NnOp, shape_of
from tessella.dialects.nn.linear import MatmulOp
from tessella.dialects.nn.reduction import SoftmaxOp
from tessella.passes.patterns.factors import is_normal
from tessella.passes.patterns.nodes import Product, Value, either, op
from tessella.passes.patterns.pattern import Match, Pattern


def _is_along_last(softmax: SoftmaxOp) -> bool:
    return softmax.settings["axis"] == len(shape_of(softmax.x)) - 1


def _is_plain(product: MatmulOp) -> bool:
    return not product.settings["transpose_b"]


_Q = Product((Value("q"),), scale="q_scale")
_K = Product((Value("k"),), scale="k_scale")
_SCALED = Product((op(MatmulOp, _Q, _K, name="scores"),), scale="scale")
_SCORES = either(op(ew.AddOp, _SCALED, Value("mask")), _SCALED)
_P = op(SoftmaxOp, _SCORES, name="p", where=_is_along_last)
_WITHOUT_NAN = op(ew.WhereOp, op(ew.IsNanOp, _P, name="is_nan"), 0.0, _P)
_ATTENTION = op(MatmulOp, either(_WITHOUT_NAN, _P), Value("v"), where=_is_plain)


def _attention(m: Match) -> NnOp | None:
    scores = shape_of(m["scores"])
    if shape_of(m["p"]) != scores or m.type.get_shape()[:-1] != scores[:-1]:
        return None
    scale = m.number("scale") * m.number("q_scale") * m.number("k_scale")
    if not is_normal(scale, m["q"]):
        return None
    return m.make(
        AttentionOp,
        *(m["q"], m["k"], m["v"], m.get("mask")),
        scale=scale,
        transposed_k=not m.op("scores").settings["transpose_b"],
        nan_as_zero=m.get("is_nan") is not None,
    )


PATTERNS = (Pattern("attention", _ATTENTION, _attention),)
