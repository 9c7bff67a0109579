"""Assign a schedule to every statement, and to kernels the operand layouts that the schedules
require.

    %r = tile.contract + [m: 128, n: 384 | k: 384] (%A[m, k], %B[k, n]) -> [m, n] ...
    ->
    %r = tile.contract + [..] (%A[m, k], %B[k, n]) -> [m, n] schedule
           #tile.schedule<[n, m] reduce [k] vector n 16 by 4 rows m 6> ...

and the argument ``%B`` the attribute ``tile.packed = #place.at<.., packed<[1 floordiv 64, 0, 1 mod
64]>>``. ``pack-operands`` then packs what the callers pass, and gives the argument that type.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from tessella.dialects.place import PlaceAttr
from tessella.dialects.tile import ContractOp, KernelOp, Schedule, ScheduleAttr
from tessella.dialects.tile.merge import merge_indices
from tessella.passes.kinds import KernelPass
from tessella.passes.tile.log import reasoning
from tessella.passes.tile.packing import set_places
from tessella.passes.tile.search import best_schedule
from tessella.passes.tile.selections import schedule_selection
from tessella.targets import Target


@dataclass(frozen=True)
class TileSchedulePass(KernelPass):
    """Choose vector index, register tile, packing and loop order for a target.

    ``shared`` packs constants as programs for other sizes do, so that the programs can share them.
    ``log`` writes the reasoning to stderr.
    """

    name = "tile-schedule"
    stages = ("tile",)

    shared: bool = False
    log: bool = False

    def rewrite(self, kernel: KernelOp, target: Target) -> None:
        for op in kernel.statements:
            if op.schedule is None:
                self._schedule(op, kernel, target)
        for selection in kernel.selections:
            schedule_selection(selection, target)

    def _schedule(self, op: ContractOp, kernel: KernelOp, target: Target) -> None:
        if self.log:
            sys.stderr.writelines(f"{line}\n" for line in reasoning(op, kernel, target))
        choice = best_schedule(op, kernel, target, shared=self.shared)
        set_schedule(op, choice.schedule, choice.places, target.arch)


def set_schedule(
    op: ContractOp, schedule: Schedule, places: Mapping[int, PlaceAttr], arch: str
) -> None:
    """Assign a schedule to a statement of a kernel, with the operand places that it requires.

    In the layouts of these places, more indices of the statement may merge.
    """
    if places:
        set_places(op, places, arch)
        merge_indices(op)
    op.schedule = ScheduleAttr(schedule)
