"""The traffic of a statement between cache levels, under a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tessella.dialects.tile import ContractOp, Schedule
from tessella.dialects.tile.flat import Flat, FlatAccess
from tessella.targets import Target

# `python -m bench.constants traffic` prints the ablations below, for the kernels of those in
# `passes/tile/model.py`.

HIDDEN = 0.9
"""The fraction of the shorter of computing and loading that hides behind the longer one.

The same fraction of the cycles of other cache levels hides behind the slowest one. Ablation on
avx512: at 1, 94 of 500 kernels get other schedules, which take 1.0% more cycles on average and 5.9%
at most.
"""
CACHE_SHARE = 0.75
"""The fraction of a cache that a statement can use.

Ablation on avx512: at 1, 39 of 500 kernels get other schedules, which take 2.5% more cycles on
average and 26% at most.
"""


def room(capacity: int) -> float:
    """Return the bytes of a cache that a statement can use."""
    return capacity * CACHE_SHARE


def overlapped(*cycles: float) -> float:
    """Return the total cycles of overlapping activities: the longest one, plus a part of the
    others."""
    longest = max(cycles, default=0.0)
    return longest + (1.0 - HIDDEN) * (sum(cycles) - longest)


@dataclass(frozen=True)
class NestLoop:
    """A loop of a schedule: its index, its number of iterations, and the number of index values
    that an iteration runs."""

    name: str
    trips: int
    step: int


def loop_nest(flat: Flat[int], s: Schedule) -> list[NestLoop]:
    """Return the loops that a schedule runs for one statement, outermost first. The loops inside a
    register tile are not included."""
    extents = dict(flat.ranges)
    loops: list[NestLoop] = []
    for name, size in s.blocks:
        loops.append(NestLoop(name, -(-extents[name] // size), size))
        extents[name] = size
    steps = {s.rows: s.row_tile, s.vector: s.width}
    for name in (*s.order, *s.reduction):
        step = steps.get(name, s.group(name))
        loops.append(NestLoop(name, -(-extents[name] // step), step))
    return loops


@dataclass(frozen=True)
class Traffic:
    """A statement's traffic between the caches. The sizes of ``flat`` are numbers."""

    op: ContractOp
    flat: Flat[int]
    target: Target

    def cycles(self, s: Schedule) -> dict[str, float]:
        """Return the cycles of the traffic from each cache level."""
        loops = loop_nest(self.flat, s)
        prints = self._footprints(s, loops)
        return {
            level: self._moved(loops, prints, room(capacity), written) / bandwidth
            for level, capacity, bandwidth, written in self._levels
        }

    @cached_property
    def least(self) -> float:
        """The cycles to load each operand once, and to write the result, through every cache that
        cannot hold all of them."""
        sizes = [self._bytes(i, self.flat.ranges) for i in range(len(self.flat.accesses))]
        levels = (
            sum(sizes[:-1], written * sizes[-1]) / bandwidth
            for _, capacity, bandwidth, written in self._levels
            if sum(sizes) > room(capacity)
        )
        return overlapped(*levels)

    @cached_property
    def _levels(self) -> tuple[tuple[str, int, float, int], ...]:
        """The sources of data, each as (name, bytes of the cache that it fills, its bytes per
        cycle, number of times that it transfers a written byte).

        Beyond the second level, a written line is first read, and later written back.
        """
        t = self.target
        return (
            ("L2", t.l1, t.l2_bandwidth, 1),
            ("L3", t.l2, t.l3_bandwidth, 2),
            ("memory", t.l3, t.memory_bandwidth, 2),
        )

    def _footprints(self, s: Schedule, loops: Sequence[NestLoop]) -> list[list[float]]:
        """Return a list that gives, for each loop and for the register tile inside all loops, the
        bytes that one run of it touches of each operand."""
        extents = dict.fromkeys(self.flat.ranges, 1)
        if s.rows is not None:
            extents[s.rows] = s.row_tile
        if s.vector is not None:
            extents[s.vector] = s.width
        if s.dot is not None:
            extents[s.dot.index] = s.group(s.dot.index)
        result = [[self._bytes(i, extents) for i in range(len(self._moving))]]
        for loop in reversed(loops):
            extents[loop.name] = min(self.flat.ranges[loop.name], loop.trips * loop.step)
            inside = zip(self._moving, result[-1], strict=True)
            result.append(
                [
                    self._bytes(i, extents) if loop.name in moving else size
                    for i, (moving, size) in enumerate(inside)
                ]
            )
        return result[::-1]

    def _bytes(self, operand: int, extents: Mapping[str, int]) -> float:
        """Return the bytes of the cache lines that an operand occupies if each index runs over
        ``extents`` values.

        An element that several positions of a window share counts once.
        """
        run, elements, span = 1, 1, 1
        unit, count, lies_apart = 1, 1, True
        for name, step, room, contiguous, even in self._steps[operand]:
            extent = extents[name]
            if extent == 1:
                continue
            span += step * ((max(room, extent)) - 1)  # called for each loop
            if even and step <= unit * count and step % unit == 0:
                count += step // unit * (extent - 1)
            else:
                elements, run = elements * count, run if lies_apart else run * count
                unit, count, lies_apart = step, extent, True
            lies_apart = lies_apart and not contiguous
        elements, run = elements * count, run if lies_apart else run * count
        size = self.sizes[operand]
        line = self.target.cache_line // size
        whole = elements / run * (-(-run // line) * line)
        return float(min(whole, max(span, line), self.flat.accesses[operand].size)) * size

    @cached_property
    def _steps(self) -> list[list[tuple[str, int, int, bool, bool]]]:
        """Return, for each operand, how each index moves it, the shortest distances first.

        An entry is (index, distance in elements between neighbouring values of the index,
        contiguous elements, whether neighbours are contiguous, whether all distances are equal).
        """
        return [
            sorted([(n, *_step(a, n)) for n in moving], key=lambda step: (step[1], step[0]))
            for a, moving in zip(self.flat.accesses, self._moving, strict=True)
        ]

    @cached_property
    def _moving(self) -> list[frozenset[str]]:
        """For each operand, the indices that its address depends on."""
        return [frozenset({*a.strides, *a.lanes}) for a in self.flat.accesses]

    @cached_property
    def sizes(self) -> list[int]:
        """Bytes of an element of each operand."""
        return [a.element.size for a in self.flat.accesses]

    def _moved(
        self,
        loops: Sequence[NestLoop],
        prints: Sequence[Sequence[float]],
        capacity: float,
        written: int,
    ) -> float:
        """Return the bytes that the loops move into a cache of this capacity; 0 if the cache holds
        all operands, which then stay there.

        Written bytes count ``written`` times.
        """
        inside = next((p for p, each in enumerate(prints) if sum(each) <= capacity), len(loops))
        if inside == 0:
            return 0.0
        # The loop ``first`` is the innermost one whose data does not fit. It passes over its data
        # once, whether its iterations share the data or not.
        first = inside - 1
        total = 0.0
        for i, a in enumerate(self.flat.accesses):
            moving = self._moving[i]
            trips, reused = 1, loops[first].name not in moving
            for loop in reversed(loops[:first]):
                reused = reused and loop.name not in moving
                if not reused:
                    trips *= loop.trips
            count = written if a is self.flat.out else 1
            total += count * trips * prints[first][i]
        return total


def _step(a: FlatAccess[int], name: str) -> tuple[int, int, bool, bool]:
    lane = abs(a.lane_stride(name))
    return max(lane, abs(a.stride(name))), a.room.get(name, 0), lane == 1, name not in a.lanes
