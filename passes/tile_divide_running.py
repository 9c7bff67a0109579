"""Divide a long running index into blocks for threads, where there is little else to divide.

    %y = tile.contract + [n: 1 | t: 4096 running] (%x[n, t]) -> [n, t] ..
    ->
    %s = tile.contract + [block: 64, n: 1 | t: 64] (%x[n, 64*block + t]) -> [block, n] ..
    %b = tile.contract + [n: 1 | block: 64 running exclusive] (%s[block, n]) -> [block, n] ..
    %y = tile.contract + [n: 1, block: 64 | t: 64 running] (%x[n, 64*block + t]) post (%b[block, n])
           -> [n, 64*block + t] {..}, {arith.addf}

The blocks, and the bits of results, are the same for any number of threads. A further
statement runs over the values that remain after the last block. An index whose range depends on
symbols is not divided.
"""

from __future__ import annotations

from dataclasses import dataclass

from tessella.dialects.tile import KernelOp
from tessella.passes.kinds import KernelPass
from tessella.passes.tile.running import in_blocks, is_long
from tessella.targets import Target


@dataclass(frozen=True)
class TileDivideRunningPass(KernelPass):
    """Divide long running indices into blocks, for a target."""

    name = "tile-divide-running"
    stages = ("tile",)

    def rewrite(self, kernel: KernelOp, target: Target) -> None:
        for op in kernel.statements:
            if op.schedule is None and not op.at_list and is_long(op, target):
                in_blocks(op)
