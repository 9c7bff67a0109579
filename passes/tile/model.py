"""The cost model of a statement on a CPU: the cycles of a schedule, by cause.

For a register tile of ``rows x vectors``, a point of the reduction takes the longest of

- its arithmetic over the FMA ports,
- its loads over the load ports,
- the latency of one accumulation, as every accumulator waits for its last value,

plus a little for each load and for the loop, which unrolled points share. A register tile has a
cost to begin and to store. In parallel, each level of cache delivers the lines that do not stay in
the level before it, at its bandwidth. Levels overlap only in part, as the core and memory do: the
longest counts in full, the others in part. The model never saturates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tessella.dialects.elements import element_of
from tessella.dialects.tile import (
    ContractOp,
    Dot,
    Schedule,
)
from tessella.dialects.tile.flat import Flat, FlatAccess, flatten
from tessella.dialects.tile.limits import usual
from tessella.dialects.tile.summed import SummedProduct
from tessella.passes.tile.blocks import decoding_ops, sums_blocks
from tessella.passes.tile.body_ops import block_ops
from tessella.passes.tile.conversions import (
    FREE,
    ConversionCost,
    conversion,
    converting_ops,
    widening_shuffles,
)
from tessella.passes.tile.plan import Access, AccessPlan, OperandPlan, plan_accesses
from tessella.passes.tile.scatter_cycles import place_cycles, scatter_cycles
from tessella.passes.tile.tiles import overlaps, parts
from tessella.passes.tile.traffic import Traffic, overlapped
from tessella.support.sizes import estimated, round_up
from tessella.targets import Target

# Ablations: a constant is set to 0, and the schedules of 500 kernels on avx512 are chosen without
# it. The costs of the changed schedules are those of the model with the constant. `python -m
# bench.constants model` prints them, for other values and targets too.

LOOP_CYCLES = 0.5
"""Cycles of an iteration of the innermost loop beyond the arithmetic, which hides most of its
overhead.

Ablation on avx512: at 0, 98 of 500 kernels get other schedules, which take 1.3% more cycles on
average and 2.5% at most.
"""
LOAD_CYCLES = 0.1
"""Cycles of a load beyond its use of a port: operands come from the second cache level as often as
from the first.

Ablation on avx512: at 0, 122 of 500 kernels get other schedules, which take 1.1% more cycles on
average and 4.4% at most.
"""
PANEL_WAYS = 2
"""Ways of a first-level cache set that other operands occupy.

Ablation on avx512: at 0, 2 of 500 kernels get other schedules, which take 13.5% more cycles on
average and 20.4% at most.
"""
CONFLICT_CYCLES = 0.25
"""Cycles of a load whose line was evicted, as more rows share a cache set than it has ways.

This occurs for rows that are a multiple of 4 KiB apart. Ablation on avx512: at 0, 3 of 500 kernels
get other schedules, which take 13.9% more cycles on average and 20.4% at most.
"""
MASK_CYCLES = 0.5
"""Cycles of comparing the lanes with a bound; loops hoist most comparisons.

Ablation on avx512: at 0, 2 of 500 kernels get other schedules, which take 9.3% more cycles on
average and 13.8% at most.
"""
EXTRACT_OPS = 2.0
"""Operations to load an element into a lane."""
PLACE_OPS = 2.0
"""Operations to move an element's position from a lane to an address."""
HELD_WEIGHTS = 9
"""The number of points of a window whose weights stay in registers: that of a 3x3 window.

Ablation on avx512: if the weights of all points stay, 15 of 500 kernels get other schedules, which
take 51% more cycles on average and 148% at most. Depthwise convolutions of 5x5 and 7x7 then run out
of registers.
"""


@dataclass(frozen=True)
class Estimate:
    """The modelled cycles of one statement under a schedule, by cause."""

    arithmetic: float
    loads: float
    latency: float
    """Cycles of waiting for accumulators. Arithmetic, loads and latency overlap, and the longest
    counts; each is summed over all register tiles."""
    core: float
    """Cycles without cache traffic: the longest of arithmetic, loads and latency in each register
    tile, plus the overhead of loops, register tiles and stores."""
    traffic: Mapping[str, float]
    """Cycles that each cache level takes to deliver its data, by level."""
    registers: int
    """Vector registers that are live across the innermost loop."""

    @property
    def memory(self) -> float:
        return overlapped(*self.traffic.values())

    @property
    def cycles(self) -> float:
        return overlapped(self.core, self.memory)


@dataclass(frozen=True)
class CostModel:
    """Estimates the cycles of schedules for one statement.

    ``flat`` is the statement with accesses as offsets and strides in memory. Its sizes are numbers,
    in place of symbolic ones the numbers that costs are estimated for.
    """

    op: ContractOp
    flat: Flat[int]
    target: Target
    product: SummedProduct | None
    """The product that the statement sums."""

    @cached_property
    def traffic(self) -> Traffic:
        """The statement's traffic between the caches."""
        return Traffic(self.op, self.flat, self.target)

    @cached_property
    def is_map(self) -> bool:
        return self.op.is_map

    def estimate(self, s: Schedule) -> Estimate:
        """Return the modelled cycles of the whole statement under a schedule."""
        if self.op.is_scatter:
            return self._scattering(s)
        return replace(self.computing(s), traffic=self.traffic.cycles(s))

    def _scattering(self, s: Schedule) -> Estimate:
        """Return the modelled cycles of an indexed write."""
        found = scatter_cycles(self.op, self.flat, self.target, s)
        traffic = {"memory": found.memory}
        return Estimate(found.computing, 0.0, found.waiting, found.core, traffic, 0)

    def undivided(self, name: str) -> float:
        """Return the cycles of the work that every thread repeats if threads divide the index
        ``name`` of a statement.

        If the index is a dimension of an indexed write's result, every thread computes the
        coordinates of all points. For other indices, threads repeat no work.
        """
        if name not in self.flat.scattered:
            return 0.0
        return place_cycles(self.op, self.flat)

    def computing(self, s: Schedule) -> Estimate:
        """Return the estimate of a schedule without its cache traffic, which takes half the time of
        ``estimate`` to compute."""
        arithmetic = loads = latency = core = 0.0
        by_lanes, running = self.plan(s).sums_lanes, self.flat.running in s.reduction
        points = math.prod(self.trips(s, n) for n in s.reduction if n != s.vector)
        outer = math.prod(self.flat.ranges[n] for n in s.order if n not in (s.vector, s.rows))
        masks = self._mask_cycles(s)
        each_point = self.page_cycles(s) + LOOP_CYCLES / s.unroll
        for rows, vectors, tiles in self._tiles(s, outer):
            count = tiles * points
            work, load = self._work(s, rows, vectors), self._loads(s, rows, vectors)
            wait = self._wait * (vectors if self.plan(s).runs_over_lanes else 1)
            arithmetic, loads = arithmetic + count * work, loads + count * load
            latency += count * wait
            core += count * (
                max(work, load, wait)
                + vectors * masks
                + each_point
                + self._conflict_cycles(s, rows)
                + LOAD_CYCLES * load * self.target.load_ports
            )
            if running:
                core += count * rows * vectors * self._stored_each
            elif not by_lanes:
                core += tiles * (self._finish(s, rows, vectors) + self._merges(s, rows, vectors))
        if by_lanes:
            core += outer * self._sum_lanes(s)
        if running:
            core += outer * self._begin
        return Estimate(arithmetic, loads, latency, core, {}, self.registers(s))

    @cached_property
    def _wait(self) -> float:
        """The cycles between two accumulations into one register: the latency of a multiply-add; 0
        if the statement does not accumulate."""
        return 0.0 if self.is_map else float(self.target.fma_latency)

    def bounds(self, s: Schedule) -> Callable[[int], float]:
        """Return a function from a number of rows to a lower bound on the cycles of schedules with
        that many rows.

        The bound is valid for all unrollings and loop orders: it assumes that windows and rows
        share all loads that they can, and that memory is read once.
        """
        t, ranges = self.target, self.flat.ranges
        inputs = [each for i, each in enumerate(self._inputs(s)) if i not in self._scales]
        by_vector = ((o, a) for o, a in inputs if o.by_vector)
        vectors_of = sum(
            self._vector_loads(s, o, a)
            for o, a in by_vector
            if not (o.is_window and self._repeats(a))
        )
        elements = sum(o.by_row and not o.by_vector for o, _ in inputs)
        others = sum(not (o.by_row or o.by_vector) for o, _ in inputs)
        widths = [(-(-w // s.lanes), n) for w, n in self.parts(s.vector, s.width)]
        extent = ranges[s.rows] if s.rows is not None else 1
        outer = math.prod(ranges[n] for n in self.flat.free if n not in (s.vector, s.rows))
        points = math.prod(self.trips(s, n) for n in self.flat.reduced if n != s.vector)
        distinct, each_load = self._distinct(s), LOAD_CYCLES + 1.0 / t.load_ports
        sums_lanes, runs = self.plan(s).sums_lanes, self.flat.running is not None
        pages, mask = self.page_cycles(s, self.plan(s).unpacked), self._mask_cycles(s)
        once = outer * self._sum_lanes(s) if sums_lanes else 0.0

        def tiles(rows: int) -> float:
            cycles = 0.0
            for vectors, count in widths:
                loads = (vectors * vectors_of + rows * elements) * distinct + others
                work = max(self._work(s, rows, vectors, least=True), self._wait)
                point = max(work + loads * LOAD_CYCLES, loads * each_load)
                point += pages + mask * vectors
                finish = 0.0 if sums_lanes or runs else self._finish(s, rows, vectors)
                cycles += count * (points * point + finish)
            return cycles

        def cycles(rows: int) -> float:
            full, rest = divmod(extent, rows)
            core = once + outer * (full * tiles(rows) + (tiles(rest) if rest else 0.0))
            return overlapped(core, self.traffic.least)

        return cycles

    def _tiles(self, s: Schedule, outer: int) -> Iterator[tuple[int, int, int]]:
        """Yield each shape of register tiles as (rows, vectors, number of tiles of this shape)."""
        widths = self.parts(s.vector, s.width)
        for rows, row_count in self.parts(s.rows, s.row_tile):
            for width, count in widths:
                yield rows, -(-width // s.lanes), row_count * count * outer

    def parts(self, name: str | None, size: int) -> list[tuple[int, int]]:
        """Return the tiles that a schedule divides an index into, as pairs (number of values,
        number of tiles with so many values). Most have ``size`` values."""
        if name is None:
            return [(1, 1)]
        extent = self.flat.ranges[name]
        return parts(extent, size, overlap=overlaps(self.op, self.flat, name, extent, size))

    # ** the register tile **

    @cached_property
    def ops(self) -> float:
        """The vector operations at a point of the statement, for each vector of results."""
        if self.op.is_multiply_add:
            return 1.0
        if self.op.greatest_number is not None:
            return body_ops(self.op) - 1.0  # one operand is the aggregation, the other its constant
        # a maximum that keeps NaN takes a comparison and a blend
        accumulate = {"=": 0.0, "+": 1.0, "*": 1.0}.get(self.op.aggregation.data, 3.0)
        fused = self.op.summed_product is not None
        converting = converting_ops(self.op.combine.block, self.target)
        return accumulate + body_ops(self.op) + converting - fused

    @cached_property
    def _post_ops(self) -> float:
        block = self.op.post_block
        return 0.0 if block is None else block_ops(block) + converting_ops(block, self.target)

    def _mask_cycles(self, s: Schedule) -> float:
        """Return the cycles of vector masks, averaged over all tiles."""
        held = self.plan(s).constraints
        if s.vector is None or not held.masked:
            return 0.0
        low, high = map(estimated, held.interior(self.flat, s.vector))
        tiles = -(-self.flat.ranges[s.vector] // s.width)
        boundary = 1.0 - max(0, high // s.width - -(-low // s.width)) / tiles
        everywhere = sum(s.vector in {n for n, _ in c.form.terms} for c in held.masks)
        return (boundary * len(held.lanes) + everywhere) * MASK_CYCLES

    def page_cycles(self, s: Schedule, operands: Sequence[int] | None = None) -> float:
        """Return the cycles of TLB misses at a point of the innermost reduction loops.

        They occur for inputs with more pages than the first-level TLB holds.
        """
        cycles = 0.0
        for operand in range(self.flat.inputs) if operands is None else operands:
            a, size = self.flat.accesses[operand], self.traffic.sizes[operand]
            pages, points = 1.0, 1
            for name in reversed(s.reduction):
                step = min(1.0, abs(a.stride(name)) * size / self.target.page)
                points *= self.flat.ranges[name]
                pages *= max(1.0, self.flat.ranges[name] * step)
                if pages > self.target.tlb_entries:
                    cycles += (
                        (pages - self.target.tlb_entries) / points * self.target.tlb_miss_cycles
                    )
                    break
        return cycles

    def trips(self, s: Schedule, name: str) -> int:
        """Return the number of iterations of the loop over a reduced index. An iteration runs one
        value or, if a dot product instruction sums the index, a group of values."""
        return -(-self.flat.ranges[name] // s.group(name))

    def _work(self, s: Schedule, rows: int, vectors: int, *, least: bool = False) -> float:
        """Return the cycles of the arithmetic at a point of a register tile of ``rows`` and
        ``vectors``.

        With ``least``, returns a lower bound, as if rows shared all conversions of windows.
        """
        if s.dot is not None:
            products = round_up(rows, s.height) * vectors / s.dot.row.rate_on(self.target)
            ops = (
                products
                + self._joined_groups(s, rows)
                + decoding_ops(self.product, self.plan(s), s, rows, vectors)
            )
            return ops / self.target.fma_ports + self._widened_groups(s, s.dot, rows, vectors)
        if self._blocks is not None:
            return (
                rows * vectors + decoding_ops(self.product, self.plan(s), s, rows, vectors)
            ) / self.target.fma_ports
        ops = rows * vectors * self.ops + self._extracting(s, rows, vectors)
        if self.plan(s).runs_over_lanes:  # a shuffle, a blend and an addition for each halving
            ops += rows * vectors * (1 + 3 * math.log2(s.lanes))
        if self._widens:
            ops += self._widening(s, rows, vectors, least=least)
        return ops / self.target.fma_ports

    @cached_property
    def _blocks(self) -> SummedProduct | None:
        """The product of the statement that is summed in blocks of a reduced index, with each sum
        scaled once; None if products are not summed so."""
        product = self.product
        return product if product is not None and sums_blocks(self.op, product, self.flat) else None

    @cached_property
    def _scales(self) -> frozenset[int]:
        """The numbers of the operands that scale sums of blocks, and are therefore read once for
        each block."""
        return frozenset(() if self._blocks is None else self._blocks.scales)

    def _joined_groups(self, s: Schedule, rows: int) -> int:
        """Return the number of operations that concatenate the operands of several rows, for an
        instruction that computes several rows at a time."""
        whole = round_up(rows, s.height)
        return whole - whole // s.height

    def _extracting(self, s: Schedule, rows: int, vectors: int) -> float:
        """Return the number of operations that load elements at computed positions, each lane on
        its own."""
        lanes = s.lanes * vectors
        return sum(
            lanes * (rows * EXTRACT_OPS + (rows if x.by_row else 1) * PLACE_OPS)
            for x in self.plan(s).computed
        )

    def _widened_groups(self, s: Schedule, dot: Dot, rows: int, vectors: int) -> float:
        """Return the cycles to widen the groups that a point reads, if the dot product instruction
        takes a wider element."""
        shuffles = 0.0
        for i, o in enumerate(self.plan(s).read):
            if dot.row.widens(o.element) and i not in self._scales:
                each = widening_shuffles(vectors, by_vector=o.by_vector)
                shuffles += each * (rows if o.by_row else 1)
        return shuffles / self.target.shuffle_ports

    def _widening(self, s: Schedule, rows: int, vectors: int, *, least: bool) -> float:
        """Return the number of operations that widen the narrow floats which a point of a product
        loads. With ``least``, the vectors of windows are left out, for a lower bound."""
        ops = 0.0
        for widened, (o, a) in zip(self._widened, self._inputs(s), strict=False):
            if not o.by_vector:
                ops += widened.element * (rows if o.by_row else 1)
            elif not o.is_window:
                ops += widened.vector * vectors
            elif not least:
                ops += widened.vector * vectors * rows * self._fresh(s, a, rows)
        return ops

    @cached_property
    def _widened(self) -> list[ConversionCost]:
        """The cost of converting each input of a product. Other statements have conversion ops in
        their bodies, which ``converting_ops`` counts."""
        return [conversion(element_of(value.type), self.target) for value in self.op.inputs]

    @cached_property
    def _widens(self) -> bool:
        return self.op.is_multiply_add and any(each != FREE for each in self._widened)

    def _loads(self, s: Schedule, rows: int, vectors: int) -> float:
        total = by_row = 0.0
        for number, (o, a) in enumerate(self._inputs(s)):
            if number in self._scales:
                continue
            loads = self._operand_loads(s, o, a, rows, vectors)
            total, by_row = total + loads, by_row + loads * o.by_row
        if not self.is_map:
            total += sum(x.loads(rows, vectors) for x in self.plan(s).extracts)
        repeated = 1.0 - self._distinct(s, rows)
        return (total - by_row * repeated) / self.target.load_ports

    def _distinct(self, s: Schedule, rows: int | None = None) -> float:
        """Return the fraction that remains of the loads of operands that differ from row to row, if
        rows of a register tile that read the same elements share a load.

        Without ``rows``, returns a lower bound for any number of rows.
        """
        if not self.is_map or s.rows is None or self.plan(s).has_transposes:
            return 1.0
        inputs = zip(self.op.inputs, self._inputs(s), strict=False)
        moving = [(value, tuple(a.strides.items()), a) for value, (o, a) in inputs if o.by_row]
        if not moving:
            return 1.0
        if rows is None:
            return len({(value, strides) for value, strides, _ in moving}) / len(moving)
        found = {
            (value, strides, a.offset + row * a.stride(s.rows))
            for value, strides, a in moving
            for row in range(rows)
        }
        return len(found) / (len(moving) * rows)

    def _inputs(self, s: Schedule) -> Iterator[tuple[OperandPlan[int], FlatAccess[int]]]:
        return zip(self.plan(s).read, self.flat.accesses, strict=False)

    def _conflict_cycles(self, s: Schedule, rows: int) -> float:
        """Return the cycles of cache conflicts between loads from rows that are a multiple of a
        page apart.

        The first-level cache is indexed by the offset of an address within a page, so these rows
        share one set.
        """
        page = self.target.page
        if rows + PANEL_WAYS <= self.target.l1 // page:
            return 0.0
        inputs = zip(self._inputs(s), self.traffic.sizes, strict=False)
        conflicts = sum(o.by_row and o.row_stride * size % page == 0 for (o, _), size in inputs)
        return conflicts * rows * CONFLICT_CYCLES

    def _operand_loads(
        self, s: Schedule, o: OperandPlan[int], a: FlatAccess[int], rows: int, vectors: int
    ) -> float:
        if o.access is Access.TRANSPOSED:
            return vectors * self._square_loads(s, a)
        count = float((rows if o.by_row else 1) * (vectors if o.by_vector else 1))
        if o.by_vector:
            count *= self._vector_loads(s, o, a) * s.height
        return count * self._fresh(s, a, rows) if o.is_window else count

    def _square_loads(self, s: Schedule, a: FlatAccess[int]) -> float:
        """Return the cost of loading a square block and transposing it in registers, as an
        equivalent number of loads. If the vector index has fewer values than lanes, fewer loads and
        shuffles are needed."""
        held = min(s.lanes, self.flat.ranges[s.vector or ""])
        shuffles = held * math.log2(held) + (s.lanes if held < s.lanes else 0)
        ports = self.target.load_ports / self.target.shuffle_ports
        return held * self._lines(s, a) + shuffles * ports

    def _vector_loads(self, s: Schedule, o: OperandPlan[int], a: FlatAccess[int]) -> float:
        """Return the loads of one vector, one for each cache line, plus the shuffles of strided
        ones."""
        lines = self._lines(s, a)
        if o.access is not Access.STRIDED:
            return lines
        return lines * (o.stride + self.target.load_ports / self.target.shuffle_ports)

    def _lines(self, s: Schedule, a: FlatAccess[int]) -> float:
        """Return the average number of cache lines that a vector touches.

        The number exceeds one if vectors do not start at multiples of their length.
        """
        starts = (a.offset, *(stride for n, stride in a.strides.items() if n != s.vector))
        if all(start % s.lanes == 0 for start in starts):
            return 1.0
        return 1.0 + (self.target.vector_bytes - 4) / self.target.cache_line

    def _fresh(self, s: Schedule, a: FlatAccess[int], rows: int) -> float:
        """Return the fraction that remains of a window's loads by all rows and unrolled points of a
        register tile, if equal addresses are loaded once."""
        assert s.rows is not None
        step = a.stride(s.rows)
        positions, left = [0], s.unroll
        for name in reversed(s.reduction):
            extent = self.flat.ranges[name]
            if extent > left:
                break
            left //= extent
            positions = [p + a.stride(name) * i for p in positions for i in range(extent)]
        if len(positions) == 1:
            return 1.0
        distinct = {position + step * row for position in positions for row in range(rows)}
        return len(distinct) / (len(positions) * rows)

    def _repeats(self, a: FlatAccess[int]) -> bool:
        """Return whether different points of the reduced indices may read the same element of an
        operand."""
        span = 0
        for stride, name in sorted((abs(a.stride(n)), n) for n in self.flat.reduced):
            if self.flat.ranges[name] > 1 and stride <= span:
                return True
            span += stride * (self.flat.ranges[name] - 1)
        return False

    def _finish(self, s: Schedule, rows: int, vectors: int) -> float:
        """Return the cycles to begin a register tile, run the post body, and store."""
        if self.flat.running in s.order:  # the preceding aggregates are loaded
            return rows * vectors * (self._stored_each + 1.0 / self.target.load_ports)
        return self._begin + rows * vectors * self._stored_each

    @cached_property
    def _begin(self) -> float:
        return 1.0 if self.is_map else self.target.refill_cycles + self.target.fma_latency

    def _merges(self, s: Schedule, rows: int, vectors: int) -> float:
        """Return the cycles of the shuffles that interleave the vectors of a tile's rows before
        they are stored."""
        if not self.plan(s).interleaves:
            return 0.0
        return vectors * rows * rows / self.target.shuffle_ports

    @cached_property
    def _stored_each(self) -> float:
        """The cycles to run the post body on a vector of results, and to store it."""
        posts = len(self.flat.accesses) - 1 - self.flat.inputs
        return max(
            1.0 / self.target.store_ports,
            posts / self.target.load_ports,
            self._post_ops / self.target.fma_ports,
        )

    def _sum_lanes(self, s: Schedule) -> float:
        """Return the cycles to sum the lanes of the accumulators, and to store the sum.

        Each halving takes a shuffle and an addition. Short reductions are unrolled, and overlap
        with those of the next output.
        """
        halves = math.log2(max(2, s.lanes))
        horizontal = 2 * halves / self.target.shuffle_ports + s.vectors
        return self._finish(s, 1, 1) - self.target.refill_cycles + horizontal

    def has_windows(self, s: Schedule) -> bool:
        """Return whether an input is a window: both the vector index and the index of rows move
        along the same elements, which rows can then share."""
        return bool(self.plan(s).windows)

    def apart(self, s: Schedule) -> bool:
        """Return whether the windows of the rows of a register tile are disjoint, as those of a 2x2
        pool with stride 2.

        Disjoint windows are unrolled: in a loop, a load would jump between positions, which defeats
        the processor's prefetcher.
        """
        whole = replace(s, unroll=math.prod(self.flat.ranges[n] for n in s.reduction))
        read = zip(self.plan(s).read, self.flat.accesses, strict=False)
        shares = [self._fresh(whole, a, s.row_tile) for o, a in read if o.is_window]
        return bool(shares) and min(shares) == 1.0

    def registers(self, s: Schedule) -> int:
        """Return the number of vector registers that a register tile holds at once."""
        if self.is_map:
            return s.lanes if self.plan(s).has_transposes else 0
        rows = round_up(s.row_tile, s.height)
        return rows * self._held_by_row(s) + self._held_by_all(s)

    def most_rows(self, s: Schedule) -> int:
        """Return the rows of the largest register tile of a contraction that fits into the
        registers."""
        left = self.target.vector_registers - self._held_by_all(s)
        return left // self._held_by_row(s) // s.height * s.height

    def _held_by_row(self, s: Schedule) -> int:
        """Return the number of registers that each row of a register tile needs: its accumulators
        and, for each window, the vectors that the row adds to those of its neighbours."""
        return s.vectors * (1 + self.plan(s).columns)

    def _held_by_all(self, s: Schedule) -> int:
        """Return the number of registers that a register tile needs beside those of each of its
        rows.

        If operands are windows, these hold the vectors of two more rows, and the weights.
        Otherwise, they hold the vectors that all rows share, one broadcast element, and products
        that are summed separately.
        """
        plan = self.plan(s)
        compared = 3 if self.op.aggregation.data in "<>" else 0
        summed = s.dot is not None and s.dot.row.sums
        if not plan.windows:
            scales = sum(plan.read[i].is_shared for i in self._scales)
            shared = plan.shared - scales
            return shared * s.vectors * s.height + 1 + compared + summed
        bounded = self.bounded(s)
        points = math.prod(self.flat.ranges[n] for n in self.flat.reduced if n not in bounded)
        weights = min(points, HELD_WEIGHTS) * (self.flat.inputs > 1)
        weights *= s.vectors if plan.shared else 1
        strided = any(o.access is Access.STRIDED for o in plan.read)
        return 2 * s.vectors * plan.columns + weights + strided + compared

    def plan(self, s: Schedule) -> AccessPlan[int]:
        """Return the access plan of operands and result."""
        key = s.vector, s.rows, s.dot
        if key not in self._plans:
            self._plans[key] = plan_accesses(self.op, self.flat, s.vector, s.rows, s.dot)
        return self._plans[key]

    @cached_property
    def _plans(self) -> dict[tuple[str | None, str | None, Dot | None], AccessPlan[int]]:
        return {}

    def bounded(self, s: Schedule) -> frozenset[str]:
        """Return the reduced indices whose loops are bounded by constraints and not unrolled."""
        return self.plan(s).constraints.bounded

    def shared(self, s: Schedule) -> set[str]:
        """Return the reduced indices of windows along which rows share loaded vectors."""
        operands = zip(self.op.input_accesses, self.plan(s).read, strict=True)
        forms = (form for access, o in operands if o.is_window for form in access)
        moving = (form for form in forms if s.rows is not None and form.coefficient(s.rows))
        return {n for form in moving for n, _ in form.terms} & set(self.flat.reduced)


def modelled(op: ContractOp, target: Target) -> CostModel:
    """Return the cost model of a scheduled statement. Symbolic sizes have the numbers that costs
    are estimated for."""
    return CostModel(op, in_numbers(op, flatten(op)), target, op.summed)


def in_numbers(op: ContractOp, flat: Flat) -> Flat[int]:
    """Return a flattened statement in which symbolic sizes are replaced by the numbers that costs
    are estimated for."""
    few, numbers = usual(op), flat.with_sizes(estimated)
    if not few:
        return numbers
    indices = (replace(i, range=min(i.range, few.get(i.name, i.range))) for i in numbers.indices)
    return replace(numbers, indices=tuple(indices))


def extract_ops(lanes: int) -> float:
    """Return the operations to load an element into each of the lanes of a vector."""
    return lanes * EXTRACT_OPS


def body_ops(op: ContractOp) -> float:
    """Return the vector operations of a statement's combine body."""
    return block_ops(op.combine.block)
