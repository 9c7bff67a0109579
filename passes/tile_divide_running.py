"""Divide a long running index into blocks, which threads can share, where there is little else.

    %y = tile.contract + [n: 1 | t: 4096 running] (%x[n, t]) -> [n, t] ..
    ->
    %s = tile.contract + [block: 64, n: 1 | t: 64] (%x[n, 64*block + t]) -> [block, n] ..
    %b = tile.contract + [n: 1 | block: 64 running exclusive] (%s[block, n]) -> [block, n] ..
    %y = tile.contract + [n: 1, block: 64 | t: 64 running] (%x[n, 64*block + t]) post (%b[block, n])
           -> [n, 64*block + t] {..}, {arith.addf}

The blocks are the same for any number of threads, and so are the bits of results. What is left
after the last block is a statement of its own. An index whose range depends on symbols stays whole.
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
