"""Which loop of a statement, or of a kernel's nest, is divided between threads.

The choice is made for a target and not for a number of threads, so that results do not depend on
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import SSAValue

from tessella.dialects import rt
from tessella.dialects.elements import element_of
from tessella.dialects.tile import ContractOp, KernelOp, Nest, Schedule
from tessella.dialects.tile.flat import Flat, FlatAccess
from tessella.dialects.tile.nest import can_divide, depth, shared_loops
from tessella.dialects.tile.reach import reaches
from tessella.passes.tile.constraints import classify
from tessella.passes.tile.cycles import runs
from tessella.passes.tile.estimates import bytes_in
from tessella.passes.tile.model import CostModel
from tessella.passes.tile.parts import Divided, part_of
from tessella.passes.tile.traffic import NestLoop, loop_nest, overlapped
from tessella.support.sizes import estimated
from tessella.targets import Target

THREADS = (2, 4, 8, 16)
"""The numbers of threads for which a division of a loop should be good, on average."""
WORTH = 2
"""Statements that write to one tensor are divided between threads if they take at least as long as
this number of barriers. An undivided statement needs barriers, too, if its neighbours are
divided."""


def busy(share: rt.Share, threads: int) -> float:
    """Return the average fraction of its time in which a thread computes, if a loop is divided
    among ``threads`` threads, whose shares may be unequal."""
    return share.extent / (threads * share.largest(threads))


@dataclass(frozen=True)
class ThreadSplit:
    """A division of a statement's work between threads along one index. Each thread runs whole
    multiples of ``grain`` values of the index."""

    model: CostModel
    index: str
    grain: int
    time: float
    """Cycles, summed over THREADS."""

    def part(self, value: SSAValue, access: FlatAccess) -> rt.Part:
        """Return which elements of a tensor one thread touches."""
        ranges = self.model.flat.ranges
        return part_of(value, access, Divided(self.index, ranges[self.index], self.grain), ranges)


def best_choices(models: Iterable[tuple[CostModel, Schedule]]) -> Sequence[ThreadSplit]:
    """Return, for statements that run one after the other, how each is divided among threads so
    that all take the least time together.

    Statements without a divisible index are left out.
    """
    best: list[tuple[float, tuple[ThreadSplit, ...]]] = [(0.0, ())]
    for model, schedule in models:
        found = choices(model, schedule)
        best = [_continued(best, choice) for choice in found] or best
    return min(best, key=lambda each: each[0])[1]


def large(ops: Iterable[ContractOp], cycles: Callable[[ContractOp], float], target: Target) -> bool:
    """Return whether statements take long enough to be divided between threads."""
    return sum(map(cycles, ops)) >= least_cycles(target)


def least_cycles(target: Target) -> float:
    """Return the least cycles of statements that are divided between threads."""
    return WORTH * target.barrier_cycles


def choices(model: CostModel, s: Schedule) -> list[ThreadSplit]:
    """Return the ways in which a scheduled statement can be divided between threads."""
    estimate = model.estimate(s)
    loops = (loop for loop in _loops(model, s) if is_divisible(model.op, model.flat, s, loop.name))
    return [
        ThreadSplit(model, loop.name, _grain(model, loop), _time(model, estimate.core, loop))
        for loop in loops
    ]


def _continued(
    before: Iterable[tuple[float, tuple[ThreadSplit, ...]]], choice: ThreadSplit
) -> tuple[float, tuple[ThreadSplit, ...]]:
    """Return the fastest of several sequences of divisions once ``choice`` is appended to each,
    with its time."""
    found = (
        (time + sum(_crossing(last, choice) for last in chosen[-1:]), chosen)
        for time, chosen in before
    )
    time, chosen = min(found, key=lambda each: each[0])
    return time + choice.time, (*chosen, choice)


def _crossing(before: ThreadSplit, after: ThreadSplit) -> float:
    """Return the cycles between two divided statements in which threads wait at a barrier, and read
    the results of other threads from the caches of their cores; summed over the numbers of threads
    in ``THREADS``.

    Such reads are about as fast as reads from memory. The result is 0 if each thread reads only
    elements that it wrote.
    """
    target, value = before.model.target, before.model.op.res
    written, total = before.part(value, before.model.flat.out), 0.0
    for operand, access in zip(after.model.op.tensors, after.model.flat.accesses, strict=True):
        read = after.part(operand, access)
        if operand is value and not written.agrees(read):
            near = read.kind is written.kind is rt.Kind.SHARED and read.period == written.period
            size = 0 if near else bytes_in(value)
            for threads in THREADS:
                others = size / threads * (1 - 1 / threads)
                total += target.barrier_cycles + others / target.memory_bandwidth
    return total


def parallel_nest(
    kernel: KernelOp, cycles: Callable[[ContractOp], float], target: Target
) -> Nest | None:
    """Return the nest of a kernel with one loop, or two adjacent ones, divided between threads:
    those that keep the threads busiest, and the outermost one among equals.

    Returns None if no loop can be divided, or if the kernel is too small. ``cycles`` gives the
    cycles of a statement in one iteration.
    """
    assert kernel.nest is not None
    nest = kernel.nest.data
    inside = (op for op in kernel.statements if depth(op))
    if sum(cycles(op) * runs(op) for op in inside) < least_cycles(target):
        return None
    several = [i for i, loop in enumerate(nest.loops) if estimated(loop.trips) > 1]
    loops = [i for i in several if can_divide(kernel, i)]
    pairs = [(i, i + 1) for i in loops if i + 1 in loops and nest.loops[i].step == 1]
    # ``max`` returns the first of equal ones: one loop rather than two.
    best = max(
        [*((i,) for i in loops), *pairs], key=lambda each: _balance(kernel, each), default=()
    )
    for number in best:
        nest = nest.dividing(number, nest.loops[number].step)
    return nest if best else None


def is_divisible(op: ContractOp, flat: Flat, s: Schedule, name: str) -> bool:
    """Return whether threads can divide the tiles of an index.

    The index must be free and run over its whole range. If it is the index of a register tile's
    rows or lanes, no tile may need boundary checks. Threads divide an index of computed coordinates
    by the values of the coordinates that each of them writes.
    """
    index = next((index for index in flat.indices if index.name == name), None)
    if index is None or index.reduced or name in reaches(op):
        return False
    plain = classify(flat, s).interior(flat, name) == (0, flat.ranges[name])
    return plain or name not in (s.rows, s.vector)


def tile_of(s: Schedule, name: str) -> int:
    """Return the number of values of an index that one iteration of its outermost loop runs."""
    sizes = {s.rows: s.row_tile, s.vector: s.width, **dict(s.blocks)}
    return sizes.get(name, 1)


def _loops(model: CostModel, s: Schedule) -> Iterator[NestLoop]:
    """Yield the outermost loop of each index, outermost first; then, for an indexed write, the
    indices of the result whose coordinates are computed."""
    seen: set[str] = set()
    for loop in loop_nest(model.flat, s):
        if loop.name not in seen and loop.trips > 1:
            yield loop
        seen.add(loop.name)
    ranges = model.flat.ranges
    yield from (
        NestLoop(name, ranges[name], 1) for name in model.flat.scattered if ranges[name] > 1
    )


def _time(model: CostModel, core: float, loop: NestLoop) -> float:
    """Return the cycles of a statement whose loop is divided between threads, summed over the
    numbers of threads in ``THREADS``. Every thread reads all data that does not depend on the
    loop."""
    sizes = [a.size * a.element.size for a, _ in _operands(model)]
    moving = [a.lane_stride(loop.name) or a.stride(loop.name) for a, _ in _operands(model)]
    share, total = rt.Share(model.flat.ranges[loop.name], _grain(model, loop)), 0.0
    shared = model.undivided(loop.name)
    for threads in THREADS:
        memory = sum(
            size / model.target.bandwidth(size) / (threads if moves else 1)
            for size, moves in zip(sizes, moving, strict=True)
        )
        divided = (core - shared) / (threads * busy(share, threads))
        total += overlapped(shared + divided, memory)
    return total


def _operands(model: CostModel) -> Iterator[tuple[FlatAccess[int], SSAValue]]:
    return zip(model.flat.accesses, model.op.tensors, strict=True)


def _balance(kernel: KernelOp, numbers: Sequence[int]) -> float:
    """Return the fraction of time in which threads are busy if one shared loop, or two adjacent
    ones as one, is divided; summed over the numbers of threads in ``THREADS``."""
    assert kernel.nest is not None
    *around, loop = (kernel.nest.data.loops[i] for i in numbers)
    ranges = prod(estimated(each.extent) for each in around)
    extent, mean = estimated(loop.extent), _mean_reach(kernel, numbers[-1])
    total = 0.0
    for threads in THREADS:
        share = busy(rt.Share(ranges * extent, loop.step, ranges), threads)
        # If later iterations run more values, the last thread of a range has more than the mean.
        of_range = max(1.0, threads / ranges)
        total += share * mean / (1 - (1 - mean) / of_range)
    return total


def _mean_reach(kernel: KernelOp, number: int) -> float:
    """Return the average fraction of an inner index's range that an iteration of a shared loop
    runs, if later iterations run more of it, as in a causal product; otherwise 1."""
    return min(
        (
            reach.share(op, name)
            for op in kernel.statements
            if depth(op) > number
            for name, reach in reaches(op).items()
            if reach.last.coefficient(list(shared_loops(op))[number]) > 0
        ),
        default=1.0,
    )


def _grain(model: CostModel, loop: NestLoop) -> int:
    """Return the number of values of a loop's index by which threads divide it: whole tiles that
    cover at least a cache line of the result."""
    size = element_of(model.op.res.type).size
    written = model.flat.out.lane_stride(loop.name) * loop.step * size
    return loop.step * max(1, -(-model.target.cache_line // max(1, written)))
