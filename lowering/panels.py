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
    """Prefetches the next panels of a statement's operands."""

    e: BlockEmitter
    flat: Flat
    s: Schedule
    plan: AccessPlan
    buffers: Sequence[SSAValue]

    def at(self, point: Point) -> Point:
        """Return a register tile's point with ``line`` set to the first line of the next panel that
        the tile prefetches; the same point if nothing is prefetched."""
        if not self.s.prefetch or not any(o.is_panel for o in self.plan.read):
            return point
        return replace(point, line=self._line(point))

    def _line(self, point: Point) -> Pos:
        """Return the first line that a tile prefetches: each tile prefetches a different slice of
        the next panel."""
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
        """Prefetch the tile's slice of the lines that the next panel's tiles read at this point."""
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
        """The loops over the register tiles that share a panel, by index name, with their steps."""
        inside = self.s.order[self.s.order.index(self.s.vector or "") + 1 :]
        return {name: self.s.row_tile if name == self.s.rows else 1 for name in inside}

    @cached_property
    def _asked(self) -> int:
        """The number of lines that each register tile prefetches at a point.

        All tiles of the smallest possible panel together prefetch all lines.
        """
        ranges = {name: max(1, bounds_of(self.flat.ranges[name])[0]) for name in self._inside}
        tiles = product(ceil_div(ranges[n], step) for n, step in self._inside.items())
        return known(ceil_div(self.s.vectors, tiles))
