"""Programs with symbols: one compiled code runs right for many sizes, on several threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tessella.dialects import nn
from tessella.dialects.graph import Graph, main_function
from tessella.dialects.interpret import interpret
from tessella.dialects.nn.core import PyValue
from tessella.dialects.printing import to_text
from tessella.driver.stages.located import LocatedParser
from tessella.driver.stages.stage_file import stage_context
from tessella.support.sizes import Symbol
from tests.lowering.guarded import Memory
from tests.lowering.symbolic import Compiled, compiled
from tests.native import RUNNABLE, GraphBuilder, known_shape, normal

FEW, MANY = (2, 3, 5, 8, 14, 15), (16, 17, 31, 33, 64, 70)
"""Sizes of the versions of programs for few and for many."""
ERROR = 1e-4
ATTENTION: dict[str, PyValue] = {
    "scale": 0.17,
    "transposed_k": False,
    "causal": False,
    "past": 0,
    "nan_as_zero": False,
}


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
            **ATTENTION,
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


def groupnorm(n: int) -> Graph:
    g = GraphBuilder(x=normal(2, 6, n), scale=normal(6), bias=normal(6))
    return g.graph(g.op(nn.GroupNormOp, list(g.inputs.values()), groups=3, epsilon=1e-5))


def norm_of_rows(n: int) -> Graph:
    g = GraphBuilder(x=normal(4, n, 8), scale=normal(8))
    scale = g.op(nn.ExpandOp, [g.inputs["scale"]], shape=(n, 8))
    return g.graph(g.op(nn.RmsNormOp, [g.inputs["x"], scale], axis=1, epsilon=1e-5))


def row_sums(m: int, n: int) -> Graph:
    g = GraphBuilder(x=normal(m, n))
    return g.graph(g.op(nn.ReduceSumOp, [g.inputs["x"]], axes=(1,), keepdims=False))


def pair_sums(n: int) -> Graph:
    g = GraphBuilder(x=normal(n, 2))
    return g.graph(g.op(nn.ReduceSumOp, [g.inputs["x"]], axes=(1,), keepdims=False))


def column_maxima(m: int, n: int) -> Graph:
    g = GraphBuilder(x=normal(m, n))
    return g.graph(g.op(nn.ReduceMaxOp, [g.inputs["x"]], axes=(0,), keepdims=False))


def concat(n: int) -> Graph:
    g = GraphBuilder(x=normal(4, n, 24), y=normal(4, 3, 24))
    return g.graph(g.op(nn.ConcatOp, [g.inputs["x"], g.inputs["y"]], axis=1))


def activated_concat(m: int, n: int) -> Graph:
    g = GraphBuilder(x=normal(4, n, 24), y=normal(4, m, 24))
    return g.graph(g.op(nn.ReluOp, [g.op(nn.ConcatOp, [g.inputs["x"], g.inputs["y"]], axis=1)]))


def causal(n: int) -> Graph:
    g = GraphBuilder(q=normal(2, 4, n, 32), k=normal(2, 4, n, 32), v=normal(2, 4, n, 32))
    return g.graph(
        g.op(
            nn.AttentionOp,
            [g.inputs["q"], g.inputs["k"], g.inputs["v"]],
            **{**ATTENTION, "causal": True},
        )
    )


def causal_after(m: int, n: int) -> Graph:
    """Queries after ``n`` keys that all of them take; steps of rows end at the diagonal."""
    g = GraphBuilder(q=normal(3, m, 32), k=normal(3, m + n, 32), v=normal(3, m + n, 32))
    return g.graph(
        g.op(
            nn.AttentionOp,
            [g.inputs["q"], g.inputs["k"], g.inputs["v"]],
            **{**ATTENTION, "causal": True, "past": n},
        )
    )


def cached(m: int, n: int) -> Graph:
    g = GraphBuilder(
        q=normal(4, m, 32),
        k=normal(4, m, 32),
        v=normal(4, m, 32),
        pk=normal(4, n, 32),
        pv=normal(4, n, 32),
    )
    k = g.op(nn.ConcatOp, [g.inputs["pk"], g.inputs["k"]], axis=1)
    v = g.op(nn.ConcatOp, [g.inputs["pv"], g.inputs["v"]], axis=1)
    return g.graph(g.op(nn.AttentionOp, [g.inputs["q"], k, v], **ATTENTION), k, v)


def decode(n: int) -> Graph:
    g = GraphBuilder(
        q=normal(4, 1, 32),
        k=normal(4, 1, 32),
        v=normal(4, 1, 32),
        pk=normal(4, n, 32),
        pv=normal(4, n, 32),
    )
    k = g.op(nn.ConcatOp, [g.inputs["pk"], g.inputs["k"]], axis=1)
    v = g.op(nn.ConcatOp, [g.inputs["pv"], g.inputs["v"]], axis=1)
    return g.graph(g.op(nn.AttentionOp, [g.inputs["q"], k, v], **ATTENTION), k, v)


def pool(b: int) -> Graph:
    g = GraphBuilder(x=normal(b, 8, 14, 14))
    return g.graph(
        g.op(
            nn.MaxPoolOp,
            [g.inputs["x"]],
            kernel_shape=(3, 3),
            strides=(2, 2),
            pads=(1, 1, 1, 1),
            dilations=(1, 1),
            ceil_mode=False,
        )
    )


def convolutions(b: int) -> Graph:
    g = GraphBuilder(x=normal(b, 32, 14, 14))
    w = g.weight(normal(64, 32, 3, 3))
    w2 = g.weight(normal(32, 64, 1, 1))
    y = g.op(
        nn.ConvOp, [g.inputs["x"], w], strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1), groups=1
    )
    y = g.op(
        nn.ConvOp,
        [g.op(nn.ReluOp, [y]), w2],
        strides=(1, 1),
        pads=(0, 0, 0, 0),
        dilations=(1, 1),
        groups=1,
    )
    return g.graph(g.op(nn.AddOp, [y, g.inputs["x"]]))


PROGRAMS = [
    relu,
    fc,
    softmax,
    layernorm,
    groupnorm,
    norm_of_rows,
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
    pair_sums,
    column_maxima,
    concat,
    activated_concat,
    causal,
    causal_after,
    cached,
    decode,
    pool,
    convolutions,
]


@pytest.mark.sweep
@pytest.mark.usefixtures("divide_all")
@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("sizes", [FEW, MANY], ids=["few", "many"])
@pytest.mark.parametrize("make", PROGRAMS)
def test_runs_for_many_sizes(make: Callable[..., Graph], sizes: Sequence[int], target: str) -> None:
    """The results are those of the interpreter, for any number of threads, and nothing beside the
    buffers is written."""
    check(make, sizes, target)


def check(make: Callable[..., Graph], sizes: Sequence[int], target: str) -> Compiled:
    names = list(signature(make).parameters)
    low, high = (2, 15) if max(sizes) < 16 else (16, 512)
    program = compiled(make, [Symbol(name, low, high) for name in names], target)
    for number, size in enumerate(sizes):
        values = {name: sizes[number - i] if i else size for i, name in enumerate(names)}
        graph = make(**values)
        arguments = main_function(graph.module).body.block.args
        named = {a.name_hint or "": normal(*known_shape(a), seed=1) for a in arguments}
        arrays, wanted = list(named.values()), interpret(graph, named)
        for threads in (1, 2, 3):
            memory = Memory(at_end=threads != 2)
            results = program.run(values, arrays, threads, memory)
            memory.check()
            for y, expected in zip(results, wanted, strict=True):
                # Winograd's method has errors of the greatest numbers everywhere
                most = max(1, np.abs(expected).max(initial=0) / 20)
                np.testing.assert_allclose(y, expected, rtol=ERROR, atol=ERROR * most)
    return program


@pytest.mark.sweep
@pytest.mark.usefixtures("divide_all")
@pytest.mark.parametrize("make", [attention, causal, causal_after])
def test_rows_of_long_sequences_run_in_steps(make: Callable[..., Graph]) -> None:
    program = check(make, (130, 16, 257, 100, 300), RUNNABLE[0])
    ops = program.lowered.stages["tile"].walk()
    nests = [str(op.properties["nest"]) for op in ops if "nest" in op.properties]
    assert any(f"{rows} by 16" in nest for nest in nests for rows in "mn")


@pytest.mark.sweep
@pytest.mark.parametrize("make", [fc, softmax, attention, cached, convolutions])
def test_text(make: Callable[..., Graph]) -> None:
    """Sizes are read from text as they are printed, at all stages."""
    program = compiled(make, [Symbol(name, 16, 512) for name in signature(make).parameters])
    for module in program.lowered.stages.values():
        text = to_text(module)
        again = LocatedParser(stage_context(), text, "text").parse()
        assert isinstance(again, ModuleOp), again
        again.verify()
        assert to_text(again) == text
