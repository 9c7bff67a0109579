"""Products."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.fuzz.elements import Array
from tests.fuzz.graphs import Draft, Row, has_large
from tests.fuzz.rows.elementwise import SINGLE, flattened
from tests.fuzz.rows.movement import pick

WIDTHS = (1, 3, 5, 16, 18, 35)
MOST = 900


def matmul(d: Draft) -> None:
    if d.chance(15):
        x = d.pick(lambda a: a.ndim == 1 and a.size > 0, lambda: d.shape(1))
    else:
        x = pick(d, 2, MOST)
    _right(d, x)


def _right(d: Draft, x: Array) -> None:
    *batch, k = x.shape
    batch = batch[:-1]
    shape = (*(flattened(d, tuple(batch)) if batch else ()), k, d.one_of(*WIDTHS))
    shape = (k,) if d.chance(10) else shape

    def fits(a: Array) -> bool:
        if a.ndim < 2 or a.size > MOST or a.shape[-2] != k:
            return False
        try:
            np.broadcast_shapes(a.shape[:-2], tuple(batch))
        except ValueError:
            return False
        return True

    d.pick(fits, lambda: shape)


def gemm(d: Draft) -> None:
    a = d.pick(lambda a: a.ndim == 2, lambda: d.shape(2))
    m, k = reversed(a.shape) if d.attributes.get("transA") else a.shape
    n = d.one_of(*WIDTHS)
    shape = (n, k) if d.attributes.get("transB") else (k, n)
    d.pick(lambda b: b.shape == shape, lambda: shape)
    if d.coin() or d.opset < 11:
        c = flattened(d, (m, n))
        d.pick(lambda a: a.shape == c, lambda: c)


def integer(d: Draft) -> None:
    x = pick(d, 2, MOST)
    _right(d, x)
    for _ in range(d.between(0, 2)):
        d.constant(np.asarray(d.between(0, 5)))


def quantized_matmul(d: Draft) -> None:
    x = pick(d, 2, MOST)
    scales(d)
    _right(d, x)
    scales(d)
    scales(d)


def scales(d: Draft) -> None:
    """A scale and a zero point."""
    d.constant(np.asarray(d.one_of(0.05, 0.5, 1.0, 0.125)), TensorProto.FLOAT, rounds=True)
    d.constant(np.asarray(d.between(0, 7)))


EQUATIONS = (
    "ij->ji", "ij->", "ij->i", "...i->...", "ij,jk->ik", "ij,jk",
    "bij,bjk->bik", "i,j->ij", "ij,ij->", "...ij,...jk->...ik", "bhqd,bhkd->bhqk", "ij,jk,kl->il",
    "abc,cd->abd", "ij,kj->ik", "bij,j->bi", "ij,i->ij",
)  # fmt: skip


def einsum(d: Draft) -> None:
    equation = d.one_of(*EQUATIONS)
    d.set("equation", equation)
    sizes = {letter: d.one_of(1, 2, 3, 5, 8) for letter in equation if letter.isalpha()}
    dots = d.shape(d.between(0, 1))
    for term in equation.split("->")[0].split(","):
        outer = dots if term.startswith("...") else ()
        shape = (*outer, *(sizes[letter] for letter in term.strip(".")))
        d.pick(lambda a, shape=shape: a.shape == shape, lambda shape=shape: shape)


def attention(d: Draft) -> None:
    """Queries [b, h, q, c], keys [b, k, h, c], values [b, k, h, v], and maybe a mask."""
    b, heads = d.between(1, 2), d.between(1, 3)
    group = d.one_of(1, 1, 2)
    q, k, c, v = (d.one_of(1, 2, 3, 5, 8) for _ in range(4))
    d.new((b, heads * group, q, c))
    d.new((b, heads, k, c))
    # of another type, the body that ONNX gives has a product of two types
    d.bind(d.operands[0].code)
    d.new((b, heads, k, v))
    if d.chance(40):
        d.bind(d.operands[0].code)
        d.new(d.one_of((q, k), (b, 1, q, k), (b, heads * group, q, k)))


def rotary(d: Draft) -> None:
    b, h, n, c = d.between(1, 2), d.between(1, 3), d.between(1, 5), 2 * d.between(1, 4)
    d.new((b, h, n, c))
    for _ in range(2):
        d.new((b, n, c // 2))


def gated(d: Draft) -> None:
    x = pick(d, 2, MOST)
    d.require(x.shape[-1] % 2 == 0)


FLAG = (0, 1)

ROWS = (
    Row("MatMul", matmul),
    Row(
        "Gemm",
        gemm,
        {"alpha": (0.5, 1.0, 2.0), "beta": (0.0, 1.0, 0.5), "transA": FLAG, "transB": FLAG},
        unclear=has_large,
    ),
    Row("MatMulInteger", integer),
    Row("QLinearMatMul", quantized_matmul),
    Row("Einsum", einsum),
    Row(
        "Attention",
        attention,
        {"is_causal": FLAG, "scale": (0.1, 0.5), "softcap": (0.0, 2.0)},
        epsilon=SINGLE,
    ),
    Row("RotaryEmbedding", rotary, {"interleaved": FLAG}),
    Row("SwiGLU", gated),
)
