"""Inference of shapes in modules as one would edit their text."""

from __future__ import annotations

import re

import pytest
from xdsl.context import Context
from xdsl.dialects import builtin, func
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from tessella.dialects.nn import Nn
from tessella.dialects.place import Place
from tessella.passes.infer_shapes import InferShapesPass
from tessella.support.errors import ShapeError
from tests.passes.harness import GraphBuilder, apply, sample


def infer(text: str) -> ModuleOp:
    """The module after the pass, verified."""
    ctx = Context()
    for dialect in (builtin.Builtin, func.Func, Nn, Place):
        ctx.load_dialect(dialect)
    module = Parser(ctx, text).parse_module()
    InferShapesPass().apply(ctx, module)
    module.verify()
    return module


def program(batch: str, between: str = "?") -> str:
    return f"""
    func.func @main(%x: tensor<{batch}x8xf32>)
        -> (tensor<{between}x4xf32>, tensor<{between}x2xi64>) {{
      %w = nn.weight @w : tensor<8x4xf32>
      %1 = nn.matmul %x, %w {{node = "product"}} : tensor<{between}x4xf32>
      %2, %3 = nn.topk %1 k 2 : tensor<{between}x2xf32>, tensor<{between}x2xi64>
      func.return %1, %3 : tensor<{between}x4xf32>, tensor<{between}x2xi64>
    }}"""


def test_results_follow_the_arguments() -> None:
    assert str(infer(program("16"))) == str(infer(program("16", "16")))


def test_a_changed_argument() -> None:
    text = program("1", "1").replace("%x: tensor<1x8xf32>", "%x: tensor<5x8xf32>")
    assert str(infer(text)) == str(infer(program("5", "5")))


def test_groups_and_places() -> None:
    place = "#place.at<x86, f32, nhwc>"
    text = f"""
    func.func @main(%x: tensor<2x3xf32, {place}>) -> tensor<?x?xf32, {place}> {{
      %1 = nn.fused(%a = %x) {{
        %2 = nn.relu %a : tensor<?x?xf32, {place}>
        nn.yield %2 : tensor<?x?xf32, {place}>
      }} : tensor<?x?xf32, {place}>
      func.return %1 : tensor<?x?xf32, {place}>
    }}"""
    assert str(infer(text)) == str(infer(text.replace("?x?", "2x3")))


def test_what_was_right_stays() -> None:
    g = GraphBuilder(x=sample(0, 2, 3))
    graph = g.graph(g.inputs["x"])
    before = str(graph.module)
    assert str(apply(graph, InferShapesPass()).module) == before


@pytest.mark.parametrize(
    "text, message",
    [
        (
            program("16").replace("x8xf32", "x9xf32"),
            "nn.matmul (product): the inner sizes differ\n"
            "  expected: as many columns of a as rows of b\n  found: 9 and 8: 16x9 x 8x4",
        ),
        (
            program("?"),
            "the shape of argument 0 of @main is not known\n"
            "  expected: a size in each dimension\n  found: tensor<?x8xf32>",
        ),
    ],
)
def test_errors_name_the_op(text: str, message: str) -> None:
    with pytest.raises(ShapeError, match=f"^{re.escape(message)}$"):
        infer(text)
