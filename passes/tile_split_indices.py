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

from xdsl.context import Context
from xdsl.ir import Operation

from tessella import targets
from tessella.dialects.tile import ContractOp
from tessella.passes.kinds import StatementPass
from tessella.passes.tile.packing import split_statement


@dataclass(frozen=True)
class TileSplitIndicesPass(StatementPass):
    """Make accesses strided: split indices where layouts split dimensions."""

    name = "tile-split-indices"
    stages = ("tile",)

    target: str = "native"

    def rewrite(self, ctx: Context, op: Operation) -> None:
        if isinstance(op, ContractOp) and op.schedule is None:
            target = targets.resolve(self.target)
            split_statement(op, target.arch)
