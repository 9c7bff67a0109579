"""Adjusting how kernels divide rows between threads, so that no barrier is needed between them.

A kernel assigns whole tiles to threads. If one kernel has tiles of 8 rows and its reader has tiles
of 12, both divide by multiples of 24 rows, so that each thread reads only rows that it has written.
This is not done if the coarser division makes threads wait for longer than a barrier takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm

from xdsl.ir import OpResult

from tessella.dialects.rt import Kind, Part, Share
from tessella.dialects.tile import (
    CallOp,
    KernelOp,
    NestAttr,
    ScheduleAttr,
    SegmentOp,
    through_views,
)
from tessella.passes.tile import parallel
from tessella.passes.tile.parts import joined, roots_of, uses
from tessella.support.decisions import known
from tessella.support.sizes import estimated, expression
from tessella.targets import Target

Edge = tuple[str, Part, str, Part]
"""A kernel that writes a buffer and a kernel that reads it, each followed by how threads divide the
buffer in it."""


def align(
    kernels: Mapping[str, KernelOp],
    segments: Sequence[SegmentOp],
    cycles: Mapping[str, float],
    target: Target,
) -> None:
    """Make a kernel and its readers divide the buffer between them among threads in the same way,
    where that costs less time than a barrier.

    ``cycles`` gives the cycles of each kernel on one thread.
    """
    edges = list(dict.fromkeys(_edges(kernels, segments)))
    pieces = _Pieces(dict.fromkeys(kernels, 1), cycles, target)
    changed = True
    while changed:
        # The loop ends, as factors only grow, and are bounded.
        changed = sum(pieces.agree(edge) for edge in edges) > 0
    for name, factor in pieces.factors.items():
        if factor > 1:
            _scale(kernels[name], factor)


def _edges(kernels: Mapping[str, KernelOp], segments: Sequence[SegmentOp]) -> Iterator[Edge]:
    touched = {name: _parts(kernel) for name, kernel in kernels.items()}
    for segment in segments:
        for op in segment.body.block.ops:
            if not isinstance(op, CallOp):
                continue
            reads = touched[op.callee_name][0]
            for operand, part in zip(op.arguments, reads, strict=True):
                source = through_views(operand)
                if not isinstance(source, OpResult) or not isinstance(source.op, CallOp):
                    continue
                writer = source.op.callee_name
                written = touched[writer][1][source.index]
                if part is not None and written is not None and _could_agree(written, part):
                    yield writer, written, op.callee_name, part


def _could_agree(a: Part, b: Part) -> bool:
    numbers = expression(a.grain) is expression(b.grain) is None
    return a.kind is b.kind is Kind.SHARED and a.period == b.period and numbers


def _parts(kernel: KernelOp) -> tuple[list[Part | None], list[Part | None]]:
    """Return, for each argument and for each result of a kernel, the elements that one thread
    touches; None for tensors that no statement touches."""
    roots = roots_of(kernel)
    found = joined(use for op in kernel.statements for use in uses(op, roots))
    arguments = [found.get(value) for value in kernel.body.block.args]
    return arguments, [found.get(roots[value]) for value in kernel.returned.values]


@dataclass(frozen=True)
class _Pieces:
    """For each kernel, by name, the factor by which the units that it divides among threads are
    enlarged, and its cycles on one thread."""

    factors: dict[str, int]
    cycles: Mapping[str, float]
    target: Target

    def agree(self, edge: Edge) -> bool:
        """Make the two kernels of an edge divide by the common multiple of their units, if that
        costs less than a barrier. Returns whether a factor changed."""
        writer, written, reader, read = edge
        a, b = _scaled(written, self.factors[writer]), _scaled(read, self.factors[reader])
        grains = known(a.grain), known(b.grain)
        common = lcm(*grains)
        both = _scaled(a, common // grains[0]), _scaled(b, common // grains[1])
        if a == b or both[0] != both[1] or common > estimated(a.period):
            return False
        longer = self._longer(writer, a, both[0]) + self._longer(reader, b, both[1])
        if longer > self.target.barrier_cycles:
            return False
        self.factors[writer] *= common // grains[0]
        self.factors[reader] *= common // grains[1]
        return True

    def _longer(self, name: str, now: Part, then: Part) -> float:
        """Return the additional cycles of a kernel if its buffer is divided among threads as in
        ``then`` instead of ``now``, averaged over several numbers of threads."""
        before, after = _estimated(now), _estimated(then)
        more = (after.largest(n) - before.largest(n) for n in parallel.THREADS)
        return self.cycles[name] * sum(more) / before.extent / len(parallel.THREADS)


def _estimated(part: Part) -> Share:
    """Return how threads divide a buffer whose symbolic sizes have their estimated values."""
    return Share(*map(estimated, (part.period, part.grain, part.ranges)))


def _scaled(part: Part, factor: int) -> Part:
    """Return the division of a buffer among threads, with its unit enlarged by a factor."""
    return Part.shared(replace(part.share, grain=part.grain * factor))


def _scale(kernel: KernelOp, factor: int) -> None:
    """Enlarge, by a factor, the unit by which a kernel's loops are divided among threads."""
    if kernel.nest is not None:
        nest = kernel.nest.data
        for number in nest.divided[-1:]:
            grain = nest.loops[number].parallel * factor
            kernel.nest = NestAttr(nest.dividing(number, grain))
    for op in kernel.statements:
        if op.schedule is not None:
            s = op.schedule.data
            if s.parallel is not None:
                name, grain = s.parallel
                op.schedule = ScheduleAttr(replace(s, parallel=(name, grain * factor)))
