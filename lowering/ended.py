"""Ends of loops over reduced indices that depend on the elements of tensors, such as the lengths of
sequences (`dialects/tile/limits.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import SSAValue

from tessella.dialects.tile import ContractOp
from tessella.dialects.tile.flat import Flat
from tessella.dialects.tile.limits import Limit, limits, within_limits
from tessella.dialects.tile.schedule_attributes import Schedule
from tessella.lowering.aggregate import accumulate, horizontal
from tessella.lowering.body import Bodies
from tessella.lowering.loads import Loads
from tessella.lowering.point import Point
from tessella.lowering.values import BlockEmitter, Pos, Val


@dataclass(frozen=True)
class Ended:
    """Computes where the loops over a register tile's reduced indices end: at the greatest limit of
    its rows and lanes."""

    e: BlockEmitter
    op: ContractOp
    flat: Flat
    s: Schedule
    bodies: Bodies
    loads: Loads

    @cached_property
    def _limits(self) -> Mapping[str, Sequence[Limit]]:
        return {name: each for name, each in limits(self.op).items() if name in self.flat.ranges}

    @cached_property
    def value(self) -> SSAValue:
        """The value of the body that is accumulated up to the ends: without comparisons with limits
        at which the loops of all rows and lanes end."""
        tile = {self.s.rows, self.s.vector}

        def is_end(name: str, limit: Limit) -> bool:
            in_loop = name in self._limits and self.s.group(name) == 1 and name != self.s.vector
            return in_loop and not (limit.indices & tile or self._runs_by_rows(name))

        return within_limits(self.op, is_end)

    def _runs_by_rows(self, name: str) -> bool:
        """Return whether the bounds of the loop over an index differ between sets of rows."""
        return any(c.form.coefficient(name) for c in self.loads.plan.constraints.rows)

    def at(self, point: Point) -> Point:
        """Return the position of a register tile with the computed ends of its loops over reduced
        indices in ``stops``."""
        if not self._limits:
            return point
        stops = dict(point.stops)
        for name, found in self._limits.items():
            stop = stops.get(name, self.e.index(self.flat.ranges[name]))
            for limit in found:
                stop = self.e.op(arith.MinSIOp(stop, self._end(limit, point)))
            stops[name] = self.e.op(arith.MaxSIOp(stop, self.e.index(0)))
        self.loads.forget()
        return replace(point, stops=stops)

    def within(self, stops: Mapping[str, SSAValue], name: str, start: Pos) -> dict[str, SSAValue]:
        """Return the ends of the loops inside a partial sum over index ``name`` from ``start`` on.

        An end of ``name`` that was computed for the tile becomes relative to ``start``. Other ends
        of ``name`` are left out, as all partial sums are whole then.
        """
        found = {other: stop for other, stop in stops.items() if other != name}
        if name in self._limits:
            found[name] = self.e.op(arith.SubiOp(stops[name], self.e.at(start)))
        return found

    def _end(self, limit: Limit, point: Point) -> SSAValue:
        rows = point.rows if self.s.rows in limit.indices else point.rows[:1]
        vectors = range(point.vectors if self.s.vector in limit.indices else 1)
        found = [self._value(limit, point, row, u) for row in rows for u in vectors]
        end = self._greatest(found)
        if end.type != IndexType():
            end = self.e.op(arith.IndexCastOp(end, IndexType()))
        return self.e.op(arith.AddiOp(end, self.e.index(limit.more))) if limit.more else end

    def _value(self, limit: Limit, point: Point, row: int, u: int) -> Val:
        args: dict[SSAValue, Val] = {
            a: self.loads.load(a.index, point, row, u, None) for a in limit.arguments
        }
        block, tail = self.op.combine.block, point.tail_of(u)
        others = [op for op in block.ops if op not in limit.needed]
        values = self.bodies.values(block, args, point.indices, row, u, tail, others)
        return values[limit.value]

    def _greatest(self, found: Sequence[Val]) -> SSAValue:
        if any(value.varying for value in found):
            return horizontal(self.e, ">", [self.e.spread(value) for value in found])
        total = found[0].ssa
        for value in found[1:]:
            total = accumulate(self.e, ">", total, value.ssa)
        return total
