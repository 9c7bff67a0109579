"""One statement of a kernel as loops: the register tile and the loops around it.

A register tile computes ``rows x vectors`` vectors of the output. Accumulators stay in registers
over the whole reduction, operands that do not move with the vector index are loaded once and
broadcast, and the post body runs before the only store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from math import prod

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from tessella.dialects.tile import ContractOp
from tessella.dialects.tile.flat import Constraint, Flat
from tessella.dialects.tile.schedule_attributes import Schedule
from tessella.lowering.aggregate import greatest, horizontal, identity
from tessella.lowering.body import Bodies
from tessella.lowering.boundary import UNCUT, cut_tiles, row_sets
from tessella.lowering.bounds import LoopBounds
from tessella.lowering.combine import Combine
from tessella.lowering.ended import Ended
from tessella.lowering.loads import Loads
from tessella.lowering.panels import Panels
from tessella.lowering.point import Extent, Point, StepPosition
from tessella.lowering.prefetch import Ahead
from tessella.lowering.running import Along
from tessella.lowering.stores import Stores
from tessella.lowering.values import BlockEmitter, Pos, Val
from tessella.lowering.writes import Writes
from tessella.passes.tile.blocks import block_sums
from tessella.passes.tile.plan import Access, plan_accesses
from tessella.passes.tile.tiles import (
    Tiles,
    boundary_as_loops,
    in_lanes,
    in_parts,
    lane_tiles,
    overlaps,
    split,
    with_ends,
)
from tessella.support.conditions import UndecidedSizeError, decided
from tessella.support.decisions import at_most, known
from tessella.support.sizes import Expr, Size, ceil_div, expression, product, round_up, symbols_of

FEW = 0.75
"""If fewer than this fraction of the rows are in interior tiles, the loops of boundary tiles are
unrolled by the schedule's factor, too. This bounds the amount of code."""

HELD = 24
"""The maximum number of vectors in a loop over tiles that LLVM may unroll.

The vectors are those that an elementwise statement reads of an operand, or sums of windows. In a
loop with more vectors, LLVM would load early the values that several iterations read, and spill
registers.
"""

Stops = Mapping[str, SSAValue]
"""The ends of the indices that do not run over their whole ranges, by name."""

Reduce = Callable[[Pos, Sequence[SSAValue]], list[SSAValue]]
"""``reduce(value, sums)``: returns the sums after a value of a reduced index."""


class Statement:
    """Emits the loops of a ``tile.contract`` under its schedule."""

    def __init__(
        self,
        emitter: BlockEmitter,
        op: ContractOp,
        flat: Flat,
        schedule: Schedule,
        buffers: Mapping[SSAValue, SSAValue],
        step: StepPosition,
        code: int = 0,
        ahead: Sequence[Ahead] = (),
    ) -> None:
        self.e = emitter
        self.op = op
        self.flat = flat
        self.s = schedule
        self.step = step
        self.buffers = [buffers[v] for v in op.tensors]
        self.plan = plan_accesses(op, flat, schedule.vector, schedule.rows, schedule.dot)
        self.constraints = self.plan.constraints
        self.bounds = LoopBounds(emitter, self.constraints.bounds, flat.ranges, schedule.rows)
        self.reduces_lanes = self.plan.sums_lanes
        bodies = Bodies(emitter, schedule, buffers, code)
        loads = Loads(emitter, flat, schedule, self.plan, self.buffers, bodies)
        self.panels = Panels(emitter, flat, schedule, self.plan, self.buffers)
        self.ended = Ended(emitter, op, flat, schedule, bodies, loads)
        self.combine = Combine(
            *(emitter, op, schedule, self.plan, bodies, loads, self.panels, tuple(ahead)),
            *(block_sums(op, flat, schedule), self.ended.value),
        )
        self.stores = Stores(emitter, op, schedule, self.plan, self.buffers, bodies, loads)
        self.writes = (
            Writes(emitter, op, flat, schedule, bodies, loads, self.stores, step.share)
            if op.is_scatter
            else None
        )

    def emit(self) -> None:
        """Append the loops to the emitter's block."""
        self.e.lanes = self.s.lanes
        self._blocks(self.s.blocks, Point({}, self.step.starts))

    # ** free indices **

    def _move(self, point: Point, name: str, value: Pos) -> Point:
        """Return the position with an index moved to a value, which is counted from the first value
        in the current iteration of the shared loops."""
        offsets = tuple(
            self.e.step(offset, value, a.stride(name))
            for offset, a in zip(point.offsets, self.flat.accesses, strict=True)
        )
        if name in self.flat.pinned and name in self.step.bases:
            value = self.e.step(self.step.bases[name], value, 1)
        return replace(point, indices={**point.indices, name: value}, offsets=offsets)

    def _blocks(self, blocks: Sequence[tuple[str, int]], point: Point) -> None:
        if not blocks:
            self._free(self.s.order, point)
            return
        (name, size), *rest = blocks
        extent = self.flat.ranges[name]
        for tiles in self._tiles(name, extent, size, (0, extent)):

            def body(start: Pos, size: int = tiles.size) -> None:
                inner = {**point.blocks, name: Extent(start, size)}
                self._blocks(rest, replace(point, blocks=inner))

            self._run(name, tiles, body, self._share_of(name))

    def _free(self, order: Sequence[str], point: Point) -> None:
        if self.writes is not None and not point.placed and tuple(order) == self.writes.inside:
            self.writes.enter(point, partial(self._free, order))
            return
        if not order:
            self.stores.if_inside(point, partial(self._tile, point))
            return
        name, rest = order[0], order[1:]
        if self.along is not None and name == self.along.name:
            self.along.in_order(point, partial(self._free, rest))
            return
        block = point.blocks.get(name, Extent(Pos(), self.flat.ranges[name]))
        for tiles in self._split(name, block.size):
            shaped = self._shaped(point, name, tiles)

            def body(value: Pos, shaped: Point = shaped) -> None:
                self._free(rest, self._move(shaped, name, self.e.step(block.start, value, 1)))

            share = None if name in point.blocks else self._share_of(name)
            self._run(name, tiles, body, share)

    def _split(self, name: str, extent: Size) -> Iterator[Tiles]:
        sizes = {self.s.rows: self.s.row_tile, self.s.vector: self.s.width}
        interior = self._interior(name, extent) if name in sizes else (0, extent)
        if name == self.s.rows and self._shares_edges:
            interior = 0, extent
        tiles = self._tiles(name, extent, sizes.get(name, 1), interior)
        return boundary_as_loops(tiles) if name == self.s.vector else tiles

    @cached_property
    def _shares_edges(self) -> bool:
        """True if boundary tiles need no code of their own, because the loops over the taps of a
        window are not unrolled."""
        return all(
            prod(self.flat.ranges[n] for n in self.s.reduction[self.s.reduction.index(name) + 1 :])
            >= self.s.unroll
            for c in self.constraints.rows
            for name, _ in c.form.terms
            if name in self.s.reduction
        )

    def _interior(self, name: str, extent: Size) -> tuple[Size, Size]:
        """Return the values of an index, or of a block of it, at which no register tile needs to
        check a constraint."""
        interior = self.constraints.interior(self.flat, name)
        if interior == (0, self.flat.ranges[name]):
            return 0, extent
        # no value is known to be interior, as the block's beginning is unknown
        blocked = any(name == each for each, _ in self.s.blocks)
        return (0, 0) if blocked else interior

    def _tiles(
        self, name: str, extent: Size, size: int, interior: tuple[Size, Size]
    ) -> Iterator[Tiles]:
        if expression(extent) is not None and interior == (0, extent):
            return self._open(name, extent, size)
        overlap = overlaps(self.op, self.flat, name, extent, size)
        return split(extent, size, interior, overlap=overlap)

    def _open(self, name: str, extent: Size, size: int) -> Iterator[Tiles]:
        """Yield the tiles of a symbolic range. Raises UndecidedSizeError if an operand is packed in
        panels along the index."""
        if any(name in a.lanes for a in self.flat.accesses):
            names = (symbol.name for symbol in symbols_of([extent]))
            raise UndecidedSizeError(f"panels of {extent} have edges that no tile lies in", names)
        if name == self.s.vector and self.writes is not None:
            return (
                replace(tiles, tail=tail) for tiles, tail in lane_tiles(extent, size, self.s.lanes)
            )
        if name == self.s.vector:
            few = size if self.op.is_map else self.s.lanes
            return in_lanes(extent, size, lanes=self.s.lanes, few=few)
        return with_ends(extent, size, self.s.ends if name == self.s.rows else ())

    def _shaped(self, point: Point, name: str, tiles: Tiles) -> Point:
        """Return the position with the rows or the vectors of the register tile set to those that
        ``tiles`` has along an index."""
        if name == self.s.rows:
            cut = UNCUT
            if self.constraints.rows:
                cut = cut_tiles(tiles, self.constraints.interior(self.flat, name))
            return replace(point, rows=tuple(range(tiles.size)), cut=cut)
        if name == self.s.vector:
            full, tail = divmod(tiles.size, self.s.lanes)
            vectors = full + (tail > 0)
            masked = tiles.boundary
            return replace(point, vectors=vectors, tail=tail or tiles.tail, masked=masked)
        return point

    def _share_of(self, name: str) -> tuple[SSAValue, SSAValue] | None:
        """Return the first value and the end of an index's values that this thread runs; None if
        the index is not divided among threads."""
        parallel = self.s.parallel
        return self.step.share if parallel is not None and parallel[0] == name else None

    def _run(
        self,
        name: str,
        tiles: Tiles,
        body: Callable[[Pos], None],
        share: tuple[SSAValue, SSAValue] | None = None,
    ) -> None:
        """Emit a loop that runs ``body`` at the start of each tile. With ``share``, it runs only at
        tiles that begin in the share."""
        if self._runs_once(name, tiles, self.step.stops):
            once = partial(body, Pos(None, tiles.start))
            if share is None:
                once()
            else:
                self.e.when(self._begins_in(share, tiles.start), once)
            return

        def loop_body(iv: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
            iv.name_hint = name
            last = Pos(None, tiles.stop - tiles.size)
            body(self.e.min(Pos(iv), last) if tiles.overlap else Pos(iv))
            return ()

        start, stop = self.e.index(tiles.start), self._stop(name, tiles, self.step.stops)
        if share is not None:
            # Whole tiles are divided among threads, and the first tiles begin at 0. The last thread
            # runs the remainder.
            first = share[0] if tiles.start == 0 else start
            start, stop = first, self.e.op(arith.MinSIOp(share[1], stop))
        self.e.loop(start, stop, tiles.size, (), loop_body, self._unrolled(tiles))

    def _begins_in(self, share: tuple[SSAValue, SSAValue], start: Size) -> SSAValue:
        """Return whether a tile begins in a share."""
        at = self.e.index(start)
        above = self.e.op(arith.CmpiOp(at, share[0], "sge"))
        below = self.e.op(arith.CmpiOp(at, share[1], "slt"))
        return self.e.op(arith.AndIOp(above, below))

    def _unrolled(self, tiles: Tiles) -> int:
        """Return the unroll factor of the loop over tiles: 0 forbids unrolling, 1 leaves the loop
        to LLVM.

        LLVM unrolls short loops completely, which keeps values that rows or windows share in
        registers. Loops with too many values for the registers are not unrolled.
        """
        if any(plan.access is Access.TRANSPOSED for plan in self.plan.operands):
            return 1
        shares = self.op.is_map != bool(self.flat.constraints)
        vectors = tiles.count * self.s.row_tile * self.s.vectors
        return 0 if shares and not at_most(vectors, HELD) else 1

    def _runs_once(self, name: str, tiles: Tiles, stops: Stops) -> bool:
        """Return whether the loop over an index's tiles has exactly one iteration."""
        return tiles.count == 1 and name not in stops

    def _stop(self, name: str, tiles: Tiles, stops: Stops) -> SSAValue:
        """Return the end of the loop over the tiles of an index."""
        stop = self.e.index(tiles.stop)
        return stop if name not in stops else self.e.op(arith.MinSIOp(stops[name], stop))

    # ** the register tile **

    def _tile(self, point: Point) -> None:
        point = replace(self.panels.at(point), stops=self.step.stops)
        if self.writes is not None:
            self.writes.emit(point)
            return
        if self.op.is_map:
            values = self.combine.emit(point, [], point.rows)
        elif self.along is not None and point.before is not None:
            values = self.along.at(point, point.before, self._reduced)
        else:
            zero = identity(self.e, self.op.aggregation.data, self.combine.element, self.s.vector)
            count = self.s.vectors if self.reduces_lanes else point.vectors
            point = self.ended.at(point)
            start = [zero] * (round_up(len(point.rows), self.s.height) * count)
            sums = self._reduce(self.s.reduction, point, start, point.rows)
            if self.along is not None:
                return  # the loop over the running index has already stored the sums
            varying = self.s.vector is not None
            if self.reduces_lanes:
                groups = [sums[i : i + count] for i in range(0, len(sums), count)]
                sums = [self._over_lanes(group) for group in groups]
                varying = False
            sums = self.combine.by_rows(sums, count)[: len(point.rows) * count]
            values = [Val(v, varying) for v in sums]
        self.stores.emit(point, values)

    def _reduced(self, point: Point, sums: list[SSAValue]) -> list[SSAValue]:
        """Return ``sums`` after the loops over all reduced indices of a register tile."""
        return self._reduce(self.s.reduction, point, sums, point.rows)

    def _over_lanes(self, totals: Sequence[SSAValue]) -> SSAValue:
        if self.op.greatest_number is not None:
            return greatest(self.e, totals)
        return horizontal(self.e, self.op.aggregation.data, totals)

    # ** reduced indices **

    def _reduce(
        self, names: Sequence[str], point: Point, sums: list[SSAValue], rows: Sequence[int]
    ) -> list[SSAValue]:
        if not names:
            return [v.ssa for v in self.combine.emit(point, sums, rows)]
        name, rest = names[0], names[1:]
        if self.along is not None and name == self.along.name:
            return self._reduce_along(self.along, rest, point, sums, rows)
        if self.s.partial is not None and name == self.s.partial[0] and point.part == 0:
            return self._reduce_in_parts(names, self.s.partial[1], point, sums, rows)
        if name == self.s.vector:
            return self._reduce_lanes(name, rest, point, sums, rows)
        if self.s.group(name) > 1:
            return self._reduce_groups(name, rest, point, sums, rows)
        constraint = next((c for c in self.constraints.rows if c.form.coefficient(name)), None)
        if constraint is not None and point.cut.starts:
            return self._reduce_rows(constraint, name, rest, point, sums, rows)
        start, stop = self.bounds.of(name, self._extent(name, point), point)
        if name in point.stops:
            stop = self.e.min(Pos(point.stops[name]), stop)
        if start == Pos() and stop == Pos(None, 1):
            return self._reduce(rest, self._move(point, name, Pos()), sums, rows)

        fixed = start.ssa is None and stop.ssa is None

        def body(iv: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            iv.name_hint = name
            return self._reduce(rest, self._move(point, name, Pos(iv)), list(carried), rows)

        unroll = self._unroll_count(name, rest, point, rows) if fixed else 1
        return self.e.loop(self.e.at(start), self.e.at(stop), 1, sums, body, unroll)

    @cached_property
    def along(self) -> Along | None:
        """The loop over the running index; None if the statement has none."""
        index = self.op.running_index
        if index is None or index.running is None:
            return None
        return Along(
            *(self.e, self.op, self.s, self.combine, self.stores, self._move),
            *(index.name, self.flat.ranges[index.name], index.running),
        )

    def _reduce_along(
        self,
        along: Along,
        rest: Sequence[str],
        point: Point,
        sums: Sequence[SSAValue],
        rows: Sequence[int],
    ) -> list[SSAValue]:
        """Emit the loop over the running index, which stores the sums at each value. Returns the
        last sums."""
        if along.name == self.s.vector:
            return along.over_lanes(point, sums)
        unroll = self._unroll_count(along.name, rest, point, rows)
        return along.one_by_one(
            point, sums, lambda here, before: self._reduce(rest, here, before, rows), unroll
        )

    def _reduce_in_parts(
        self,
        names: Sequence[str],
        size: int,
        point: Point,
        sums: list[SSAValue],
        rows: Sequence[int],
    ) -> list[SSAValue]:
        """Sum the first of the indices ``names`` in partial sums of ``size`` values, and add each
        of them to the totals."""
        name, kind = names[0], self.op.aggregation.data
        extent = self.flat.ranges[name]
        zero = identity(self.e, kind, self.combine.part_element, self.s.vector)
        width = self.s.vectors if self.reduces_lanes else point.vectors
        for tiles, values in in_parts(extent, size):

            def add(start: Pos, totals: Sequence[SSAValue], part: Size = values) -> list[SSAValue]:
                stops = self.ended.within(point.stops, name, start)
                inside = replace(self._move(point, name, start), part=part, stops=stops)
                parts = self._reduce(names, inside, [zero] * len(totals), rows)
                pairs = enumerate(zip(parts, totals, strict=True))
                added = [self.combine.total(inside, *divmod(i, width), *pair) for i, pair in pairs]
                self.combine.loads.forget()
                return added

            if self._runs_once(name, tiles, point.stops):
                sums = add(Pos(None, tiles.start), sums)
                continue
            start, stop = self.e.index(tiles.start), self._stop(name, tiles, point.stops)
            sums = self.e.loop(
                start, stop, size, sums, lambda iv, totals, add=add: add(Pos(iv), totals), 0
            )
        return sums

    def _extent(self, name: str, point: Point) -> Size:
        """Return the number of values that a loop over a reduced index adds: the size of the
        current partial sum if the index is divided into partial sums, otherwise its range."""
        if self.s.partial is not None and name == self.s.partial[0]:
            return point.part
        return self.flat.ranges[name]

    def _unroll_count(
        self, name: str, inner: Sequence[str], point: Point, rows: Sequence[int]
    ) -> int:
        """Return the unroll factor of the loop over a reduced index; 0 forbids unrolling, 1 leaves
        the loop to LLVM.

        The unrolled iterations, with the loops inside fully unrolled, have at most as many points
        as the schedule's ``unroll`` says. Boundary tiles with code of their own are not unrolled if
        they have few of the rows, as their code takes as long to compile as that of all other
        tiles.
        """
        extent = ceil_div(self._extent(name, point), self.s.group(name))
        if point.cut.starts and not (point.cut.inside and len(rows) == len(point.rows)):
            if decided(extent <= self.s.unroll):
                return 0
            if self._boundary_is_small:
                return 1
        points = product(ceil_div(self.flat.ranges[n], self.s.group(n)) for n in inner)
        if isinstance(points, Expr):
            return 1
        most = self.s.unroll // points
        return max(1, most if isinstance(extent, Expr) else min(extent, most))

    @cached_property
    def _boundary_is_small(self) -> bool:
        assert self.s.rows is not None
        low, high = self.constraints.interior(self.flat, self.s.rows)
        inside = known((high - low) // self.s.row_tile * self.s.row_tile)
        return inside >= FEW * known(self.flat.ranges[self.s.rows])

    def _reduce_groups(
        self,
        name: str,
        rest: Sequence[str],
        point: Point,
        sums: list[SSAValue],
        rows: Sequence[int],
    ) -> list[SSAValue]:
        """Reduce an index in groups of values that one instruction adds. The last group may be
        partial."""
        extent, size = known(self._extent(name, point)), self.s.group(name)
        whole, left = extent // size * size, extent % size

        def body(start: Pos, carried: Sequence[SSAValue]) -> list[SSAValue]:
            return self._reduce(rest, self._move(point, name, start), list(carried), rows)

        def loop_body(iv: SSAValue, carried: Sequence[SSAValue]) -> list[SSAValue]:
            iv.name_hint = name
            return body(Pos(iv), carried)

        if whole == size:
            sums = body(Pos(), sums)
        elif whole:
            unroll = self._unroll_count(name, rest, point, rows)
            start, stop = self.e.index(0), self.e.index(whole)
            sums = self.e.loop(start, stop, size, sums, loop_body, unroll)
        if left:
            moved = replace(self._move(point, name, Pos(None, whole)), left=left)
            sums = self._reduce(rest, moved, sums, rows)
        return sums

    def _reduce_lanes(
        self,
        name: str,
        rest: Sequence[str],
        point: Point,
        sums: list[SSAValue],
        rows: Sequence[int],
    ) -> list[SSAValue]:
        extent = self._extent(name, point)
        for tiles, tail in lane_tiles(extent, self.s.width, self.s.lanes):
            vectors = ceil_div(tiles.size, self.s.lanes)
            shaped = replace(point, vectors=vectors, tail=tail)
            if self._runs_once(name, tiles, point.stops):
                moved = self._move(shaped, name, Pos(None, tiles.start))
                sums = self._reduce(rest, moved, sums, rows)
                continue

            def body(
                iv: SSAValue, carried: Sequence[SSAValue], shaped: Point = shaped
            ) -> Sequence[SSAValue]:
                iv.name_hint = name
                return self._reduce(rest, self._move(shaped, name, Pos(iv)), list(carried), rows)

            start, stop = self.e.index(tiles.start), self._stop(name, tiles, point.stops)
            sums = self.e.loop(start, stop, tiles.size, sums, body)
        return sums

    def _reduce_rows(
        self,
        constraint: Constraint,
        name: str,
        rest: Sequence[str],
        point: Point,
        sums: list[SSAValue],
        rows: Sequence[int],
    ) -> list[SSAValue]:
        """Sum over an index by one loop for each set of rows that are in bounds at the same
        values."""
        assert self.s.rows is not None
        for active in row_sets(constraint, self.s.rows, rows, name, self.flat.ranges, point.cut):

            def body(
                value: Pos, carried: Sequence[SSAValue], active: Sequence[int] = active
            ) -> list[SSAValue]:
                return self._reduce(rest, self._move(point, name, value), list(carried), active)

            start, stop = self.bounds.of_rows(constraint, name, point, rows, active)
            if (
                start.ssa is None
                and stop.ssa is None
                and (not self._shares_edges or decided(stop.constant <= start.constant + 1))
            ):
                for value in range(known(start.constant), known(stop.constant)):
                    sums = body(Pos(None, value), sums)
                continue

            def loop_body(
                iv: SSAValue, carried: Sequence[SSAValue], body: Reduce = body
            ) -> list[SSAValue]:
                iv.name_hint = name
                return body(Pos(iv), carried)

            sums = self.e.loop(self.e.at(start), self.e.at(stop), 1, sums, loop_body, 0)
        return sums
