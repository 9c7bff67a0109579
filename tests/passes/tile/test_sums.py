"""Which statements go through tensors together."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser

from tessella.dialects.tile import KernelOp
from tessella.driver.stage_file import stage_context
from tessella.passes.tile.sums import streams

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
