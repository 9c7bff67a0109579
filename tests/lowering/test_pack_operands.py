"""Packing of weights: what is in memory afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith, builtin, func
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from tessella.dialects.graph import CompileContext
from tessella.dialects.layout import Layout, Piece, pack
from tessella.dialects.nn import Nn, WeightOp
from tessella.dialects.nn.core import shape_of
from tessella.dialects.place import Place, place_of
from tessella.dialects.tile import CallOp, Tile
from tessella.lowering.pack_operands import PackOperandsPass
from tests.native import Array

PANELS = Layout("packed", (Piece(1, div=4), Piece(0), Piece(1, mod=4)))
TURNED = Layout("packed", (Piece(1), Piece(0)))


def kernel(name: str, layout: Layout | None, shape: str = "3x5") -> str:
    place = f", tile.packed = #place.at<x86, f32, {layout}>" if layout else ""
    type = f"tensor<{shape}xf32>"
    return f"""
    tile.kernel @{name}(%w: {type} {{tile.constant{place}}}) -> ({type}) {{
      %r = tile.contract = [i: 3, j: 5] (%w[i, j]) -> [i, j] {{
      ^bb0(%a: f32):
        tile.yield %a : f32
      }} : tensor<{shape}xf32>
      tile.return %r : tensor<{shape}xf32>
    }}"""


def segment(*lines: str) -> str:
    body = "\n".join(lines)
    return f"tile.segment @segment_0() -> () {{\n{body}\ntile.return\n}}"


def call(name: str, value: str) -> str:
    return f"tile.call @{name}({value}) : tensor<3x5xf32>"


def run(*text: str, **weights: Array) -> tuple[ModuleOp, CompileContext]:
    """The module after the pass, and the context with its weights."""
    ctx = CompileContext()
    for dialect in (builtin.Builtin, func.Func, arith.Arith, Nn, Place, Tile):
        ctx.load_dialect(dialect)
    for name, array in weights.items():
        ctx.weights.add(name, array)
    module = Parser(ctx, "\n".join(text)).parse_module()
    PackOperandsPass().apply(ctx, module)
    module.verify()
    return module, ctx


def operands(module: ModuleOp, kind: type[Any] = CallOp) -> list[WeightOp]:
    """The weights that the calls get."""
    owners = [op.operands[0].owner for op in module.walk() if isinstance(op, kind)]
    assert all(isinstance(owner, WeightOp) for owner in owners)
    return [owner for owner in owners if isinstance(owner, WeightOp)]


def symbol(op: WeightOp) -> str:
    return op.symbol.root_reference.data


ARRAY = np.arange(15, dtype=np.float32).reshape(3, 5)


@pytest.mark.parametrize("layout", [PANELS, TURNED])
def test_memory_is_as_the_layout_says(layout: Layout) -> None:
    weight = "%w = nn.weight @w : tensor<3x5xf32>"
    module, ctx = run(kernel("k", layout), segment(weight, call("k", "%w")), w=ARRAY)
    (packed,) = operands(module)
    place = place_of(packed.res.type)
    assert place is not None
    assert place.layout == layout
    np.testing.assert_array_equal(ctx.weights[symbol(packed)], pack(ARRAY, layout))
    assert list(ctx.weights) == [symbol(packed)]


def test_padding_of_a_panel_is_zero() -> None:
    weight = "%w = nn.weight @w : tensor<3x5xf32>"
    module, ctx = run(kernel("k", PANELS), segment(weight, call("k", "%w")), w=ARRAY)
    memory = ctx.weights[symbol(operands(module)[0])].reshape(2, 3, 4)
    np.testing.assert_array_equal(memory[0], ARRAY[:, :4])
    np.testing.assert_array_equal(memory[1], [[4, 0, 0, 0], [9, 0, 0, 0], [14, 0, 0, 0]])


def test_calls_that_want_the_same_share_it() -> None:
    lines = ["%w = nn.weight @w : tensor<3x5xf32>", call("k", "%w"), call("k", "%w")]
    module, ctx = run(kernel("k", PANELS), segment(*lines), w=ARRAY)
    first, second = operands(module)
    assert symbol(first) == symbol(second)
    assert len(ctx.weights) == 1


def test_calls_that_want_something_else_have_their_own() -> None:
    lines = ["%w = nn.weight @w : tensor<3x5xf32>", call("k", "%w"), call("l", "%w")]
    module, ctx = run(kernel("k", PANELS), kernel("l", TURNED), segment(*lines), w=ARRAY)
    first, second = operands(module)
    np.testing.assert_array_equal(ctx.weights[symbol(first)], pack(ARRAY, PANELS))
    np.testing.assert_array_equal(ctx.weights[symbol(second)], pack(ARRAY, TURNED))


def test_weights_that_are_read_as_they_are_stay() -> None:
    lines = ["%w = nn.weight @w : tensor<3x5xf32>", call("k", "%w"), call("l", "%w")]
    module, ctx = run(kernel("k", PANELS), kernel("l", None), segment(*lines), w=ARRAY)
    _, second = operands(module)
    assert symbol(second) == "w"
    np.testing.assert_array_equal(ctx.weights["w"], ARRAY)


def test_a_name_that_is_taken() -> None:
    lines = [
        "%w = nn.weight @w : tensor<3x5xf32>",
        '%v = nn.weight @"w.packed" : tensor<3x5xf32>',
        call("k", "%w"),
        call("l", "%v"),
    ]
    text = kernel("k", PANELS), kernel("l", None), segment(*lines)
    module, ctx = run(*text, w=ARRAY, **{"w.packed": -ARRAY})
    first, second = operands(module)
    np.testing.assert_array_equal(ctx.weights[symbol(first)], pack(ARRAY, PANELS))
    np.testing.assert_array_equal(ctx.weights[symbol(second)], -ARRAY)


def test_a_weight_under_another_shape() -> None:
    lines = [
        "%w = nn.weight @w : tensor<15xf32>",
        "%v = tile.view %w : tensor<15xf32> -> tensor<3x5xf32>",
        call("k", "%v"),
    ]
    module, ctx = run(kernel("k", TURNED), segment(*lines), w=ARRAY.reshape(15))
    (packed,) = operands(module)
    assert shape_of(packed.res) == (3, 5)
    np.testing.assert_array_equal(ctx.weights[symbol(packed)], pack(ARRAY, TURNED))
