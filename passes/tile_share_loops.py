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

from tessella.dialects.tile import KernelOp
from tessella.passes.kinds import KernelPass
from tessella.passes.tile.nest import share_loops
from tessella.targets import Target


@dataclass(frozen=True)
class TileShareLoopsPass(KernelPass):
    """Choose the loops that the statements of a kernel share, and their steps, for a target.

    A kernel whose statements have schedules stays as it is.
    """

    name = "tile-share-loops"
    stages = ("tile",)

    def rewrite(self, kernel: KernelOp, target: Target) -> None:
        if all(op.schedule is None for op in kernel.statements):
            share_loops(kernel, target)
