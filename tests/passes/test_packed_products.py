"""Products with matrices of small integers: what they become, and that they compute the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.elements import element_of
from tessella.dialects.graph import Graph
from tessella.dialects.nn.core import shape_of
from tessella.passes.fold_constants import FoldConstantsPass
from tessella.passes.packed_products import PackedProductsPass
from tessella.runtime.elements import DTYPES
from tests.native import Array
from tests.passes.harness import GraphBuilder, check, names, ops, sample

Make = Callable[[GraphBuilder], SSAValue]


def integers(element: str, *shape: int) -> Array:
    bits = int(element[1:])
    codes = np.random.default_rng(shape).integers(0, 1 << bits, shape).astype(np.uint8)
    return codes.view(DTYPES[element])


def scales(*shape: int) -> Array:
    return np.random.default_rng(shape).uniform(0.1, 0.2, shape).astype(np.float32)


def rewrite(make: Make, x: Array, target: str = "avx2") -> Graph:
    def graph() -> Graph:
        g = GraphBuilder(x=x)
        return g.graph(make(g))

    passes = PackedProductsPass(target), FoldConstantsPass()
    return check(graph, {"x": x}, *passes, rtol=1e-4, atol=1e-4)


def matrix(
    g: GraphBuilder, w: Array, scale: Array, zero: Array, shape: tuple[int, int]
) -> SSAValue:
    wide = g.op(nn.DequantizeOp, [g.weight(w), g.weight(scale, "s"), g.weight(zero, "z")])
    return wide if w.shape == shape else g.op(nn.ReshapeOp, [wide], shape=shape)


def packed(graph: Graph) -> nn.PackedMatmulOp:
    (found,) = (op for op in ops(graph) if isinstance(op, nn.PackedMatmulOp))
    return found


def same(number: int, element: str, *shape: int) -> Array:
    return np.full(shape, number, np.uint8).view(DTYPES[element])


@pytest.mark.parametrize("element, zero", [("i4", 0), ("u4", 8), ("u2", 2), ("i8", 0), ("u8", 128)])
@pytest.mark.parametrize("turned", [False, True])
def test_blocks(element: str, zero: int, turned: bool) -> None:
    shape, parts, whole = (
        ((5, 2, 32), (5, 2, 1), (5, 64)) if turned else ((2, 32, 5), (2, 1, 5), (64, 5))
    )

    def make(g: GraphBuilder) -> SSAValue:
        zeros = same(zero, element, *parts)
        w = matrix(g, integers(element, *shape), scales(*parts), zeros, whole)
        return g.op(nn.MatmulOp, [g.inputs["x"], w], transpose_b=turned)

    graph = rewrite(make, sample(0, 3, 64))
    assert names(graph)[-1] == "packed_matmul"
    assert shape_of(packed(graph).scale) == (5, 2)


@pytest.mark.parametrize("element", ["i4", "u4"])
def test_zero_points_are_a_product_of_sums(element: str) -> None:
    def make(g: GraphBuilder) -> SSAValue:
        zeros = integers(element, 5, 2, 1)
        w = matrix(g, integers(element, 5, 2, 32), scales(5, 2, 1), zeros, (5, 64))
        return g.op(nn.MatmulOp, [g.inputs["x"], w], transpose_b=True)

    graph = rewrite(make, sample(0, 3, 64))
    assert [n for n in names(graph) if n not in ("weight", "splat")] == [
        "packed_matmul",
        "reshape",
        "reduce_sum",
        "matmul",
        "sub",
    ]


@pytest.mark.parametrize("rows", [64, 75])
def test_a_scale_for_each_column(rows: int) -> None:
    def make(g: GraphBuilder) -> SSAValue:
        w = matrix(g, integers("i4", rows, 5), scales(5), same(0, "i4", 5), (rows, 5))
        return g.op(nn.FcOp, [g.inputs["x"], w, g.weight(sample(1, 5), "b")], transpose_w=False)

    graph = rewrite(make, sample(0, 3, rows))
    assert "packed_matmul" in names(graph)


@pytest.mark.parametrize(
    "target, element, group",
    [
        ("avx2", "i16", 2),
        ("avx512+avx512vnni", "i16", 2),
        ("neon+dotprod", "i8", 4),
    ],
)
def test_quantized_activations(target: str, element: str, group: int) -> None:
    def make(g: GraphBuilder) -> SSAValue:
        w = matrix(g, integers("u4", 5, 2, 32), scales(5, 2, 1), same(8, "u4", 5, 2, 1), (5, 64))
        steps, zero = g.weight(scales(3, 2, 1), "t"), g.weight(np.zeros((), np.int8), "n")
        wide = g.op(nn.DequantizeOp, [g.inputs["x"], steps, zero])
        x = g.op(nn.ReshapeOp, [wide], shape=(3, 64))
        return g.op(nn.MatmulOp, [x, w], transpose_b=True)

    x = np.random.default_rng(0).integers(-128, 128, (3, 2, 32)).astype(np.int8)
    found = packed(rewrite(make, x, target))
    assert found.steps is not None
    assert element_of(found.w.type).name == element
    assert shape_of(found.w)[-1] == group


@pytest.mark.parametrize("case", ["computed", "bytes", "other blocks"])
def test_near_misses(case: str) -> None:
    def make(g: GraphBuilder) -> SSAValue:
        if case == "bytes":  # without blocks, they fold to floats
            w = matrix(g, integers("i8", 64, 5), scales(5), same(0, "i8", 5), (64, 5))
            return g.op(nn.MatmulOp, [g.inputs["x"], w], transpose_b=False)
        if case == "computed":
            scale = g.op(nn.ReshapeOp, [g.inputs["x"]], shape=(3, 64))
            one = g.op(nn.SliceOp, [scale], starts=(0, 0), sizes=(1, 5), steps=(1, 1))
            operands = [g.weight(integers("i4", 64, 5)), one, g.weight(same(0, "i4", 5), "z")]
            w = g.op(nn.DequantizeOp, operands)
            return g.op(nn.MatmulOp, [g.inputs["x"], w], transpose_b=False)
        # blocks along the columns
        w = matrix(g, integers("i4", 64, 2, 3), scales(64, 2, 1), same(0, "i4", 64, 2, 1), (64, 6))
        return g.op(nn.MatmulOp, [g.inputs["x"], w], transpose_b=False)

    assert "packed_matmul" not in names(rewrite(make, sample(0, 3, 64)))
