"""Choose the loops that are divided between threads.

    %r = tile.contract + [m: 128, n: 768 | k: 768] .. schedule
           #tile.schedule<[n, m] reduce [k] vector n 16 by 4 rows m 6>
    ->
    %r = tile.contract + [m: 128, n: 768 | k: 768] .. schedule
           #tile.schedule<[n, m] reduce [k] vector n 16 by 4 rows m 6 parallel n 64>

A kernel whose statements share loops divides one of these: `#tile.nest<[4096 by 2 parallel 2]>`. A
kernel or a segment that is too small stays with one thread. The schedules do not know how many
threads there will be, and tiles stay whole, so results have the same bits for any number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from tessella import targets
from tessella.dialects.tile import (
    CallOp,
    KernelOp,
    NestAttr,
    ScanOp,
    ScheduleAttr,
)
from tessella.dialects.tile.nest import depth
from tessella.passes.base import segments
from tessella.passes.kinds import ProgramPass
from tessella.passes.tile.align import align
from tessella.passes.tile.cost import kernel_cycles
from tessella.passes.tile.parallel import modelled, parallel_index, parallel_nest, step_cycles
from tessella.targets import Target

WAKES = 2
"""A segment is divided if it takes as long as it takes to wake so many threads: with two threads it
saves half of its time."""


@dataclass(frozen=True)
class TileParallelizePass(ProgramPass):
    """Divide loops between threads, for a target."""

    name = "tile-parallelize"

    target: str = "native"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = targets.resolve(self.target)
        kernels = {k.sym_name.data: k for k in op.body.block.ops if isinstance(k, KernelOp)}
        work = {
            name: kernel_cycles(kernel, lambda op: step_cycles(op, target), target)
            for name, kernel in kernels.items()
        }
        for runs in _runs(op):
            if _worth(runs, work, target):
                for name in runs:
                    _parallelize(kernels[name], target)
        align(kernels, segments(op))


def _runs(module: ModuleOp) -> list[Counter[str]]:
    """How often each segment that no loop runs calls each kernel, in loops too."""
    found: dict[str, Counter[str]] = {}
    inside: set[str] = set()
    for segment in segments(module):
        found[segment.sym_name.data] = runs = Counter[str]()
        for op in segment.body.block.ops:
            if isinstance(op, CallOp):
                runs[op.callee_name] += 1
            elif isinstance(op, ScanOp):
                # what a loop runs stands above
                inside.add(op.callee_name)
                for name, count in found[op.callee_name].items():
                    runs[name] += op.steps * count
    return [runs for name, runs in found.items() if name not in inside]


def _worth(runs: Mapping[str, int], work: Mapping[str, float], target: Target) -> bool:
    """Whether a segment saves more time than it takes to wake a thread."""
    return sum(work[name] * count for name, count in runs.items()) >= WAKES * target.wake_cycles


def _parallelize(kernel: KernelOp, target: Target) -> None:
    if kernel.nest is not None and (nest := parallel_nest(kernel, target)) is not None:
        kernel.nest = NestAttr(nest)
    for op in kernel.statements:
        if op.schedule is not None and not depth(op):
            parallel = parallel_index(modelled(op, target), op.schedule.data)
            op.schedule = ScheduleAttr(replace(op.schedule.data, parallel=parallel))
