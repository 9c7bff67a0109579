"""Statements that run the blocks which the statements before them count."""

from __future__ import annotations

from xdsl.parser import Parser

from tessella.dialects.tile import ContractOp
from tessella.driver.stages.stage_file import stage_context
from tessella.passes.tile.merge import take_blocks

KERNEL = """
tile.kernel @k(%x: tensor<8x4xf32>) -> (tensor<8x4xf32>) {
  %t = tile.contract = [b: 2, i: 4, j: 4] (%x[4*b + i, j]) -> [4*b + i, j] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8x4xf32>
  %r = tile.contract = [y: 8, y_in: 4] (%t[y, y_in]) -> [y, y_in] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<8x4xf32>
  tile.return %r : tensor<8x4xf32>
}
"""


def test_an_index_inside_a_block_has_a_new_name() -> None:
    module = Parser(stage_context(), KERNEL).parse_module()
    *_, last = (op for op in module.walk() if isinstance(op, ContractOp))
    take_blocks(last)
    module.verify()
    assert dict(last.ranges) == {"y": 2, "y_in1": 4, "y_in": 4}
