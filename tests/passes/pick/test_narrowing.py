"""Ops of f32 that run at a place of bf16 if a kernel of f32 serves it as well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tessella.dialects import nn
from tessella.dialects.elements import attribute_of
from tessella.dialects.graph import CompileContext, Graph, main_function
from tessella.dialects.interpret import interpret
from tessella.dialects.nn.constants import ConstantOp
from tessella.dialects.nn.core import NnOp
from tessella.dialects.nn.elementwise import OPS as ELEMENTWISE
from tessella.passes.fuse_elementwise import FuseElementwisePass
from tessella.passes.move_casts import MoveCastsPass
from tessella.passes.pick.narrowing import keeps_range, narrowed, narrowing_of
from tests.passes.harness import GraphBuilder, ops, sample
from tests.passes.pick.programs import pick

BOTH = ("x86/bf16", "x86/f32")
PLACES = ("x86/f32", "x86/bf16")
"""The same, where f32 wins if both take as long."""
POOL: dict[str, Any] = {
    "kernel_shape": (2, 2),
    "strides": (2, 2),
    "pads": (0,) * 4,
    "dilations": (1, 1),
    "ceil_mode": False,
}
PRODUCT: dict[str, Any] = {"transpose_b": False}
WINDOW: dict[str, Any] = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1), "groups": 1}


def network() -> Graph:
    """An input that is scaled, two convolutions with what may lie between them, and a tail."""
    g = GraphBuilder(x=sample(0, 1, 8, 8, 8))
    scaled = g.op(nn.MulOp, [g.inputs["x"], g.weight(sample(1, 1))])
    first = g.op(nn.ConvOp, [scaled, g.weight(sample(2, 16, 8, 3, 3))], **WINDOW)
    pooled = g.op(nn.MaxPoolOp, [g.op(nn.ReluOp, [first])], **POOL)
    second = g.op(nn.ConvOp, [pooled, g.weight(sample(3, 16, 16, 3, 3))], **WINDOW)
    means = g.op(nn.ReduceMeanOp, [g.op(nn.ReluOp, [second])], axes=(2, 3), keepdims=False)
    scores = g.op(nn.MatmulOp, [means, g.weight(sample(4, 16, 5))], **PRODUCT)
    return g.graph(g.op(nn.SoftmaxOp, [g.op(nn.TanhOp, [scores])], axis=1))


def precisions(picked: list[NnOp]) -> list[tuple[str, str]]:
    """Each op with the precision of its first operand."""
    found = ((op.name.removeprefix("nn."), op.places) for op in picked)
    return [(name, places[0].precision.data) for name, places in found if places is not None]


def test_products_are_narrowed_and_what_lies_between_them() -> None:
    assert precisions(pick(network(), *BOTH, strategy="grade")) == [
        ("mul", "f32"),
        ("conv", "bf16"),
        ("relu", "bf16"),
        ("max_pool", "bf16"),
        ("conv", "bf16"),
        ("relu", "f32"),
        ("reduce_mean", "f32"),
        ("matmul", "bf16"),
        ("tanh", "f32"),
        ("softmax", "f32"),
    ]


@pytest.mark.parametrize(
    "places, found",
    [
        (("x86/f16/nhwc", "x86/f32/nhwc"), "f16"),
        (("x86/f16", "x86"), "f16"),
        (("x86/bf16/nhwc", "x86/f16/nhwc", "x86/f32/nhwc"), "bf16"),
        (("x86/f32/nhwc", "x86/f16/nhwc"), "f32"),
        (("x86", "x86/f16"), "f32"),
    ],
)
def test_a_smaller_range_is_taken_if_it_is_listed_first(
    places: tuple[str, ...], found: str
) -> None:
    picked = dict(precisions(pick(network(), *places, strategy="grade")))
    assert {picked[name] for name in ("conv", "max_pool", "matmul")} == {found}
    assert {picked[name] for name in ("mul", "reduce_mean", "softmax", "tanh")} == {"f32"}


def reasons(graph: Graph) -> dict[str, str | None]:
    """Why each op is not narrowed."""
    rule = narrowing_of(main_function(graph.module))
    found = (op for op in ops(graph) if not isinstance(op, ConstantOp))
    return {op.name.removeprefix("nn."): rule.why_wide(op) for op in found}


def test_each_op_has_a_reason() -> None:
    found = reasons(network())
    assert found["conv"] is found["matmul"] is found["max_pool"] is None
    assert found["mul"] == "it reads an input, which keeps its digits"
    assert found["tanh"] == "no product follows it"
    assert found["softmax"] == found["reduce_mean"]
    assert found["softmax"] == "only products, and what carries values between them, are narrowed"


def test_what_no_product_comes_before_stays() -> None:
    g = GraphBuilder(x=sample(0, 4, 8), i=np.array([0, 2]))
    rows = g.op(nn.GatherOp, [g.weight(sample(1, 9, 8)), g.inputs["i"]], axis=0)
    graph = g.graph(
        g.op(nn.MatmulOp, [g.op(nn.ExpOp, [rows]), g.weight(sample(2, 8, 3), "v")], **PRODUCT)
    )
    assert {reasons(graph)[name] for name in ("gather", "exp")} == {"no product comes before it"}


def test_a_comparison_hands_on_no_floats() -> None:
    g = GraphBuilder(x=sample(0, 4, 8))
    product = g.op(nn.MatmulOp, [g.inputs["x"], g.weight(sample(1, 8, 8))], **PRODUCT)
    one = g.op(nn.CastOp, [g.op(nn.LessOp, [product, product])], to=attribute_of("f32"))
    graph = g.graph(g.op(nn.MatmulOp, [one, g.weight(sample(2, 8, 3), "v")], **PRODUCT))
    only = "only products, and what carries values between them, are narrowed"
    assert reasons(graph) == {"matmul": None, "less": only, "cast": only}


def test_scales_of_integers_keep_their_digits() -> None:
    g = GraphBuilder(x=sample(0, 4, 8), q=np.zeros((4, 8), np.int8))
    product = g.op(nn.MatmulOp, [g.inputs["x"], g.weight(sample(1, 8, 8))], **PRODUCT)
    scale, zero = g.weight(np.full(1, 0.1, np.float32), "s"), g.weight(np.zeros(1, np.int8), "z")
    wide = g.op(ELEMENTWISE["dequantize"], [g.inputs["q"], scale, zero])
    total = g.op(nn.AddOp, [product, wide])
    graph = g.graph(g.op(nn.MatmulOp, [total, g.weight(sample(2, 8, 3), "v")], **PRODUCT))
    found = reasons(graph)
    assert found["add"] is None
    assert (
        found["dequantize"] == "only products, and what carries values between them, are narrowed"
    )


def test_the_rule_is_the_same_once_groups_are_formed() -> None:
    """`explain` therefore gives the reasons that the pick had."""
    graph = network()
    rule = narrowing_of(main_function(graph.module))
    before = [rule.why_wide(op) for op in ops(graph) if not isinstance(op, ConstantOp)]
    picked = pick(graph, *BOTH, strategy="grade")
    for step in (MoveCastsPass(), FuseElementwisePass()):
        step.apply(CompileContext(graph.weights), graph.module)
    later = narrowing_of(main_function(graph.module))
    assert [later.why_wide(op) for op in picked] == before


def test_costs_decide_what_is_narrowed() -> None:
    """Half as many weights take half the time from memory; without an instruction that multiplies
    bf16, products of many rows take longer."""

    def product(rows: int) -> list[NnOp]:
        g = GraphBuilder(x=sample(0, rows, 512))
        weights = g.weight(sample(1, 512, 2048))
        return pick(g.graph(g.op(nn.MatmulOp, [g.inputs["x"], weights], **PRODUCT)), *PLACES)

    def layers() -> list[NnOp]:
        g = GraphBuilder(x=sample(0, 256, 512))
        y = g.inputs["x"]
        for seed in range(3):
            y = g.op(nn.MatmulOp, [y, g.weight(sample(seed, 512, 512))], **PRODUCT)
            y = g.op(nn.ReluOp, [y])
        return pick(g.graph(y), *BOTH)

    assert {precision for _, precision in precisions(layers())} == {"f32"}
    assert precisions(product(1)) == [("matmul", "bf16")]
    assert precisions(product(256)) == [("matmul", "f32")]


@pytest.mark.parametrize(
    "precision, floats, is_narrowed, ranged",
    [
        ("bf16", ["f32"], True, True),
        ("f16", ["f32"], True, False),
        ("bf16", ["f64"], False, False),
        ("bf16", ["f16"], False, False),
        ("f32", ["f64"], False, False),
        ("bf16", ["f32", "f64"], False, False),
    ],
)
def test_elements_are_narrowed_to_storage_of_their_own_arithmetic(
    precision: str, floats: list[str], is_narrowed: bool, ranged: bool
) -> None:
    assert narrowed(precision, floats) == is_narrowed
    assert keeps_range(precision, floats) == ranged


def test_doubles_are_not_narrowed_by_the_order() -> None:
    g = GraphBuilder(x=sample(0, 4, 8).astype(np.float64))
    w = g.weight(sample(1, 8, 3).astype(np.float64))
    graph = g.graph(g.op(nn.MatmulOp, [g.inputs["x"], w], **PRODUCT))
    assert precisions(pick(graph, "x86/f16", "x86/f32", "x86")) == [("matmul", "f64")]


def test_the_place_of_bf16_alone_takes_all_ops() -> None:
    assert {precision for _, precision in precisions(pick(network(), "x86/bf16"))} == {"bf16"}


def test_the_casts_join_the_ops_beside_them() -> None:
    graph = network()
    x = sample(0, 1, 8, 8, 8)
    [exact] = interpret(graph, {"x": x})
    pick(graph, *BOTH, strategy="grade")
    for step in (MoveCastsPass(), FuseElementwisePass()):
        step.apply(CompileContext(graph.weights), graph.module)
        graph.module.verify()
    text = str(graph.module)
    assert (
        text.count("nn.conversion") == 4
    )  # after the scaling, a convolution, the means, a product
    assert "place.cast" not in text
    [found] = interpret(graph, {"x": x})
    np.testing.assert_allclose(found, exact, atol=0.02)
