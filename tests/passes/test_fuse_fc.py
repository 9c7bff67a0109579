"""Forming of fully connected layers, and transpositions that become flags."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.passes.fuse_fc import FuseFcPass
from tests.passes.harness import GraphBuilder, check, names, ops, sample

INPUTS = {
    "x": sample(0, 5, 4), "x3": sample(1, 2, 5, 4), "w": sample(2, 4, 6), "wt": sample(3, 6, 4),
    "y": sample(4, 2, 4, 6), "yt": sample(5, 2, 6, 4), "b": sample(6, 6), "c": sample(7, 1, 6),
    "rows": sample(8, 5, 1), "all": sample(9, 5, 6), "one": sample(10, 1),
    "deep": sample(11, 2, 5, 6),
}  # fmt: skip

Make = Callable[[GraphBuilder], Sequence[SSAValue]]


def fuse(make: Make) -> Graph:
    """The fused program; asserts that it computes the same."""

    def graph() -> Graph:
        g = GraphBuilder(**INPUTS)
        return g.graph(*make(g))

    return check(graph, INPUTS, FuseFcPass())


def product(g: GraphBuilder, a: str, b: str, *, transpose_b: bool = False) -> SSAValue:
    return g.op(nn.MatmulOp, [g.inputs[a], g.inputs[b]], transpose_b=transpose_b, node="product")


@pytest.mark.parametrize("x", ["x", "x3"])
@pytest.mark.parametrize("w, transpose_b", [("w", False), ("wt", True)])
@pytest.mark.parametrize("bias", ["b", "c"])
@pytest.mark.parametrize("swapped", [False, True])
def test_bias(x: str, w: str, transpose_b: bool, bias: str, swapped: bool) -> None:
    def make(g: GraphBuilder) -> list[SSAValue]:
        operands = [product(g, x, w, transpose_b=transpose_b), g.inputs[bias]]
        return [g.op(nn.AddOp, operands[::-1] if swapped else operands)]

    graph = fuse(make)
    assert names(graph) == (["fc"] if bias == "b" else ["reshape", "fc"])
    assert ops(graph)[-1].settings == {"transpose_w": transpose_b}
    assert ops(graph)[-1].node == "product"


def test_splat_bias() -> None:
    def make(g: GraphBuilder) -> list[SSAValue]:
        whole = product(g, "x", "w")
        splat = nn.SplatOp(0.7, whole.type)  # pyright: ignore[reportArgumentType]
        g.main.body.block.add_op(splat)
        return [g.op(nn.AddOp, [splat.res, whole])]

    assert names(fuse(make)) == ["splat", "splat", "fc"]


@pytest.mark.parametrize("bias", ["rows", "all", "one", "deep"])
def test_other_sums(bias: str) -> None:
    graph = fuse(lambda g: [g.op(nn.AddOp, [product(g, "x", "w"), g.inputs[bias]])])
    assert names(graph) == ["matmul", "add"]


def test_batches_of_matrices_are_no_layer() -> None:
    graph = fuse(lambda g: [g.op(nn.AddOp, [product(g, "x3", "y"), g.inputs["b"]])])
    assert names(graph) == ["matmul", "add"]


def test_products_that_others_read_stay() -> None:
    def make(g: GraphBuilder) -> list[SSAValue]:
        value = product(g, "x", "w")
        return [g.op(nn.AddOp, [value, g.inputs["b"]]), value]

    assert names(fuse(make)) == ["matmul", "add"]


def test_other_arithmetic_stays() -> None:
    graph = fuse(lambda g: [g.op(nn.SubOp, [product(g, "x", "w"), g.inputs["b"]])])
    assert names(graph) == ["matmul", "sub"]


@pytest.mark.parametrize(
    "x, y, perm, transpose_b",
    [
        ("x", "wt", (1, 0), False),
        ("x", "w", (1, 0), True),
        ("x3", "yt", (0, 2, 1), False),
        ("x3", "y", (0, 2, 1), True),
    ],
)
def test_transposed_operand(x: str, y: str, perm: tuple[int, ...], transpose_b: bool) -> None:
    def make(g: GraphBuilder) -> list[SSAValue]:
        turned = g.op(nn.TransposeOp, [g.inputs[y]], perm=perm)
        operands = [g.inputs[x], turned]
        return [g.op(nn.MatmulOp, operands, transpose_b=transpose_b) for _ in range(2)]

    graph = fuse(make)
    assert names(graph) == ["matmul", "matmul"]
    assert [op.settings["transpose_b"] for op in ops(graph)] == [not transpose_b] * 2


def test_transposed_weight_of_a_layer() -> None:
    def make(g: GraphBuilder) -> list[SSAValue]:
        turned = g.op(nn.TransposeOp, [g.inputs["wt"]], perm=(1, 0))
        layer = g.op(nn.FcOp, [g.inputs["x"], turned, g.inputs["b"]], transpose_w=False)
        whole = g.op(nn.MatmulOp, [g.inputs["x3"], turned], transpose_b=False)
        return [layer, g.op(nn.AddOp, [whole, g.inputs["b"]])]

    graph = fuse(make)
    assert names(graph) == ["fc", "fc"]
    assert [op.settings["transpose_w"] for op in ops(graph)] == [True, True]


def test_other_permutations_stay() -> None:
    def make(g: GraphBuilder) -> list[SSAValue]:
        front = g.op(nn.TransposeOp, [g.inputs["deep"]], perm=(1, 0, 2))
        return [g.op(nn.MatmulOp, [front, front], transpose_b=True)]

    assert names(fuse(make)) == ["transpose", "matmul"]


def test_transpositions_that_others_read_stay() -> None:
    def make(g: GraphBuilder) -> list[SSAValue]:
        turned = g.op(nn.TransposeOp, [g.inputs["wt"]], perm=(1, 0))
        left = g.op(nn.TransposeOp, [g.inputs["w"]], perm=(1, 0))
        return [
            g.op(nn.MatmulOp, [g.inputs["x"], turned], transpose_b=False),
            g.op(nn.NegOp, [turned]),
            g.op(nn.MatmulOp, [left, g.inputs["wt"]], transpose_b=True),
        ]

    assert names(fuse(make)) == ["transpose", "transpose", "matmul", "neg", "matmul"]


def test_integers() -> None:
    x, w, b = (np.array(v) for v in ([[1, 2]], [[3], [4]], [5]))

    def make() -> Graph:
        g = GraphBuilder(x=x, w=w, b=b)
        value = g.op(nn.MatmulOp, [g.inputs["x"], g.inputs["w"]], transpose_b=False)
        return g.graph(g.op(nn.AddOp, [value, g.inputs["b"]]))

    assert names(check(make, {"x": x, "w": w, "b": b}, FuseFcPass())) == ["fc"]
