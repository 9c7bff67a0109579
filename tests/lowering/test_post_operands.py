"""Operands that are read after an aggregation, and may lie outside of their tensor."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.parser import Parser

from tessella import targets
from tessella.dialects.graph import CompileContext
from tessella.dialects.interpret import Interpreter
from tessella.dialects.tile import KernelOp
from tessella.driver.stages.stage_file import stage_context
from tessella.passes.tile_schedule import TileSchedulePass
from tessella.runtime.weights import WeightStore
from tests.lowering.segments import Lowered
from tests.native import RUNNABLE, normal

TEXT = """
tile.kernel @k(%x: tensor<6x40xf32>, %y: tensor<4xf32>) -> (tensor<6x40xf32>) {
  %e = tile.contract = [m: 6, n: 40] (%x[m, n]) -> [m, n] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  } : tensor<6x40xf32>
  %r = tile.contract + [m: 6, n: 40] (%x[m, n]) post (%y[m - 1]) init %e -> [m, n] {
  ^bb0(%v: f32):
    tile.yield %v : f32
  }, {
  ^bb0(%s: f32, %v: f32):
    %p = arith.mulf %s, %v : f32
    tile.yield %p : f32
  } : tensor<6x40xf32>
  tile.return %r : tensor<6x40xf32>
}
tile.segment @s(%x: tensor<6x40xf32>, %y: tensor<4xf32>) -> (tensor<6x40xf32>) {
  %r = tile.call @k(%x, %y) : tensor<6x40xf32>
  tile.return %r : tensor<6x40xf32>
}
"""


@pytest.mark.parametrize("target", RUNNABLE)
def test_rows_beyond_a_post_operand_stay(target: str) -> None:
    """The interpreter and native code agree with NumPy."""
    x, y = normal(6, 40), normal(4)
    wanted = x.copy()
    wanted[1:5] *= y[:, None]
    module = Parser(stage_context(), TEXT).parse_module()
    module.verify()
    (kernel,) = (op for op in module.body.block.ops if isinstance(op, KernelOp))
    (meant,) = Interpreter(WeightStore()).block(kernel.body.block, [x, y])
    np.testing.assert_array_equal(meant, wanted)
    TileSchedulePass(target).apply(CompileContext(), module)
    (found,) = Lowered(module, targets.get(target)).run({}, [x, y], 1, np.array)
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)
