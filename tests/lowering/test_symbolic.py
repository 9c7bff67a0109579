"""Programs with symbols: one compiled code runs right for many sizes, on several threads."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature

import numpy as np
import pytest

from tessella.dialects import nn
from tessella.dialects.graph import Graph, main_function
from tessella.dialects.interpret import interpret
from tessella.dialects.nn.core import shape_of
from tessella.support.sizes import Symbol
from tests.lowering.symbolic import compiled
from tests.native import RUNNABLE, GraphBuilder, normal

SIZES = (16, 17, 31, 33, 64, 70)
ERROR = 1e-4


def relu(n: int) -> Graph:
    g = GraphBuilder(x=normal(n, 64))
    return g.graph(g.op(nn.ReluOp, [g.inputs["x"]]))


def fc(n: int) -> Graph:
    g = GraphBuilder(x=normal(n, 64))
    w = g.weight(normal(64, 48))
    b = g.weight(normal(48))
    y = g.op(nn.FcOp, [g.inputs["x"], w, b], transpose_w=False)
    return g.graph(g.op(nn.ReluOp, [y]))


def softmax(m: int, n: int) -> Graph:
    g = GraphBuilder(x=normal(m, n))
    return g.graph(g.op(nn.SoftmaxOp, [g.inputs["x"]], axis=1))


def layernorm(n: int) -> Graph:
    g = GraphBuilder(x=normal(n, 64))
    s = g.weight(normal(64))
    b = g.weight(normal(64))
    return g.graph(g.op(nn.LayerNormOp, [g.inputs["x"], s, b], axis=1, epsilon=1e-5))


def transpose(n: int) -> Graph:
    g = GraphBuilder(x=normal(n, 64))
    return g.graph(g.op(nn.TransposeOp, [g.inputs["x"]], perm=(1, 0)))


def reversed_axes(m: int, n: int) -> Graph:
    g = GraphBuilder(x=normal(m, 12, n))
    return g.graph(g.op(nn.TransposeOp, [g.inputs["x"]], perm=(2, 1, 0)))


def products(b: int) -> Graph:
    g = GraphBuilder(x=normal(b, 24, 32), y=normal(b, 32, 40))
    return g.graph(g.op(nn.MatmulOp, [g.inputs["x"], g.inputs["y"]], transpose_b=False))


def symbolic_products(b: int, m: int, n: int) -> Graph:
    g = GraphBuilder(x=normal(b, m, 32), y=normal(b, 32, n))
    return g.graph(g.op(nn.MatmulOp, [g.inputs["x"], g.inputs["y"]], transpose_b=False))


def scores(b: int, n: int) -> Graph:
    g = GraphBuilder(x=normal(b, n, 32), y=normal(b, n, 32))
    return g.graph(
        g.op(
            nn.MatmulOp,
            [g.inputs["x"], g.op(nn.TransposeOp, [g.inputs["y"]], perm=(0, 2, 1))],
            transpose_b=False,
        )
    )


def weighted(b: int, m: int, n: int) -> Graph:
    g = GraphBuilder(x=normal(b, m, n), y=normal(b, n, 32))
    return g.graph(g.op(nn.MatmulOp, [g.inputs["x"], g.inputs["y"]], transpose_b=False))


def attention(n: int) -> Graph:
    g = GraphBuilder(q=normal(2, 4, n, 32), k=normal(2, 4, n, 32), v=normal(2, 4, n, 32))
    return g.graph(
        g.op(
            nn.AttentionOp,
            [g.inputs["q"], g.inputs["k"], g.inputs["v"]],
            scale=0.17,
            transposed_k=False,
            causal=False,
            past=0,
            nan_as_zero=False,
        )
    )


def mlp(n: int) -> Graph:
    g = GraphBuilder(x=normal(n, 64))
    w = g.weight(normal(64, 256))
    b = g.weight(normal(256))
    w2 = g.weight(normal(256, 64))
    b2 = g.weight(normal(64))
    y = g.op(nn.FcOp, [g.inputs["x"], w, b], transpose_w=False)
    y = g.op(nn.GeluOp, [y])
    y = g.op(nn.FcOp, [y, w2, b2], transpose_w=False)
    y = g.op(nn.AddOp, [y, g.inputs["x"]])
    s = g.weight(normal(64))
    return g.graph(g.op(nn.LayerNormOp, [y, s, s], axis=1, epsilon=1e-5))


def conv(b: int) -> Graph:
    g = GraphBuilder(x=normal(b, 8, 14, 14))
    w = g.weight(normal(16, 8, 3, 3))
    return g.graph(
        g.op(
            nn.ReluOp,
            [
                g.op(
                    nn.ConvOp,
                    [g.inputs["x"], w],
                    strides=(1, 1),
                    pads=(1, 1, 1, 1),
                    dilations=(1, 1),
                    groups=1,
                )
            ],
        )
    )


def row_sums(m: int, n: int) -> Graph:
    g = GraphBuilder(x=normal(m, n))
    return g.graph(g.op(nn.ReduceSumOp, [g.inputs["x"]], axes=(1,), keepdims=False))


def column_maxima(m: int, n: int) -> Graph:
    g = GraphBuilder(x=normal(m, n))
    return g.graph(g.op(nn.ReduceMaxOp, [g.inputs["x"]], axes=(0,), keepdims=False))


PROGRAMS = [
    relu,
    fc,
    softmax,
    layernorm,
    transpose,
    reversed_axes,
    products,
    symbolic_products,
    scores,
    weighted,
    attention,
    mlp,
    conv,
    row_sums,
    column_maxima,
]


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("make", PROGRAMS)
def test_runs_for_many_sizes(make: Callable[..., Graph], target: str) -> None:
    """The results are those of the interpreter, for any number of threads."""
    names = list(signature(make).parameters)
    program = compiled(make, [Symbol(name, 16, 512) for name in names], target)
    for number, size in enumerate(SIZES):
        values = {name: SIZES[number - i] if i else size for i, name in enumerate(names)}
        graph = make(**values)
        named = {
            value.name_hint or "": normal(*shape_of(value), seed=1)
            for value in main_function(graph.module).body.block.args
        }
        arrays, wanted = list(named.values()), interpret(graph, named)
        for threads in (1, 2, 3):
            for y, expected in zip(program.run(values, arrays, threads), wanted, strict=True):
                np.testing.assert_allclose(y, expected, rtol=ERROR, atol=ERROR)
