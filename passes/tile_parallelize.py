"""Choose the loops that are divided between threads.

    %r = tile.contract + [m: 128, n: 768 | k: 768] .. schedule
           #tile.schedule<[n, m] reduce [k] vector n 16 by 4 rows m 6>
    ->
    %r = tile.contract + [m: 128, n: 768 | k: 768] .. schedule
           #tile.schedule<[n, m] reduce [k] vector n 16 by 4 rows m 6 parallel n 64>

In a kernel whose statements share loops, a shared loop is divided: `#tile.nest<[4096 by 2 parallel
2]>`. A kernel or a segment that is too small runs on one thread. The schedules do not depend on the
number of threads, and tiles are not divided, so results have the same bits for any number.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import SSAValue

from tessella import targets
from tessella.dialects.tile import (
    CallOp,
    ContractOp,
    KernelOp,
    Nest,
    NestAttr,
    ScanOp,
    ScheduleAttr,
    SegmentOp,
    SelectionOp,
)
from tessella.dialects.tile.nest import depth
from tessella.passes.base import cpu_segments
from tessella.passes.kinds import ProgramPass
from tessella.passes.tile.align import align
from tessella.passes.tile.cycles import kernel_cycles
from tessella.passes.tile.model import modelled
from tessella.passes.tile.parallel import best_choices, large, least_cycles, parallel_nest
from tessella.passes.tile.parts import roots_of
from tessella.passes.tile.selections import selection_cycles
from tessella.support.sizes import estimated
from tessella.targets import Target

WAKES = 2
"""The number of threads whose waking must take no longer than the divisible work of a segment for
the segment to be divided.

With two threads, half of the time of that work is saved.
"""
BRIEF = 10
"""The number of threads whose waking takes longer than a segment that is a short launch.

Waking one thread for this little work saves little, or nothing if the system is slow.
"""


@dataclass(frozen=True)
class TileParallelizePass(ProgramPass):
    """Divide loops between threads, for a target."""

    name = "tile-parallelize"
    stages = ("tile",)

    target: str = "native"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = targets.resolve(self.target)
        kernels = {k.sym_name.data: k for k in op.body.block.ops if isinstance(k, KernelOp)}
        models = _Models(target)
        work = {name: kernel_cycles(k, models.cycles, target) for name, k in kernels.items()}
        runs = {
            s: r for s, r in _runs(op).items() if _cycles(r, work) >= WAKES * target.wake_cycles
        }
        names = dict.fromkeys(name for r in runs.values() for name in r)
        divisions = {name: _division(kernels[name], models) for name in names}
        divided = {name: work[name] for name, division in divisions.items() if division.divides}
        for segment, r in runs.items():
            if _cycles(r, divided) >= WAKES * target.wake_cycles:
                is_brief = _cycles(r, work) < BRIEF * target.wake_cycles
                segment.brief = UnitAttr() if is_brief else None
                for name in r:
                    divisions[name].apply()
        align(kernels, cpu_segments(op), work, target)


def _runs(module: ModuleOp) -> dict[SegmentOp, Counter[str]]:
    """Return the number of times that each outermost segment calls each kernel, calls in its loops
    included."""
    found: dict[str, Counter[str]] = {}
    inside: set[str] = set()
    every = cpu_segments(module)
    for segment in every:
        found[segment.sym_name.data] = runs = Counter[str]()
        for op in segment.body.block.ops:
            if isinstance(op, CallOp):
                runs[op.callee_name] += 1
            elif isinstance(op, ScanOp):
                # The segment that a loop runs precedes this one, so its counts are known.
                inside.add(op.callee_name)
                for name, count in found[op.callee_name].items():
                    runs[name] += estimated(op.usual_steps) * count
    names = {segment: segment.sym_name.data for segment in every}
    return {segment: found[name] for segment, name in names.items() if name not in inside}


def _cycles(runs: Mapping[str, int], work: Mapping[str, float]) -> float:
    """Return the total cycles of kernels, each of which runs as often as ``runs`` says."""
    return sum(work.get(name, 0) * estimated(count) for name, count in runs.items())


class _Models:
    """The cost models of statements. Each is created once."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.of = functools.cache(functools.partial(modelled, target=target))
        self.cycles = functools.cache(self._cycles)

    def _cycles(self, op: ContractOp) -> float:
        """Return the cycles of a statement under its schedule, in one iteration of its kernel's
        nest."""
        return 0.0 if op.schedule is None else self.of(op).estimate(op.schedule.data).cycles


@dataclass(frozen=True)
class _Division:
    """Which loops of a kernel are divided between threads."""

    kernel: KernelOp
    nest: Nest | None
    loops: Mapping[ContractOp, tuple[str, int]]
    """The divided index of each statement outside the nest, and the size of shares."""
    selections: Sequence[SelectionOp]
    """The selections whose rows are divided."""

    @property
    def divides(self) -> bool:
        """True if any loop of the kernel is divided between threads."""
        return self.nest is not None or bool(self.loops) or bool(self.selections)

    def apply(self) -> None:
        """Record the division in the kernel's nest, schedules and selections."""
        if self.nest is not None:
            self.kernel.nest = NestAttr(self.nest)
        for op, parallel in self.loops.items():
            assert op.schedule is not None
            op.schedule = ScheduleAttr(replace(op.schedule.data, parallel=parallel))
        for selection in self.selections:
            selection.divide(1)


def _division(kernel: KernelOp, models: _Models) -> _Division:
    nest = None
    if kernel.nest is not None:
        nest = parallel_nest(kernel, models.cycles, models.target)
    roots, written = roots_of(kernel), defaultdict[SSAValue, list[ContractOp]](list)
    outside = [(op, op.schedule) for op in kernel.statements if not depth(op)]
    for op, _ in outside:
        written[roots[op.res]].append(op)
    enough = [
        (models.of(op), s.data)
        for op, s in outside
        if s is not None and large(written[roots[op.res]], models.cycles, models.target)
    ]
    found = best_choices(enough)
    loops = {choice.model.op: (choice.index, choice.grain) for choice in found}
    least = least_cycles(models.target)
    selections = [
        op for op in kernel.selections if estimated(op.units) > 1 and selection_cycles(op) >= least
    ]
    return _Division(kernel, nest, loops, selections)
