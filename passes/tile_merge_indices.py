"""Merge the indices of statements that traverse all tensors as one.

    %y = tile.contract + [n: 1, o: 64, y: 56, x: 56 | c: 32] (%x[n, c, y, x], %w[o, c]) ->
           [n, o, y, x]
    ->
    %y = tile.contract + [o: 64, y_x(y: 56, x: 56) | c: 32] (%x[0, c, y, x], %w[o, c]) ->
           [0, o, y, x]

A statement then has one loop for each of its indices, and each tensor one stride along it.
Schedules name these indices.
"""

from __future__ import annotations

from dataclasses import dataclass

from tessella.dialects.tile import KernelOp
from tessella.dialects.tile.merge import merge_indices
from tessella.passes.kinds import KernelPass
from tessella.targets import Target


@dataclass(frozen=True)
class TileMergeIndicesPass(KernelPass):
    """Merge indices that traverse all tensors as one index would, and drop indices of one value.
    Loops become longer and fewer."""

    name = "tile-merge-indices"
    stages = ("tile",)

    def rewrite(self, kernel: KernelOp, target: Target) -> None:
        for op in kernel.statements:
            if op.schedule is None:
                merge_indices(op)
