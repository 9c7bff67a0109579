"""Patterns as xDSL patterns, applied by xDSL's drivers without the pass."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriterListener,
    PatternRewriteWalker,
    RewritePattern,
)

from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.passes.patterns import PATTERNS
from tessella.passes.patterns.nodes import AnyValue, op
from tessella.passes.patterns.pattern import Match, Pattern, becomes
from tests.native import GraphBuilder
from tests.passes.harness import names, ops, sample

x, y = AnyValue("x"), AnyValue("y")
MINUS = Pattern("minus", op(nn.AddOp, x, op(nn.NegOp, y)), becomes(nn.SubOp, "x", "y"))
PLUS_A_HALF = Pattern("half", op(nn.AddOp, x, 0.5), becomes(nn.TanhOp, "x"))


class NoNegations(RewritePattern):
    """-(-x) -> x."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if isinstance(op, nn.NegOp) and isinstance(inner := op.x.owner, nn.NegOp):
            rewriter.replace(op, [], [inner.x])


def differences() -> Graph:
    """x + -y, and x + -(-y)."""
    g = GraphBuilder(x=sample(0, 2, 3), y=sample(1, 2, 3))
    a, b = g.inputs["x"], g.inputs["y"]
    first = g.op(nn.AddOp, [a, g.op(nn.NegOp, [b], node="n")], node="sum")
    second = g.op(nn.AddOp, [a, g.op(nn.NegOp, [g.op(nn.NegOp, [b])])])
    return g.graph(first, second)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_walker_of_xdsl_applies_them(reverse: bool) -> None:
    graph = differences()
    assert PatternRewriteWalker(MINUS, walk_reverse=reverse).rewrite_module(graph.module)
    graph.module.verify()
    assert names(graph) == ["sub", "neg", "sub"]
    first, *_ = ops(graph)
    assert first.node == "sum"
    assert [s.data for s in first.attributes["nn.consumed"]] == ["nn.neg@n", "nn.add@sum"]
    assert not PatternRewriteWalker(MINUS).rewrite_module(graph.module)


def test_they_go_together_with_patterns_of_xdsl() -> None:
    graph = differences()
    both = GreedyRewritePatternApplier([NoNegations(), MINUS])
    PatternRewriteWalker(both).rewrite_module(graph.module)
    graph.module.verify()
    assert names(graph) == ["sub", "add"]


def test_a_listener_hears_of_each_change() -> None:
    seen: list[str] = []
    listener = PatternRewriterListener(
        operation_insertion_handler=[lambda op: seen.append(f"+{op.name}")],
        operation_removal_handler=[lambda op: seen.append(f"-{op.name}")],
    )
    g = GraphBuilder(x=sample(0, 2, 3), y=sample(1, 2, 3))
    graph = g.graph(g.op(nn.AddOp, [g.inputs["x"], g.op(nn.NegOp, [g.inputs["y"]])]))
    PatternRewriteWalker(MINUS, listener=listener).rewrite_module(graph.module)
    assert seen == ["+nn.sub", "-nn.add", "-nn.neg"]


def test_numbers_of_weights_need_the_store() -> None:
    g = GraphBuilder(x=sample(0, 2, 3))
    graph = g.graph(g.op(nn.AddOp, [g.inputs["x"], g.weight(np.array([0.5], np.float32))]))
    assert not PatternRewriteWalker(PLUS_A_HALF).rewrite_module(graph.module)
    known = PLUS_A_HALF.reading(graph.weights)
    assert PatternRewriteWalker(known).rewrite_module(graph.module)
    assert names(graph) == ["weight", "tanh"]


def test_ops_with_a_kernel_stay() -> None:
    graph = differences()
    for each in ops(graph):
        each.pick("host", (), None)
    assert not PatternRewriteWalker(MINUS).rewrite_module(graph.module)


def test_those_of_the_pass_are_such_patterns() -> None:
    assert all(isinstance(pattern, RewritePattern) for pattern in PATTERNS)
    g = GraphBuilder(x=sample(0, 2, 3), w=sample(1, 3, 4), b=sample(2, 4))
    product = g.op(nn.MatmulOp, [g.inputs["x"], g.inputs["w"]], transpose_b=False)
    layer = g.op(nn.AddOp, [product, g.inputs["b"]])
    six, zero = (g.weight(np.array(n, np.float32)) for n in (6, 0))
    graph = g.graph(g.op(nn.MinOp, [g.op(nn.MaxOp, [layer, zero]), six]))
    every = GreedyRewritePatternApplier([p.reading(graph.weights) for p in PATTERNS])
    PatternRewriteWalker(every, walk_reverse=True).rewrite_module(graph.module)
    graph.module.verify()
    assert [name for name in names(graph) if name != "weight"] == ["fc", "clip"]


# ** several roots **

_SIN_COS = Pattern(
    "sin-cos",
    op(nn.OPS["sin"], x),
    lambda m: [m.make(nn.OPS["tanh"], m["x"]).res, m.make(nn.OPS["exp"], m["x"]).res],
    others=(op(nn.OPS["cos"], x),),
)


def _together(m: Match) -> list[SSAValue]:
    """x w and x v^T as halves of one product."""
    v = m.make(nn.TransposeOp, m["v"], perm=(1, 0))
    both = m.make(nn.ConcatOp, m["w"], v.res, axis=1)
    product = m.make(nn.MatmulOp, m["x"], both.res, transpose_b=False)
    rows, n = 2, 4
    parts = (
        m.make(nn.SliceOp, product.res, starts=(0, at), sizes=(rows, n), steps=(1, 1))
        for at in (0, n)
    )
    return [part.res for part in parts]


def _is_transposed(product: nn.MatmulOp) -> bool:
    return product.settings["transpose_b"]


_PRODUCTS = Pattern(
    "together",
    op(nn.MatmulOp, x, AnyValue("w"), where=lambda op: not op.settings["transpose_b"]),
    _together,
    others=(op(nn.AddOp, op(nn.MatmulOp, x, AnyValue("v"), where=_is_transposed), 0.0),),
)


def test_two_roots_with_one_operand() -> None:
    g = GraphBuilder(x=sample(0, 2, 3), y=sample(1, 2, 3))
    a, b = g.inputs["x"], g.inputs["y"]
    values = [g.op(nn.OPS[name], [v]) for v, name in ((a, "cos"), (b, "sin"), (a, "sin"))]
    graph = g.graph(*values)
    PatternRewriteWalker(_SIN_COS).rewrite_module(graph.module)
    graph.module.verify()
    assert names(graph) == ["tanh", "exp", "sin"]


@pytest.mark.parametrize("depends", [False, True])
def test_producers_of_operands_move_before_the_first_root(depends: bool) -> None:
    """They do not move if they depend on a root."""
    g = GraphBuilder(x=sample(0, 2, 3), w=sample(1, 3, 4), v=sample(2, 4, 3))
    first = g.op(nn.MatmulOp, [g.inputs["x"], g.inputs["w"]], transpose_b=False)
    read = g.op(nn.ReluOp, [first])
    v = g.op(nn.NegOp, [g.inputs["v"]])
    if depends:
        v = g.op(nn.AddOp, [v, g.op(nn.ReduceSumOp, [read], axes=(0, 1), keepdims=True)])
    second = g.op(nn.MatmulOp, [g.inputs["x"], v], transpose_b=True)
    zero = g.weight(np.zeros((1,), np.float32))
    graph = g.graph(read, g.op(nn.AddOp, [second, zero]))
    changed = PatternRewriteWalker(_PRODUCTS.reading(graph.weights)).rewrite_module(graph.module)
    graph.module.verify()
    assert changed is not depends
    others = ["relu", "weight"]
    if not depends:
        assert names(graph) == ["neg", "transpose", "concat", "matmul", "slice", "slice", *others]
