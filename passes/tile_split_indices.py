"""Split the indices of statements where layouts split dimensions into digits.

    %y = tile.contract + [.., o: 64, .. | c: 32, ..] (%x[n, c, ..], %w[o, c, ..]) -> [n, o, ..]
    ->
    %y = tile.contract + [.., o_16: 4, o_1: 16, .. | c_16: 2, c_1: 16, ..]
           (%x[n, 16*c_16 + c_1, ..], %w[16*o_16 + o_1, 16*c_16 + c_1, ..]) -> ...

Constants get a layout with the same digits (`tile.packed`): `packed<[0 floordiv 16, 1 floordiv 16,
1 mod 16, 0 mod 16]>`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tessella.dialects.tile import KernelOp
from tessella.passes.kinds import KernelPass
from tessella.passes.tile.packing import split_statement
from tessella.targets import Target


@dataclass(frozen=True)
class TileSplitIndicesPass(KernelPass):
    """Make accesses strided: split indices where layouts split dimensions."""

    name = "tile-split-indices"
    stages = ("tile",)

    def rewrite(self, kernel: KernelOp, target: Target) -> None:
        for op in kernel.statements:
            if op.schedule is None:
                split_statement(op, target.arch)
