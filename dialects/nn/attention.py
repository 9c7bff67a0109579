"""Scaled dot-product attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, Float64Type, FloatAttr, TensorType
from xdsl.irdl import (
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from tessella.dialects.nn.checks import check_float, check_rank, check_same_element
from tessella.dialects.nn.core import (
    Defaults,
    NnOp,
    Tensor,
    broadcast_shapes,
    shape_of,
    shapes_differ,
    shown,
    tensor,
    tensor_type,
)
from tessella.dialects.nn.host_work import STEPS, WIDE
from tessella.dialects.nn.traits import SumsProducts
from tessella.dialects.sizes import size_def
from tessella.support.decisions import differs
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size


@irdl_op_definition
class AttentionOp(NnOp):
    """Attention: softmax(scale * q kᵀ + mask) v for q[.., M, K], k[.., N, K], v[.., N, D].

    The result is [.., M, D], and the softmax runs along N. The leading dimensions of q and k
    broadcast; the leading dimensions of v, and the mask, broadcast to the scores[.., M, N].
    ``transposed_k`` reads k as [.., K, N].

    Every step rounds to the element type. If all scores of a row are -inf, or one of them is NaN,
    the row of the result is NaN; with ``nan_as_zero`` it is 0. If the mask has the least finite
    number everywhere in a row, all rows of v have the same weight.

    With ``causal``, query m attends only to the keys 0 to m + ``past``; all other keys are hidden
    from it. The score of a hidden key never counts, whatever k and the mask contain, NaN and
    infinities included. A hidden value has the weight 0. IEEE 754 makes 0 times a non-finite value
    NaN, but kernels skip most hidden values. If v[n, d] is not finite, element d of the queries
    that do not see key n is therefore unspecified: NaN, or as if v[n, d] were finite. All other
    elements follow IEEE 754, for all sizes and kernels. Models with non-finite padding should clear
    v there.
    """

    name = "nn.attention"
    TRANSPOSES: ClassVar[str | None] = "transposed_k"
    DEFAULTS: ClassVar[Defaults] = {
        "transposed_k": False,
        "causal": False,
        "past": 0,
        "nan_as_zero": False,
    }
    q = operand_def(base(TensorType))
    k = operand_def(base(TensorType))
    v = operand_def(base(TensorType))
    mask = opt_operand_def(base(TensorType))
    scale = prop_def(FloatAttr[Float64Type])
    transposed_k = prop_def(BoolAttr)
    causal = prop_def(BoolAttr)
    past = size_def()
    nan_as_zero = prop_def(BoolAttr)
    res = result_def(base(TensorType))
    traits = traits_def(Pure(), SumsProducts())

    @property
    def operations(self) -> Size:
        return math.prod(self.scores_shape) * (shape_of(self.q)[-1] + shape_of(self.v)[-1])

    @property
    def scores_shape(self) -> tuple[Size, ...]:
        """The shape [.., M, N] of the scores. Raises ShapeError if q and k do not match."""
        q, k = shape_of(self.q), shape_of(self.k)
        inner, columns = (k[-2], k[-1]) if self.settings["transposed_k"] else (k[-1], k[-2])
        if differs(q[-1], inner):
            raise ShapeError("nn.attention: the inner sizes differ", found=f"{q[-1]} and {inner}")
        return (*broadcast_shapes([q[:-2], k[:-2]]), q[-2], columns)

    def infer(self) -> Sequence[Tensor]:
        check_same_element(self)
        check_float(self, self.q)
        for value in (self.q, self.k, self.v):
            check_rank(self, value, 2)
        if self.settings["past"] < 0:
            raise ShapeError(
                "nn.attention: past keys are counted from 0", found=str(self.settings["past"])
            )
        scores, v = self.scores_shape, shape_of(self.v)
        if differs(v[-2], scores[-1]):
            raise ShapeError(
                "nn.attention: v does not have a row for each row of k",
                expected=str(scores[-1]),
                found=str(v[-2]),
            )
        self._check_broadcast("v", v[:-2], scores[:-2])
        if self.mask is not None:
            self._check_broadcast("mask", shape_of(self.mask), scores)
        return [tensor(tensor_type(self.q).element_type, (*scores[:-1], v[-1]))]

    def _check_broadcast(self, name: str, shape: Sequence[Size], to: tuple[Size, ...]) -> None:
        if shapes_differ(broadcast_shapes([shape, to]), to):
            raise ShapeError(
                f"nn.attention: the dimensions of {name} do not broadcast to those of the scores",
                expected=f"at most {shown(to)}",
                found=shown(shape),
            )

    @property
    def host_bytes(self) -> Size:
        scores = math.prod(self.scores_shape)
        inner = shape_of(self.q)[-1] + shape_of(self.v)[-1]
        return scores * WIDE + scores * inner // STEPS
