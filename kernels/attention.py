"""The kernel of scaled dot-product attention: two products around a softmax."""

from __future__ import annotations

import math as numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import SSAValue

from tessella.dialects.elements import element_of
from tessella.dialects.layout import NCHW
from tessella.dialects.nn.attention import AttentionOp
from tessella.dialects.nn.core import shape_of, tensor_type
from tessella.dialects.tile import Linear
from tessella.kernels.builder import Form, KernelBuilder, Scalars
from tessella.kernels.elements import with_code
from tessella.kernels.linear import batch_forms, multiply
from tessella.kernels.reduction import (
    exponential,
    exponentials,
    first_over_second,
    inner_type,
    maxima,
    shifted,
    sums,
)
from tessella.kernels.registry import native
from tessella.support.conditions import always
from tessella.support.decisions import decided_min, known
from tessella.support.sizes import Expr, Size

Args = Sequence[SSAValue]

LEAST = 64
"""The least number of keys in a block: a few vectors."""
MANY = 1024
"""The minimum number of keys from which keys are divided into blocks."""


@dataclass(frozen=True)
class _Problem:
    """The indices of the scores, with their ranges."""

    batch: Mapping[str, Size]
    rows: Mapping[str, Size]
    """The batch indices and m."""
    keys: Mapping[str, Size]
    """n, or c and n if n numbers a key within block c."""

    @property
    def block(self) -> Size:
        """The number of keys in a block."""
        return self.keys["n"]

    @property
    def blocks(self) -> dict[str, Size]:
        """The indices of the scores, with their ranges, except the index n of the keys in a block.
        Each point of these indices is a row of scores in one block of keys, or a whole row if the
        keys are not in blocks."""
        return {**self.rows, **{name: n for name, n in self.keys.items() if name != "n"}}

    @property
    def scores(self) -> dict[str, Size]:
        return {**self.rows, **self.keys}

    def last(self, past: Size) -> Linear:
        """Return the last value of n that query m attends to, as an affine expression of the
        scores' indices.

        Query m attends to the keys up to number m + ``past``.
        """
        axis = len(self.rows) - 1
        last = Linear.of(f"d{axis}") + past
        if "c" not in self.keys:
            return last
        return last - Linear.of(f"d{axis + 1}", known(self.block))

    def of_keys(self, value: SSAValue, *inner: str) -> tuple[SSAValue, list[Form]]:
        """Return ``value`` with its access: the batch indices, with 0 for dimensions that
        broadcast, and then the indices ``inner``."""
        return value, [*batch_forms(shape_of(value)[: -len(inner)], [*self.batch.values()]), *inner]


def _problem(op: AttentionOp, keys: Mapping[str, Size]) -> _Problem:
    *batch, rows, _ = op.scores_shape
    indices = {f"b{i}": n for i, n in enumerate(batch)}
    return _Problem(indices, {**indices, "m": rows}, keys)


@native(AttentionOp, "attention", NCHW, elements=with_code("math.exp"))
def attention(
    k: KernelBuilder,
    op: AttentionOp,
    q: SSAValue,
    key: SSAValue,
    v: SSAValue,
    mask: SSAValue | None = None,
) -> SSAValue:
    """Emit the scores S = scale * Q Kᵀ + mask, E = exp(S - max S) along n, and the product +(E[b..,
    m, n] * V[b.., n, d]), divided by the sums of E.

    The division comes last, as rows of the result are shorter than rows of E.
    """
    p = _problem(op, {"n": op.scores_shape[-1]})
    scores, last = _masked_scores(k, op, p, q, key, mask)
    e, total = exponentials(k, scores, len(p.scores) - 1, tensor_type(scores), last)
    return _divided(k, op, _products(k, p, e, v), total)


def _block(op: AttentionOp) -> int | None:
    """Return the number of keys in a block; None if the keys are not divided into blocks.

    The number divides the number of all keys. It minimises the memory of one row: the scores and
    exponentials of a block, and the products of all blocks with V.
    """
    keys, depth = op.scores_shape[-1], shape_of(op.v)[-1]
    if isinstance(keys, Expr) or isinstance(depth, Expr) or keys < MANY:
        return None
    most = max(2 * LEAST, numbers.isqrt(keys * depth))
    dividing = [n for n in range(LEAST, most + 1) if keys % n == 0]
    return min(dividing, key=lambda n: 2 * n + keys // n * depth, default=None)


def _has_no_blocks(op: AttentionOp) -> str | None:
    return "its keys are few, or have no blocks" if _block(op) is None else None


@native(
    AttentionOp,
    "attention_by_keys",
    NCHW,
    elements=with_code("math.exp"),
    applies=_has_no_blocks,
)
def attention_by_keys(
    k: KernelBuilder,
    op: AttentionOp,
    q: SSAValue,
    key: SSAValue,
    v: SSAValue,
    mask: SSAValue | None = None,
) -> SSAValue:
    """Emit attention with the keys in blocks c. Each block has maxima X, exponentials E, sums of E,
    and products P of E with V.

    The blocks are then combined by the weights W = exp(X - max X) along c: the result is +(W[b..,
    m, c] * P[b.., m, c, d]), divided by +(W[b.., m, c] * +E). The scores between the products are
    few enough to stay in cache. Nothing is carried from block to block: all blocks are alike and
    may run in any order.
    """
    block = _block(op)
    assert block is not None
    p = _problem(op, {"c": op.scores_shape[-1] // block, "n": block})
    key = _in_blocks(k, key, block, -1 if op.settings["transposed_k"] else -2)
    v = _in_blocks(k, v, block, -2)
    mask = None if mask is None else _in_blocks(k, mask, block, -1)
    scores, last = _masked_scores(k, op, p, q, key, mask)
    axis = len(p.scores) - 1
    most = _finite(k, maxima(k, scores, axis))
    e = shifted(k, scores, most, axis, tensor_type(scores), exponential, last)
    total, products = sums(k, e, axis), _products(k, p, e, v)
    w = shifted(k, most, maxima(k, most, axis - 1), axis - 1, tensor_type(most), exponential)
    return _divided(k, op, _over_blocks(k, p, w, products), _over_blocks(k, p, w, total))


def _in_blocks(k: KernelBuilder, value: SSAValue, block: int, axis: int) -> SSAValue:
    """Return a view that splits the dimension of keys into blocks."""
    shape = [*shape_of(value)]
    axis += len(shape)
    inner = decided_min(block, shape[axis])  # a mask may have extent one along the keys
    return k.reshaped(value, [*shape[:axis], shape[axis] // inner, inner, *shape[axis + 1 :]])


def _masked_scores(
    k: KernelBuilder,
    op: AttentionOp,
    p: _Problem,
    q: SSAValue,
    key: SSAValue,
    mask: SSAValue | None,
) -> tuple[SSAValue, Linear | None]:
    """Return the scores scale * +(Q[b.., m, k] * K[b.., n, k]) + M, and the last key that a query
    attends to, as an affine expression of the scores' indices, or None without causal masking.

    The scores of later keys are -inf.
    """
    settings, keys = op.settings, [*p.keys]
    type = inner_type(q, [*p.scores.values()])
    inner = ["k", *keys] if settings["transposed_k"] else [*keys, "k"]
    operands = [p.of_keys(q, "m", "k"), p.of_keys(key, *inner)]
    depth, out = {"k": shape_of(q)[-1]}, (type, [*p.scores])
    scores = k.contract("+", p.scores, depth, operands, out, multiply)
    # from ``past`` = number of keys on, no key is masked
    past = _past(op) if settings["causal"] else None
    last = None if past is None else p.last(past)
    return _masked(k, scores, mask, settings["scale"], last), last


def _past(op: AttentionOp) -> Size:
    past, keys = op.settings["past"], op.scores_shape[-1]
    return past if isinstance(keys, Expr) else decided_min(past, keys)


def _masked(
    k: KernelBuilder, scores: SSAValue, mask: SSAValue | None, scale: float, last: Linear | None
) -> SSAValue:
    """Return scale * S + M, with -inf where the last index is above ``last``."""

    def body(s: Scalars, a: Args) -> SSAValue:
        scaled = s.op(arith.MulfOp(a[0], s.like(scale, a[0])))
        masked = scaled if mask is None else s.op(arith.AddfOp(scaled, a[1]))
        if last is None:
            return masked
        return s.up_to(f"d{len(shape_of(scores)) - 1}", last, masked, -numbers.inf)

    return k.map([scores, *(() if mask is None else (mask,))], tensor_type(scores), body)


def _finite(k: KernelBuilder, most: SSAValue) -> SSAValue:
    """Replace maxima of -inf by the lowest finite number. Rows of scores that are all -inf then
    have exponentials of 0 instead of NaN."""

    def body(s: Scalars, a: Args) -> SSAValue:
        bits = element_of(a[0].type).bits
        lowest = float(np.finfo(np.float64 if bits == 64 else np.float32).min)
        return s.op(arith.MaximumfOp(a[0], s.like(lowest, a[0])))

    return k.map([most], tensor_type(most), body)


def _products(k: KernelBuilder, p: _Problem, e: SSAValue, v: SSAValue) -> SSAValue:
    """Return +(E[b.., m, n] * V[b.., n, d]) for each block of keys."""
    free = {**p.blocks, "d": shape_of(v)[-1]}
    operands = [(e, [*p.scores]), p.of_keys(v, *p.keys, "d")]
    type = inner_type(e, [*free.values()])
    return k.contract("+", free, {"n": p.block}, operands, (type, [*free]), multiply)


def _over_blocks(k: KernelBuilder, p: _Problem, w: SSAValue, x: SSAValue) -> SSAValue:
    """Return +(W[b.., m, c] * X[b.., m, c, ..]), the weighted sum over the blocks c."""
    own = dict(zip(("d",), shape_of(x)[len(p.blocks) :], strict=False))
    free = {**p.rows, **own}
    type = inner_type(x, [*free.values()])
    operands = [(w, [*p.blocks]), (x, [*p.blocks, *own])]
    return k.contract("+", free, {"c": p.keys["c"]}, operands, (type, [*free]), multiply)


def _divided(k: KernelBuilder, op: AttentionOp, products: SSAValue, total: SSAValue) -> SSAValue:
    """Return the products divided by the sums of exponentials; 0 if there are no keys."""
    keys = op.scores_shape[-1]
    body = _zero_for_nan if op.settings["nan_as_zero"] else first_over_second
    if body is first_over_second and not always(keys > 0):
        body = partial(_zero_without_keys, keys)
    free = {f"d{i}": n for i, n in enumerate(shape_of(products))}
    operands = [(products, [*free]), (total, [*free][:-1])]
    return k.contract("=", free, {}, operands, (k.result_type(op), [*free]), body)


def _zero_without_keys(keys: Size, s: Scalars, a: Args) -> SSAValue:
    """Return the first operand's element divided by the second's; 0 if the number of keys is 0."""
    number = s.size(keys)
    none = s.op(arith.CmpiOp(number, s.like(0, number), "eq"))
    return s.op(arith.SelectOp(none, s.like(0, a[0]), first_over_second(s, a)))


def _zero_for_nan(s: Scalars, a: Args) -> SSAValue:
    """Return the first operand's element divided by the second's; 0 if the second is NaN or 0, as
    in a fully masked row."""
    none = s.op(arith.CmpfOp(a[1], s.like(0, a[1]), "ueq"))
    return s.op(arith.SelectOp(none, s.like(0, a[0]), first_over_second(s, a)))
