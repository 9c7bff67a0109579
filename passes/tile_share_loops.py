"""Share loops between the statements of a kernel: intermediate results then stay in cache.

    tile.kernel @softmax(%x: tensor<4096x1024xf32>) -> (tensor<4096x1024xf32>) {
      %m = tile.contract > [i: 4096 | j: 1024] (%x[i, j]) -> [i] ..
      %e = tile.contract = [i: 4096, j: 1024] (%x[i, j], %m[i]) -> [i, j] ..
    ->
    tile.kernel @softmax(%x: ..) -> (..) attributes {nest = #tile.nest<[4096 by 2]>} {
      %m = tile.contract > [i: 4096 | j: 1024] (%x[i, j]) -> [i] at [i] in a step of i: 2 ..
      %e = tile.contract = [i: 4096, j: 1024] (%x[i, j], %m[i]) -> [i, j] at [i] ..

A tensor that only statements of the same iteration read has storage for the elements of one
iteration (`in a step`), which later iterations overwrite.
"""

from __future__ import annotations

from dataclasses import dataclass

from tessella.dialects.tile import KernelOp
from tessella.dialects.tile.check_nest import check_nest
from tessella.passes.kinds import KernelPass
from tessella.passes.tile.nest import share_loops
from tessella.targets import Target


@dataclass(frozen=True)
class TileShareLoopsPass(KernelPass):
    """Choose the loops that the statements of a kernel share, and the number of index values in an
    iteration, for a target.

    A kernel with a scheduled statement is left unchanged. If a kernel has a nest, the pass only
    chooses where results are stored, unless a statement has a storage. It then checks that the
    iterations of the nest are valid.
    """

    name = "tile-share-loops"
    stages = ("tile",)

    def rewrite(self, kernel: KernelOp, target: Target) -> None:
        if all(op.schedule is None for op in kernel.statements):
            share_loops(kernel, target)
            check_nest(kernel, kernel.nest)
