"""Share loops between the statements of a kernel: intermediate results then stay in cache.

    tile.kernel @softmax(%x: tensor<4096x1024xf32>) -> (tensor<4096x1024xf32>) {
      %m = tile.contract > [i: 4096 | j: 1024] (%x[i, j]) -> [i] ..
      %e = tile.contract = [i: 4096, j: 1024] (%x[i, j], %m[i]) -> [i, j] ..
    ->
    tile.kernel @softmax(%x: ..) -> (..) attributes {nest = #tile.nest<[4096 by 2]>} {
      %m = tile.contract > [i: 4096 | j: 1024] (%x[i, j]) -> [i] at [i] ..
      %e = tile.contract = [i: 4096, j: 1024] (%x[i, j], %m[i]) -> [i, j] at [i] ..

A tensor that only statements of the kernel read then has the size of one step.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.ir import Operation

from tessella import targets
from tessella.dialects.tile import KernelOp
from tessella.dialects.tile.check_nest import check_nest
from tessella.passes.kinds import StatementPass
from tessella.passes.tile.nest import share_loops


@dataclass(frozen=True)
class TileShareLoopsPass(StatementPass):
    """Choose the loops that the statements of a kernel share, and their steps, for a target. That
    steps read what they write themselves is checked in every compilation."""

    name = "tile-share-loops"
    stages = ("tile",)

    target: str = "native"

    def rewrite(self, ctx: Context, op: Operation) -> None:
        if isinstance(op, KernelOp):
            share_loops(op, targets.resolve(self.target))
            check_nest(op, op.nest)
