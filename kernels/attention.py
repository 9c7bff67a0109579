"""The kernel of scaled dot-product attention: two products around a softmax."""

from __future__ import annotations

import math as numbers
from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from tessella.dialects.layout import NCHW
from tessella.dialects.nn.attention import AttentionOp
from tessella.dialects.nn.core import Tensor, shape_of, tensor_type
from tessella.kernels.builder import Body, Form, KernelBuilder, Scalars
from tessella.kernels.elementwise import with_code
from tessella.kernels.linear import batch_forms, multiply
from tessella.kernels.reduction import exponentials, first_over_second, inner_type
from tessella.kernels.registry import native

Args = Sequence[SSAValue]


@native(AttentionOp, "attention", NCHW, elements=with_code("exp"))
def attention(
    k: KernelBuilder,
    op: AttentionOp,
    q: SSAValue,
    key: SSAValue,
    v: SSAValue,
    mask: SSAValue | None = None,
) -> SSAValue:
    """S = scale * Q Kᵀ + mask, and E = exp(S - max S) along n; then +(E[b.., m, n] * V[b.., n, d])
    over the sums of E: rows of the result are shorter than those of E."""
    settings, type = op.settings, inner_type(q, op.scores_shape)
    scores = _scores(k, q, key, type, transposed=settings["transposed_k"])
    # past keys beyond the last are no more than all
    visible = min(settings["past"], type.get_shape()[-1]) if settings["causal"] else None
    masked = _masked(k, scores, mask, settings["scale"], visible)
    e, total = exponentials(k, masked, len(op.scores_shape) - 1, type, visible)
    body = _zero_for_nan if settings["nan_as_zero"] else first_over_second
    return _weighted_mean(k, e, total, v, k.result_type(op), body)


def _scores(
    k: KernelBuilder, q: SSAValue, key: SSAValue, type: Tensor, *, transposed: bool
) -> SSAValue:
    """+(Q[b.., m, k] * K[b.., n, k])."""
    *batch, rows, columns = type.get_shape()
    free = {**{f"b{i}": n for i, n in enumerate(batch)}, "m": rows, "n": columns}
    inner: list[Form] = ["k", "n"] if transposed else ["n", "k"]
    return k.contract(
        "+",
        free,
        {"k": shape_of(q)[-1]},
        [
            (q, [*batch_forms(shape_of(q)[:-2], batch), "m", "k"]),
            (key, [*batch_forms(shape_of(key)[:-2], batch), *inner]),
        ],
        (type, list(free)),
        multiply,
    )


def _masked(
    k: KernelBuilder, scores: SSAValue, mask: SSAValue | None, scale: float, past: int | None
) -> SSAValue:
    """scale * S + M; with ``past``, -inf beyond key m + past."""
    *_, m, n = (f"d{d}" for d in range(len(shape_of(scores))))

    def body(s: Scalars, a: Args) -> SSAValue:
        scaled = s.op(arith.MulfOp(a[0], s.like(scale, a[0])))
        masked = scaled if mask is None else s.op(arith.AddfOp(scaled, a[1]))
        return masked if past is None else s.up_to(n, m, past, masked, -numbers.inf)

    return k.map([scores, *(() if mask is None else (mask,))], tensor_type(scores), body)


def _zero_for_nan(s: Scalars, a: Args) -> SSAValue:
    """The first operand's element divided by the second's; 0 if the second is NaN, as in a fully
    masked row."""
    is_nan = s.op(arith.CmpfOp(a[1], a[1], "uno"))
    return s.op(arith.SelectOp(is_nan, s.like(0, a[0]), first_over_second(s, a)))


def _weighted_mean(
    k: KernelBuilder, e: SSAValue, total: SSAValue, v: SSAValue, type: Tensor, body: Body
) -> SSAValue:
    """body(+(E[b.., m, n] * V[b.., n, d]), T[b.., m])."""
    *batch, rows, columns = type.get_shape()
    free = {**{f"b{i}": n for i, n in enumerate(batch)}, "m": rows, "d": columns}
    row = list(free)[:-1]
    product = k.contract(
        "+",
        free,
        {"n": shape_of(v)[-2]},
        [(e, [*row, "n"]), (v, [*batch_forms(shape_of(v)[:-2], batch), "n", "d"])],
        (inner_type(e, type.get_shape()), list(free)),
        multiply,
    )
    operands = [(product, list(free)), (total, row)]
    return k.contract("=", free, {}, operands, (type, list(free)), body)
