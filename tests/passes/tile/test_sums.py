"""Statements that share a loop through tensors."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser

from tessella.dialects.tile import KernelOp, Nest, NestAttr, SharedLoop
from tessella.driver.stages.stage_file import stage_context
from tessella.passes.tile.sums import in_blocks, streams

KERNEL = """
tile.kernel @k(%x: tensor<64xf32>) -> (tensor<f32>) {{
  %y = tile.contract = [i: 64] (%x[i]) -> [i] {{
  ^bb0(%a: f32):
    tile.yield %a : f32
  }} : tensor<64xf32>
  %z = tile.contract + [i: 64 | w: 3] (%y[{read}]) -> [i] {{
  ^bb0(%a: f32):
    tile.yield %a : f32
  }} : tensor<64xf32>
  %s = tile.contract + [| i: 64] (%z[i], %y[i]) -> [] {{
  ^bb0(%a: f32, %b: f32):
    %p = arith.mulf %a, %b : f32
    tile.yield %p : f32
  }} : tensor<f32>
  tile.return %s : tensor<f32>
}}
"""


@pytest.mark.parametrize(
    "read, expected", [("i", [["y", "z", "s"]]), ("i + w - 1", []), ("63 - i", [])]
)
def test_a_step_reads_only_what_it_has_written(read: str, expected: list[list[str]]) -> None:
    """Other steps write the neighbours that a window looks at, and what is read backwards."""
    module = Parser(stage_context(), KERNEL.format(read=read)).parse_module()
    (kernel,) = (op for op in module.body.block.ops if isinstance(op, KernelOp))
    found = [[op.res.name_hint for op in each.inside] for each in streams(kernel)]
    assert found == expected


SQUARE = """
tile.kernel @k(%x: tensor<64x64xf32>) -> (tensor<f32>) {{
  %y = tile.contract = [i: 64, j: 64] (%x[i, j]) -> [i, j] {{
  ^bb0(%a: f32):
    tile.yield %a : f32
  }} : tensor<64x64xf32>
  %s = tile.contract + [| i: 64] (%y[i, {column}]) -> [] {{
  ^bb0(%a: f32):
    tile.yield %a : f32
  }} : tensor<f32>
  tile.return %s : tensor<f32>
}}
"""


@pytest.mark.parametrize("column, expected", [("3", [["y", "s"]]), ("i", []), ("63 - i", [])])
def test_a_step_reads_the_same_columns_of_each_row(column: str, expected: list[list[str]]) -> None:
    module = Parser(stage_context(), SQUARE.format(column=column)).parse_module()
    (kernel,) = (op for op in module.body.block.ops if isinstance(op, KernelOp))
    found = [[op.res.name_hint for op in each.inside] for each in streams(kernel)]
    assert found == expected


OVERWRITTEN = """
tile.kernel @k(%x: tensor<8x8xf32>, %w: tensor<64xf32>) -> (tensor<f32>, tensor<64xf32>) {
  %r = tile.contract = [a: 8, b: 8] (%x[a, b]) -> [8*a + b] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<64xf32>
  %s = tile.contract + [| i: 64] (%r[i], %w[i]) -> [] {
  ^bb0(%v: f32, %u: f32):
    %p = arith.mulf %v, %u : f32
    tile.yield %p : f32
  } : tensor<f32>
  %t = tile.contract = [a: 8] (%x[a, a]) init %r -> [a] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<64xf32>
  tile.return %s, %t : tensor<f32>, tensor<64xf32>
}
"""


def test_what_steps_read_is_written_over_after_the_loop() -> None:
    module = Parser(stage_context(), OVERWRITTEN).parse_module()
    module.verify()
    (kernel,) = (op for op in module.body.block.ops if isinstance(op, KernelOp))
    (stream,) = streams(kernel, 1)
    in_blocks(kernel, stream, 16)
    kernel.nest = NestAttr(Nest((SharedLoop(64, 16),)))
    module.verify()
    assert [op.res.name_hint for op in kernel.statements] == ["r", None, "s", "t"]
