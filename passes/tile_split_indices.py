"""Split the indices of statements where layouts split dimensions into digits.

    %y = tile.contract + [.., o: 64, .. | c: 32, ..] (%x[n, c, ..], %w[o, c, ..]) -> [n, o, ..]
    ->
    %y = tile.contract + [.., o_16: 4, o_1: 16, .. | c_16: 2, c_1: 16, ..]
           (%x[n, 16*c_16 + c_1, ..], %w[16*o_16 + o_1, 16*c_16 + c_1, ..]) -> ...

Constants get the digits as well: `packed<[0 floordiv 16, 1 floordiv 16, 1 mod 16, 0 mod 16]>`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.ir import Operation

from tessella import targets
from tessella.dialects.tile import ContractOp, KernelOp
from tessella.dialects.tile.flat import layout_of
from tessella.dialects.tile.split import constant_layouts, split_indices
from tessella.passes.kinds import StatementPass
from tessella.passes.tile.packing import argument_of
from tessella.passes.tile_schedule import set_layouts


@dataclass(frozen=True)
class TileSplitIndicesPass(StatementPass):
    """Bring statements to strided accesses: split indices where layouts split dimensions."""

    name = "tile-split-indices"

    target: str = "host"

    def rewrite(self, ctx: Context, op: Operation) -> None:
        if isinstance(op, ContractOp) and op.schedule is None:
            target = targets.resolve(self.target)
            split_statement(op, target.arch)


def split_statement(op: ContractOp, arch: str) -> None:
    """Split the indices of a statement, and give its constants the same digits."""
    set_layouts(op, constant_layouts(op, _plain_constants(op)), arch)
    split_indices(op)


def _plain_constants(op: ContractOp) -> list[int]:
    """The inputs that are constants of the kernel in a plain order, and read here alone."""
    kernel = op.parent_op()
    assert isinstance(kernel, KernelOp)
    found: list[int] = []
    for i, value in enumerate(op.inputs):
        argument = argument_of(op, kernel, i)
        plain = not layout_of(value).splits(len(op.input_accesses[i]))
        if argument is not None and plain and kernel.is_constant(argument.index):
            found.append(i)
    return found
