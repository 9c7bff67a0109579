"""Forming of fully connected layers, and transpositions that become flags."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from xdsl.ir import SSAValue

import tessella
from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.passes.fuse_patterns import FusePatternsPass
from tests.models import run_onnxruntime
from tests.native import Array
from tests.passes.harness import GraphBuilder, check, names, ops, sample
from tests.passes.patterns import spelling

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

    return check(graph, INPUTS, FusePatternsPass())


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

    assert names(check(make, {"x": x, "w": w, "b": b}, FusePatternsPass())) == ["fc"]


# ** whole models **

X3, FLAT = {"x": sample(0, 2, 5, 8)}, {"x": sample(0, 10, 8)}
LAYER = {
    "w": sample(1, 8, 6), "b": sample(2, 6), "turned": sample(4, 6, 8),
    "columns": abs(sample(6, 8)) + 0.5,
}  # fmt: skip
SPELLINGS: dict[str, tuple[str, list[str], dict[str, Array]]] = {
    "Gemm": ("y = Gemm(x, w, b)", ["fc"], FLAT),
    "Gemm with factors": ("y = Gemm <alpha = 0.5, beta = 2.0> (x, w, b)", ["fc"], FLAT),
    "rows of rows": ("a = MatMul(x, w) y = Add(b, a)", ["fc"], X3),
    "rows in one": (
        "s = Constant <value_ints = [10, 8]> () t = Constant <value_ints = [2, 5, 6]> () "
        "r = Reshape(x, s) a = MatMul(r, w) c = Add(a, b) y = Reshape(c, t)", ["fc"], X3,
    ),
    "bias after the reshape": (
        "s = Constant <value_ints = [10, 8]> () t = Constant <value_ints = [2, 5, 6]> () "
        "r = Reshape(x, s) a = MatMul(r, w) c = Reshape(a, t) y = Add(c, b)", ["fc"], X3,
    ),
    "squeezed": (
        "one = Constant <value_ints = [1]> () r = Unsqueeze(x, one) a = MatMul(r, w) "
        "c = Squeeze(a, one) y = Add(c, b)", ["fc"], FLAT,
    ),
    "a vector": ("a = MatMul(x, w) y = Add(a, b)", ["fc"], {"x": sample(0, 8)}),
    "flattened": ("f = Flatten(x) y = Gemm(f, w, b)", ["fc"], {"x": sample(0, 3, 8, 1, 1)}),
    "without bias": (
        "s = Constant <value_ints = [10, 8]> () t = Constant <value_ints = [2, 5, 6]> () "
        "r = Reshape(x, s) a = MatMul(r, w) y = Reshape(a, t)", ["matmul"], X3,
    ),
    "scaled, then shifted": ("a = MatMul(x, w) c = Mul(a, b) y = Add(c, b)", ["fc"], X3),
    "a scale before the product": (
        "s = Mul(x, 0.25f) t = Div(s, 3.0f) a = MatMul(t, w) y = Add(a, b)", ["fc"], X3,
    ),
    "scaled columns before the product": ("s = Mul(columns, x) y = MatMul(s, w)", ["matmul"], X3),
    "divided columns before a layer": (
        "s = Div(x, columns) a = MatMul(s, w) y = Add(a, b)", ["fc"], X3,
    ),
    "columns scaled before a Gemm": (
        "s = Mul(x, columns) y = Gemm <transB = 1> (s, turned, b)", ["fc"], FLAT,
    ),
    "scales around the product": (
        "s = Mul(x, columns) t = Div(s, 3.0f) u = Div(t, columns) a = MatMul(u, w) c = Mul(a, b) "
        "d = Mul(c, 0.5f) y = Add(d, b)", ["fc"], X3,
    ),
    "with gelu and residual": (
        "a = MatMul(x, w) c = Add(a, b) d = Div(c, 1.4142135f) e = Erf(d) f = Add(e, 1.0f) "
        "g = Mul(c, f) h = Mul(g, 0.5f) y = Add(h, skip)",
        ["fc", "gelu", "add"], X3 | {"skip": sample(3, 2, 5, 6)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_spelling(name: str) -> None:
    body, expected, inputs = SPELLINGS[name]
    used = {key: array for key, array in LAYER.items() if re.search(rf"\b{key}\b", body)}
    model = spelling.check(body, expected, inputs, used)
    assert len(spelling.kernels_of(model)) == 1


@pytest.mark.parametrize("columns, ops", [
    (8, ["matmul", "slice", "slice", "slice", "mul", "add"]),
    (96, ["matmul", "matmul", "matmul", "mul", "add"]),
])  # fmt: skip
def test_products_of_one_operand(columns: int, ops: list[str]) -> None:
    """Products are merged if copying the slices costs less than reading the operand again."""
    weights = {name: sample(i, 512, columns) for i, name in enumerate("uvw")}
    body = "a = MatMul(x, u) b = MatMul(x, v) c = MatMul(x, w) d = Mul(a, b) y = Add(d, c)"
    inputs = {"x": sample(9, 64, 512)}
    proto = spelling.onnx_model(body, inputs, weights)
    placed = tessella.compile(proto, target="avx2").as_text("placed")
    assert spelling.ops_in(placed) == ops
    [found] = tessella.compile(proto).run(None, inputs)
    [wanted] = run_onnxruntime(proto, inputs)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3 * abs(wanted).max())


def test_parts_of_one_product() -> None:
    weights = {name: sample(i, 4, 6) for i, name in enumerate("uvw")}
    weights |= {f"{name}0": sample(i, 6) for i, name in enumerate("uvw", 3)}
    arrays = {"x": sample(9, 5, 4), **weights}

    def make() -> Graph:
        g = GraphBuilder(x=arrays["x"])
        layers = [
            g.op(nn.FcOp, [g.inputs["x"], *(g.weight(arrays[n]) for n in (w, f"{w}0"))],
                 transpose_w=False)
            for w in "uvw"
        ]  # fmt: skip
        return g.graph(*layers)

    graph = check(make, {"x": arrays["x"]}, FusePatternsPass())
    found = [name for name in names(graph) if name not in ("weight", "concat")]
    assert found == ["fc", "slice", "slice", "slice"]


def test_a_product_is_no_bias_of_itself() -> None:
    body = "v = MatMul(x, w) y = Add(v, v)"
    spelling.check(body, ["matmul", "add"], {"x": sample(0, 1, 8)}, LAYER)
