"""Prefetches of the next panel of packed operands, by the register tiles that share a panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from tessella.dialects.rt import PrefetchOp
from tessella.dialects.tile.flat import Flat
from tessella.dialects.tile.schedule_attributes import Schedule
from tessella.lowering.point import Point
from tessella.lowering.values import BlockEmitter, Pos
from tessella.passes.tile.plan import AccessPlan
from tessella.support.decisions import known
from tessella.support.sizes import bounds_of, ceil_div, product


@dataclass(frozen=True)
class Panels:
    """Emits prefetches of the packed panels that the register tiles read next."""

    e: BlockEmitter
    flat: Flat
    s: Schedule
    plan: AccessPlan
    buffers: Sequence[SSAValue]

    def at(self, point: Point) -> Point:
        """Return a register tile's position with ``line`` set to the first cache line of the next
        panel that this tile prefetches. If nothing is prefetched, the position is unchanged."""
        if not self.s.prefetch or not any(o.is_panel for o in self.plan.read):
            return point
        return replace(point, line=self._line(point))

    def _line(self, point: Point) -> Pos:
        """Return the number of the first cache line that a tile prefetches. Each of the tiles that
        share a panel prefetches other lines of the next one."""
        number, values = AffineExpr.constant(0), list[SSAValue]()
        for name, step in self._inside.items():
            pos = point.indices[name]
            if pos.ssa is not None:
                number += AffineExpr.dimension(len(values)) // step
                values.append(pos.ssa)
        if not values:
            return Pos()
        groups = known(ceil_div(self.s.vectors, self._asked))
        return Pos(self.e.apply(number % groups * self._asked, values))

    def ask(self, point: Point) -> None:
        """Emit prefetches of those lines that the next panel has for this point and that fall to
        this tile."""
        if point.line is None or self.s.vector is None:
            return
        for operand, plan in enumerate(self.plan.read):
            if plan.is_panel:
                stride = self.flat.accesses[operand].stride(self.s.vector)
                next_panel = point.offsets[operand] + self.s.width * stride
                for line in range(self._asked):
                    pos = self.e.step(next_panel, point.line + line, self.s.lanes * plan.stride)
                    self.e.effect(PrefetchOp(self.buffers[operand], self.e.at(pos)))

    @cached_property
    def _inside(self) -> Mapping[str, int]:
        """The loops that run over the register tiles of one panel, by index, with their steps."""
        inside = self.s.order[self.s.order.index(self.s.vector or "") + 1 :]
        return {name: self.s.row_tile if name == self.s.rows else 1 for name in inside}

    @cached_property
    def _asked(self) -> int:
        """The number of cache lines that each register tile prefetches at a point.

        It is large enough that all tiles of a panel together prefetch all lines, even if a symbolic
        range is as short as it can be.
        """
        ranges = {name: max(1, bounds_of(self.flat.ranges[name])[0]) for name in self._inside}
        tiles = product(ceil_div(ranges[n], step) for n, step in self._inside.items())
        return known(ceil_div(self.s.vectors, tiles))
