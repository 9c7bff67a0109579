"""The values at the points of a register tile, and their accumulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects import arith, math, vector
from xdsl.ir import Attribute, Operation, SSAValue

from tessella.dialects.arith import CASTS, SelectOp, element_of
from tessella.dialects.nn.core import tensor_type
from tessella.dialects.rt import PrefetchOp
from tessella.dialects.tile import ContractOp, YieldOp
from tessella.dialects.tile.bodies import yielded
from tessella.dialects.tile.schedule_attributes import Schedule
from tessella.dialects.tile.summed import SummedProduct
from tessella.lowering.aggregate import accumulate, greater
from tessella.lowering.body import Bodies
from tessella.lowering.dots import Dots
from tessella.lowering.loads import Loads
from tessella.lowering.panels import Panels
from tessella.lowering.point import Point
from tessella.lowering.prefetch import Ahead
from tessella.lowering.values import BlockEmitter, Val
from tessella.passes.tile.plan import AccessPlan


@dataclass(frozen=True)
class Combine:
    """Emits the combine body of a statement at the points of a register tile."""

    e: BlockEmitter
    op: ContractOp
    s: Schedule
    plan: AccessPlan
    bodies: Bodies
    loads: Loads
    panels: Panels
    ahead: Sequence[Ahead]
    blocks: SummedProduct | None
    """The product that partial sums add up, before they are scaled; None if nothing scales partial
    sums."""
    counted: SSAValue
    """The value of the body that is accumulated at a point."""

    @cached_property
    def element(self) -> Attribute:
        """The element type of the accumulators."""
        last = self.op.combine.block.last_op
        assert isinstance(last, YieldOp)
        return last.value.type

    def emit(self, point: Point, sums: Sequence[SSAValue], rows: Sequence[int]) -> list[Val]:
        """Emit the body at a point for all rows and vectors of a tile. Returns the tile's
        accumulators; for an elementwise statement, the values."""
        width = self.s.vectors if self.plan.sums_lanes else point.vectors
        results = [Val(v, self._varies) for v in sums]
        self.panels.ask(point)
        for row in self._whole(rows):
            for u in range(point.vectors):
                self._ask(point, row, u)
                if self.op.is_map:
                    results.append(self._mapped(point, row, u))
                else:
                    slot = row * width + u
                    results[slot] = self._added(point, row, u, results[slot].ssa, rows)
        self.loads.forget()
        return results

    def _whole(self, rows: Sequence[int]) -> Sequence[int]:
        """Return ``rows``, and the other rows that a dot product instruction computes together with
        them."""
        height = self.s.height
        if height == 1:
            return rows
        firsts = dict.fromkeys(row - row % height for row in rows)
        return [first + i for first in firsts for i in range(height)]

    def _ask(self, point: Point, row: int, u: int) -> None:
        """Emit the prefetches in ``ahead`` that accompany the reads of this row and vector of the
        tile."""
        for ahead in self.ahead:
            if u * self.s.lanes % ahead.line == 0:
                pos = self.loads.address(ahead.operand, point, row, u) + ahead.shift
                at = self.e.at(pos)
                self.e.effect(PrefetchOp(ahead.buffer, at, level=1, write=ahead.write))

    @property
    def part_element(self) -> Attribute:
        """The element type of the accumulators of partial sums."""
        return self.element if self.blocks is None else self.blocks.op.results[0].type

    @property
    def _varies(self) -> bool:
        return self.s.vector is not None

    # ** elementwise statements **

    def _mapped(self, point: Point, row: int, u: int) -> Val:
        mask = self.loads.mask(point, row, u)
        args = [self.loads.load(n, point, row, u, mask) for n in range(self.plan.inputs)]
        tail = point.tail_of(u)
        value = self.bodies.run(self.op.combine.block, args, point.indices, row, u, tail)
        return value if mask is None else self._default(value, mask)

    def _default(self, value: Val, mask: Val) -> Val:
        default = self.op.default
        assert default is not None, "an assignment that leaves its operands has a default"
        other = self.e.constant(default, tensor_type(self.op.res).element_type)
        if not (mask.varying or value.varying):
            return Val(self.e.op(SelectOp(mask.ssa, value.ssa, other)))
        spread = self.e.spread(Val(other))
        chosen = SelectOp(self.e.spread(mask), self.e.spread(value), spread)
        return Val(self.e.op(chosen), varying=True)

    # ** sums **

    def value(self, point: Point, row: int, u: int, neutral: SSAValue) -> SSAValue:
        """Return a vector of the body's values at a point, with ``neutral`` in invalid lanes."""
        self._ask(point, row, u)
        mask = self.loads.mask(point, row, u)
        args = [self.loads.load(n, point, row, u, mask) for n in range(self.plan.inputs)]
        place = (point.indices, row, u, point.tail_of(u))
        value = self.e.spread(self.bodies.run(self.op.combine.block, args, *place))
        if mask is None:
            return value
        return self.e.op(SelectOp(self.e.spread(mask), value, neutral))

    @cached_property
    def _dots(self) -> Dots | None:
        if self.s.dot is None:
            return None
        return Dots(self.e, self.op, self.s, self.plan, self.bodies, self.loads, self.s.dot)

    def by_rows(self, sums: Sequence[SSAValue], width: int) -> Sequence[SSAValue]:
        """Return the vectors of sums row by row, from accumulators that may each hold lanes of
        several rows."""
        if self._dots is None or self.s.height == 1:
            return sums
        return self._dots.by_rows(sums, width)

    @cached_property
    def _is_multiply_add(self) -> bool:
        return self.op.is_multiply_add

    @cached_property
    def _product(self) -> arith.MulfOp | None:
        return self.op.product_of(self.counted)

    @cached_property
    def _number(self) -> arith.MaxnumfOp | None:
        return self.op.greatest_number

    def _added(self, point: Point, row: int, u: int, old: SSAValue, rows: Sequence[int]) -> Val:
        if self._dots is not None:
            return Val(self._dots.added(point, row, u, old, rows), self._varies)
        if self.blocks is not None:
            return Val(self._unscaled(self.blocks, point, row, u, old), self._varies)
        mask, inputs = self.loads.mask(point, row, u), range(self.plan.inputs)
        if self._is_multiply_add:
            args = [self.loads.load_or_zero(n, point, row, u, mask) for n in inputs]
            return Val(self._fma([self._widened(x) for x in args], old), self._varies)
        args = [self.loads.load(n, point, row, u, mask) for n in inputs]
        new = self._counted(point, row, u, args, old)
        if mask is not None:
            new = self.e.op(SelectOp(self.e.spread(mask), new, old))
        return Val(new, self._varies)

    def _unscaled(
        self, product: SummedProduct, point: Point, row: int, u: int, old: SSAValue
    ) -> SSAValue:
        """Return an accumulator after the unscaled product at a point is added to ``old``. Once a
        block of products is summed, ``total`` scales the sum."""
        args = self._loaded(product, product.operands, point, row, u)
        place, others = (point.indices, row, u, point.tail_of(u)), product.others
        values = self.bodies.values(product.block, args, *place, left_out=others)
        a, b = (values[x] for x in product.op.operands)
        if isinstance(product.op, arith.MulfOp):
            return self._fma([a, b], old)
        both = self.e.op(arith.MuliOp(self.e.spread(a), self.e.spread(b)))
        return accumulate(self.e, self.op.aggregation.data, old, both)

    def _loaded(
        self, product: SummedProduct, operands: Sequence[int], point: Point, row: int, u: int
    ) -> dict[SSAValue, Val]:
        """Load operands, and return a map to them from the arguments of the body that stand for
        them."""
        arguments = product.block.args
        return {arguments[n]: self.loads.load(n, point, row, u, None) for n in operands}

    def total(self, point: Point, row: int, u: int, part: SSAValue, old: SSAValue) -> SSAValue:
        """Return the accumulator of a vector after the partial sum ``part`` is added to ``old``;
        the sum of a block is scaled first."""
        kind, product = self.op.aggregation.data, self.blocks
        if product is None:
            return accumulate(self.e, kind, old, part)
        block, place = product.block, (point.indices, row, u, point.tail_of(u))
        args = self._loaded(product, product.scales, point, row, u)
        args[product.op.results[0]] = Val(part, self._varies)
        last = yielded(block).owner
        if not isinstance(last, arith.MulfOp):
            values = self.bodies.values(block, args, *place, left_out=product.inside)
            return accumulate(self.e, kind, old, self.e.spread(values[yielded(block)]))
        left_out = {*product.inside, last}
        values = self.bodies.values(block, args, *place, left_out=left_out)
        return self._fma([values[x] for x in last.operands], old)

    def _counted(
        self, point: Point, row: int, u: int, args: Sequence[Val], old: SSAValue
    ) -> SSAValue:
        """Return the accumulator after the body's value at a point is added to ``old``.

        A sum of products becomes a multiply-add, and a maximum that ignores NaN one comparison with
        a select.
        """
        place, last = (point.indices, row, u, point.tail_of(u)), self._product or self._number
        left_out = self._beyond if last is None else {*self._beyond, last}
        block = self.op.combine.block
        known: dict[SSAValue, Val] = dict(zip(block.args, args, strict=True))
        values = self.bodies.values(block, known, *place, left_out)
        if last is None:
            new = self.e.spread(values[self.counted])
            return accumulate(self.e, self.op.aggregation.data, old, new)
        operands = [values[each] for each in last.operands]
        if self._product is not None:
            return self._fma(operands, old)
        return greater(self.e, self.e.spread(operands[0]), old)

    @cached_property
    def _beyond(self) -> frozenset[Operation]:
        """The ops that choose the value that is accumulated, whose choice is known."""
        found, value = set[Operation](), yielded(self.op.combine.block)
        while value is not self.counted:
            assert isinstance(value.owner, Operation)
            found.add(value.owner)
            _, value, _ = value.owner.operands
        return frozenset(found)

    def _widened(self, x: Val) -> Val:
        """Widen an operand of a product to the accumulator's element, once for each load."""
        if element_of(x.ssa.type) == self.element:
            return x
        to = self.e.vector_type(self.element) if x.varying else self.element
        make = CASTS["arith.extf"]
        return self.bodies.cached(
            ("widened", x.ssa), lambda: Val(self.e.op(make(x.ssa, to)), x.varying)
        )

    def _fma(self, args: Sequence[Val], total: SSAValue) -> SSAValue:
        if self.s.vector is None:
            return self.e.op(math.FmaOp(args[0].ssa, args[1].ssa, total))
        a, b = (self.e.spread(x) for x in args)
        return self.e.add(vector.FMAOp, [a, b, total], total.type)
