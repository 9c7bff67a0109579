"""An indexed write, such as a scatter: the computed addresses, and the values that are stored
there.

    for i:
      at = body(idx[i])          // as soon as the loops know its operands
      if at < 1000:
        for j: out[64*at + j] += u[i, j]

Every write stays within the result: computed coordinates are compared with the dimensions' ranges,
and with the range of coordinates that this thread writes if threads divide them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from tessella.dialects.arith import CmpiOp
from tessella.dialects.rt import CheckOp
from tessella.dialects.tile import ContractOp
from tessella.dialects.tile.attributes import Index
from tessella.dialects.tile.bodies import coordinates_of, yielded
from tessella.dialects.tile.flat import Flat
from tessella.dialects.tile.schedule_attributes import Schedule
from tessella.lowering.aggregate import accumulate
from tessella.lowering.body import Bodies
from tessella.lowering.loads import Loads
from tessella.lowering.point import Point
from tessella.lowering.stores import Stores
from tessella.lowering.values import BlockEmitter, Pos, Val
from tessella.passes.tile.places import of_places, of_values, place_indices

Share = tuple[SSAValue, SSAValue]


@dataclass(frozen=True)
class Writes:
    """Emits the loops inside an indexed write's coordinates, and the reads and writes of its
    elements."""

    e: BlockEmitter
    op: ContractOp
    flat: Flat
    s: Schedule
    bodies: Bodies
    loads: Loads
    stores: Stores
    share: Share | None
    """The first value and the end of the parallel index's values that this thread runs; None if
    threads do not divide the statement."""

    @cached_property
    def inside(self) -> tuple[str, ...]:
        """The indices of the loops that run with fixed coordinates: those inside the innermost loop
        that the coordinates depend on."""
        known = place_indices(self.op, self.flat)
        last = max((i for i, name in enumerate(self.s.order) if name in known), default=-1)
        return self.s.order[last + 1 :]

    def enter(self, point: Point, body: Callable[[Point], None]) -> None:
        """Compute the coordinates of a point, and emit ``body`` for the case that they are in range
        and fall to this thread."""
        held = [self.loads.holds(c, point, 0).ssa for c in self.loads.plan.constraints.masked]
        if held:
            self.e.when(self._all(held), lambda: self._enter(point, body))
        else:
            self._enter(point, body)
        self.loads.forget()

    def _enter(self, point: Point, body: Callable[[Point], None]) -> None:
        values = self._body(point, 0, of_places(self.op))
        start, held = point.offsets[-1], list[SSAValue]()
        yields = coordinates_of(self.op.combine.block)
        for index, coordinate in zip(self.op.scattered, yields, strict=True):
            at = values[coordinate].ssa
            held += self._held(index, at)
            start = self.e.step(start, Pos(at), self.flat.out.stride(index.name))
        placed = replace(point, offsets=(*point.offsets[:-1], start), placed=True)
        self.e.when(self._all(held), lambda: body(placed))

    def _held(self, index: Index, at: SSAValue) -> list[SSAValue]:
        """Return the conditions for a coordinate: it is in range, and it falls to this thread."""
        inside = self.e.op(CmpiOp(at, self.e.index(index.range), "ult"))
        if self.op.checked is not None:
            self.e.effect(CheckOp(inside, self.bodies.code))
        if self.share is None or self.s.parallel is None or self.s.parallel[0] != index.name:
            return [inside]
        first, stop = self.share
        above = self.e.op(CmpiOp(at, first, "sge"))
        return [inside, above, self.e.op(CmpiOp(at, stop, "slt"))]

    def _all(self, held: Sequence[SSAValue]) -> SSAValue:
        return reduce(lambda a, b: self.e.op(arith.AndIOp(a, b)), held)

    def emit(self, point: Point) -> None:
        """Combine the values of a tile of lanes with the result's elements at the computed
        coordinates."""
        kind, block = self.op.aggregation.data, self.op.combine.block
        for u in range(point.vectors):
            value = self._body(point, u, of_values(self.op))[yielded(block)]
            if kind != "=":
                varying = self.s.vector is not None
                old = self.loads.current(point, u).ssa
                new = self.e.spread(value) if varying else value.ssa
                value = Val(accumulate(self.e, kind, old, new), varying)
            self.stores.store(point, 0, u, value)
        self.loads.forget()

    def _body(self, point: Point, u: int, wanted: set[SSAValue]) -> dict[SSAValue, Val]:
        """Return the wanted values of the body at a vector of the tile."""
        block, tail = self.op.combine.block, point.tail_of(u)
        args: dict[SSAValue, Val] = {
            argument: self.loads.load(n, point, 0, u, None)
            for n, argument in enumerate(block.args)
            if argument in wanted
        }
        others: set[Operation] = {op for op in block.ops if not wanted.intersection(op.results)}
        return self.bodies.values(block, args, point.indices, 0, u, tail, others)
