"""Give every statement its schedule, and kernels the operand layouts that the schedules want.

    %r = tile.contract + [m: 128, n: 384 | k: 384] (%A[m, k], %B[k, n]) -> [m, n] ...
    ->
    %r = tile.contract + [..] (%A[m, k], %B[k, n]) -> [m, n] schedule
           #tile.schedule<[n, m] reduce [k] vector n 16 by 4 rows m 6> ...

and the argument ``%B`` gets the layout ``packed<[1 floordiv 64, 0, 1 mod 64]>``. ``tile-pack``
makes the callers agree.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from tessella import targets
from tessella.dialects.layout import Layout
from tessella.dialects.nn.core import tensor_type
from tessella.dialects.place import PlaceAttr, place_of, placed, precision_of
from tessella.dialects.tile import ContractOp, KernelOp, ScheduleAttr
from tessella.passes.tile.choose import choose
from tessella.passes.tile.log import reasoning


@dataclass(frozen=True)
class TileSchedulePass(ModulePass):
    """Choose vector index, register tile, packing and loop order for a target.

    ``log`` writes the reasoning to stderr.
    """

    name = "tile-schedule"

    target: str = "host"
    log: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = targets.host() if self.target == "host" else targets.get(self.target)
        for kernel in op.body.block.ops:
            if not isinstance(kernel, KernelOp):
                continue
            for statement in kernel.body.block.ops:
                if isinstance(statement, ContractOp) and statement.schedule is None:
                    if self.log:
                        lines = reasoning(statement, kernel, target)
                        sys.stderr.writelines(f"{line}\n" for line in lines)
                    choice = choose(statement, kernel, target)
                    statement.schedule = ScheduleAttr(choice.schedule)
                    for operand, layout in choice.layouts.items():
                        _set_layout(statement.inputs[operand], layout, target.arch)
            kernel.update_type()


def _set_layout(value: SSAValue, layout: Layout, arch: str) -> None:
    type = tensor_type(value)
    place = place_of(type)
    at = place.target.data if place is not None else arch
    new = PlaceAttr.get(at, precision_of(type.element_type), layout)
    Rewriter.replace_value_with_new_type(value, placed(type, new))
