"""The kernel of scaled dot-product attention: two products around a softmax."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from tessella.dialects.layout import NCHW
from tessella.dialects.nn.attention import AttentionOp
from tessella.dialects.nn.core import Tensor, shape_of, tensor_type
from tessella.kernels.builder import Form, KernelBuilder, Scalars
from tessella.kernels.elementwise import with_code
from tessella.kernels.linear import batch_forms, multiply
from tessella.kernels.reduction import first_over_second, inner_type, softmax_along
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
    """S = scale * Q Kᵀ + mask, then P = softmax S, then +(P[b.., m, n] * V[b.., n, d])."""
    settings, type = op.settings, inner_type(q, op.scores_shape)
    scores = _scores(k, q, key, type, transposed=settings["transposed_k"])
    masked = _masked(k, scores, mask, settings["scale"])
    body = _zero_for_nan if settings["nan_as_zero"] else first_over_second
    p = softmax_along(k, masked, len(op.scores_shape) - 1, type, body)
    return _product(k, p, v, k.result_type(op))


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


def _masked(k: KernelBuilder, scores: SSAValue, mask: SSAValue | None, scale: float) -> SSAValue:
    """scale * S + M."""

    def body(s: Scalars, a: Args) -> SSAValue:
        scaled = s.op(arith.MulfOp(a[0], s.like(scale, a[0])))
        return scaled if mask is None else s.op(arith.AddfOp(scaled, a[1]))

    return k.map([scores, *(() if mask is None else (mask,))], tensor_type(scores), body)


def _zero_for_nan(s: Scalars, a: Args) -> SSAValue:
    """As in a softmax, but 0 where that is NaN."""
    p = first_over_second(s, a)
    is_nan = s.op(arith.CmpfOp(p, p, "uno"))
    return s.op(arith.SelectOp(is_nan, s.like(0, p), p))


def _product(k: KernelBuilder, p: SSAValue, v: SSAValue, type: Tensor) -> SSAValue:
    """+(P[b.., m, n] * V[b.., n, d])."""
    *batch, rows, columns = type.get_shape()
    free = {**{f"b{i}": n for i, n in enumerate(batch)}, "m": rows, "d": columns}
    names = list(free)[:-1]
    return k.contract(
        "+",
        free,
        {"n": shape_of(v)[-2]},
        [(p, [*names, "n"]), (v, [*batch_forms(shape_of(v)[:-2], batch), "n", "d"])],
        (type, list(free)),
        multiply,
    )
