"""The loop over a running index: at each of its values, a statement stores the aggregate so far, as
in a cumulative sum.

The accumulators stay in registers. Without lanes along the index, one iteration adds one value.
With lanes, an iteration computes the prefixes of a whole vector in log2(lanes) additions (J.
Sklansky, "Conditional-sum addition logic", 1960), and adds the preceding total:

    a b c d  ->  a a+b c c+d  ->  a a+b (a+b)+c (a+b)+(c+d)  ->  total + each of them

One addition for each vector depends on the previous vector. Sums of nonnegative numbers never
decrease.

If the loop is outside the register tile, as when rows of a large tensor are added in memory order,
accumulators start from the aggregates stored at the previous value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from tessella.dialects.arith import SelectOp
from tessella.dialects.tile import ContractOp
from tessella.dialects.tile.attributes import Running
from tessella.dialects.tile.schedule_attributes import Schedule
from tessella.lowering.aggregate import accumulate, identity
from tessella.lowering.combine import Combine
from tessella.lowering.point import Before, Point
from tessella.lowering.stores import Stores
from tessella.lowering.transpose import shuffle
from tessella.lowering.values import BlockEmitter, Pos, Val
from tessella.passes.tile.tiles import Tiles, lane_tiles
from tessella.support.sizes import Size, ceil_div

Reduce = Callable[[Point, list[SSAValue]], list[SSAValue]]
"""``reduce(point, totals)``: returns ``totals`` with the values of the other reduced indices at a
point added."""


@dataclass(frozen=True)
class Along:
    """Emits the loop over the running index of a statement, at each value of which the aggregate so
    far is stored."""

    e: BlockEmitter
    op: ContractOp
    s: Schedule
    combine: Combine
    stores: Stores
    move: Callable[[Point, str, Pos], Point]
    name: str
    extent: Size
    running: Running

    def one_by_one(
        self, point: Point, totals: Sequence[SSAValue], reduce: Reduce, unroll: int
    ) -> list[SSAValue]:
        """Emit a loop that adds one value of the running index in each iteration. Returns the last
        aggregates."""

        def body(iv: SSAValue, before: Sequence[SSAValue]) -> Sequence[SSAValue]:
            here = self.move(point, self.name, self._position(iv, Tiles(0, 1, self.extent)))
            after = reduce(here, list(before))
            varying = self.s.vector is not None
            stored = before if self.running.exclusive else after
            self.stores.emit(here, [Val(total, varying) for total in stored])
            return after

        start, stop = self.e.index(0), self.e.index(self.extent)
        return self.e.loop(start, stop, 1, totals, body, unroll)

    def in_order(self, point: Point, body: Callable[[Point], None]) -> None:
        """Emit the loop over the running index, which runs ``body`` on register tiles at each
        value. A tile starts from the aggregates at the previous value."""
        whole = Tiles(0, 1, self.extent)

        def at_each(iv: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
            here = self._position(iv, whole)
            none = self.e.op(arith.CmpiOp(iv, self.e.index(0), "eq"))
            back = 1 if self.running.reverse else -1
            step = Pos(self.e.op(SelectOp(none, self.e.index(0), self.e.index(back))))
            before = Before(self.e.step(here, step, 1), step, none)
            body(replace(self.move(point, self.name, here), before=before))
            return ()

        self.e.loop(self.e.index(0), self.e.index(self.extent), 1, (), at_each)

    def at(self, point: Point, before: Before, reduce: Reduce) -> list[Val]:
        """Return the aggregates at a value of the running index, computed from those stored at the
        previous value."""
        indices = {**point.indices, self.name: before.value}
        there = replace(self.move(point, self.name, before.step), indices=indices)
        output, loads = len(there.offsets) - 1, self.combine.loads
        found = [
            loads.load(output, there, row, u, None).ssa
            for row in point.rows
            for u in range(point.vectors)
        ]
        if self.running.exclusive:
            found = reduce(there, found)
        none = self.e.spread(Val(before.none))
        totals = [self.e.op(SelectOp(none, self._neutral, total)) for total in found]
        loads.forget()
        after = totals if self.running.exclusive else reduce(point, totals)
        return [Val(total, self.s.vector is not None) for total in after]

    def over_lanes(self, point: Point, totals: Sequence[SSAValue]) -> list[SSAValue]:
        """Emit loops that add a tile of vectors of values in each iteration. All lanes of a total
        are equal. Returns the last totals."""
        tiles = [*lane_tiles(self.extent, self.s.width, self.s.lanes)]
        found = list(totals)
        for each, tail in reversed(tiles) if self.running.reverse else tiles:
            shaped = replace(point, vectors=ceil_div(each.size, self.s.lanes), tail=tail)

            def body(
                iv: SSAValue, before: Sequence[SSAValue], each: Tiles = each, shaped: Point = shaped
            ) -> Sequence[SSAValue]:
                here = self.move(shaped, self.name, self._position(iv, each))
                return self._tile(here, before)

            start, stop = self.e.index(each.start), self.e.index(each.stop)
            found = self.e.loop(start, stop, each.size, found, body)
        return found

    def _position(self, iv: SSAValue, tiles: Tiles) -> Pos:
        """Return the value of the running index in an iteration."""
        iv.name_hint = self.name
        if not self.running.reverse:
            return Pos(iv)
        return Pos(self.e.linear([(iv, -1)], tiles.start + tiles.stop - tiles.size))

    def _tile(self, point: Point, totals: Sequence[SSAValue]) -> list[SSAValue]:
        """Store the aggregates at the values of a tile's vectors. Returns the totals after the
        tile."""
        stored: list[Val] = []
        after: list[SSAValue] = []
        numbers = range(point.vectors)
        for row, total in zip(point.rows, totals, strict=True):
            found = dict.fromkeys(numbers, total)
            for u in reversed(numbers) if self.running.reverse else numbers:
                value = self.combine.value(point, row, u, self._neutral)
                prefixes = self._prefixes(value)
                found[u] = self._added(total, prefixes)
                total = accumulate(self.e, self._kind, total, self._spread_last(prefixes))
            stored += [Val(found[u], varying=True) for u in numbers]
            after.append(total)
        self.combine.loads.forget()
        self.stores.emit(point, stored)
        return after

    @property
    def _kind(self) -> str:
        return self.op.aggregation.data

    @property
    def _neutral(self) -> SSAValue:
        return identity(self.e, self._kind, self.combine.element, self.s.vector)

    # ** the lanes of a vector **

    def _lanes(self, source: Callable[[int], int]) -> list[int]:
        """Return shuffle indices that put lane ``source(i)`` into lane i. If the running index is
        in reverse, lanes are counted from the last one."""
        if not self.running.reverse:
            return [source(lane) for lane in range(self.s.lanes)]
        last = self.s.lanes - 1
        found = (source(last - lane) for lane in range(self.s.lanes))
        return [n if n > last else last - n for n in found]

    def _prefixes(self, value: SSAValue) -> SSAValue:
        """Return the prefixes of a vector: for each lane, the aggregate of that lane and all lanes
        before it."""
        neutral, step = self._neutral, 1
        while step < self.s.lanes:

            def source(lane: int, step: int = step) -> int:
                return lane // step * step - 1 if lane & step else self.s.lanes

            before = shuffle(self.e, value, neutral, self._lanes(source))
            value = accumulate(self.e, self._kind, before, value)
            step *= 2
        return value

    def _spread_last(self, prefixes: SSAValue) -> SSAValue:
        """Return a vector with the last prefix, the aggregate of all lanes, in each lane."""
        last = self.s.lanes - 1
        return shuffle(self.e, prefixes, prefixes, self._lanes(lambda _: last))

    def _added(self, total: SSAValue, prefixes: SSAValue) -> SSAValue:
        """Return the aggregates at the values of a vector: ``total`` added to the prefixes. If a
        value's aggregate excludes the value itself, the prefixes move by one lane."""
        found = accumulate(self.e, self._kind, total, prefixes)
        if not self.running.exclusive:
            return found
        source = self._lanes(lambda lane: lane - 1 if lane else self.s.lanes)
        return shuffle(self.e, found, total, source)
