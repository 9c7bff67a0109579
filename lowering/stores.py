"""The end of a register tile: the post body, and stores of the results in bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import IntegerType, VectorType
from xdsl.ir import SSAValue

from tessella.dialects.arith import CASTS, SelectOp
from tessella.dialects.elements import find_element
from tessella.dialects.nn.core import tensor_type
from tessella.dialects.tile import ContractOp, ExtractOp
from tessella.dialects.tile.flat import Constraint
from tessella.dialects.tile.schedule_attributes import Schedule
from tessella.lowering.aggregate import horizontal
from tessella.lowering.body import Bodies
from tessella.lowering.loads import Loads
from tessella.lowering.point import Point
from tessella.lowering.transpose import interleave
from tessella.lowering.values import BlockEmitter, Pos, Val
from tessella.passes.tile.plan import AccessPlan
from tessella.support.conditions import decided
from tessella.support.sizes import bounds_of


@dataclass(frozen=True)
class Stores:
    """Emits the post body and the stores of a register tile."""

    e: BlockEmitter
    op: ContractOp
    s: Schedule
    plan: AccessPlan
    buffers: Sequence[SSAValue]
    bodies: Bodies
    loads: Loads

    def if_inside(self, point: Point, body: Callable[[], None]) -> None:
        """Run ``body`` for a register tile unless the whole tile is out of bounds."""
        self._if(point, 0, [c for c in self.plan.constraints.stores if not self._by_row(c)], body)

    def emit(self, point: Point, values: Sequence[Val]) -> None:
        """Run the post body on a tile's values, row by row, and store them.

        Rows out of bounds are redirected to the first row's address, and the first row is stored
        last. With a branch around the store, LLVM would sink the row's computation into it, keeping
        all operands live.
        """
        if self.plan.interleaves:
            self._interleaved(point, values)
            self.loads.forget()
            return
        by_row = [c for c in self.plan.constraints.stores if self._by_row(c)]
        overwritten = self._may_overwrite(by_row)
        rows = [*enumerate(point.rows)]
        for number, row in reversed(rows) if overwritten else rows:
            first = number * point.vectors
            mine = values[first : first + point.vectors]
            if overwritten:
                self._row(self._inside(point, row, by_row), 0, number, mine)
                continue
            self._if(point, row, by_row, partial(self._row, point, row, number, mine))
            if by_row:  # their values exist inside of the branch only
                self.loads.forget()
        self.loads.forget()

    def _interleaved(self, point: Point, values: Sequence[Val]) -> None:
        """Store the lanes of all rows interleaved, in contiguous vectors."""
        buffer, height, lanes = self.buffers[-1], len(point.rows), self.s.lanes
        for u in range(point.vectors):
            rows = [
                self._posted(point, row, u, number, values[number * point.vectors + u])
                for number, row in enumerate(point.rows)
            ]
            start, tail = self.loads.address(-1, point, 0, u), point.tail_of(u)
            size = height * (lanes if tail == 0 else tail)
            least, most = bounds_of(size)
            for i, chunk in enumerate(interleave(self.e, [self.e.spread(x) for x in rows])):
                first, at = i * lanes, self.e.at(start + i * lanes)
                if least >= first + lanes:
                    self.e.effect(vector.StoreOp.create(operands=[chunk, buffer, at]))
                elif most > first:
                    mask = self.e.lane_mask(size - first)
                    self.e.effect(vector.MaskedStoreOp(buffer, [at], mask, chunk))

    def _may_overwrite(self, by_row: Sequence[Constraint]) -> bool:
        """Return whether rows out of bounds may be stored at the first row's address: the first row
        must always be in bounds, and is stored last."""
        extracts = any(isinstance(each, ExtractOp) for each in self.op.post.walk())
        return (
            bool(by_row)
            and not extracts
            and self.op.ranges[self.s.rows or ""] == self.s.row_tile
            and all(self._is_inside(0, c) for c in by_row)
        )

    def _is_inside(self, row: int, c: Constraint) -> bool:
        """Return whether a row is in bounds for all values of other indices."""
        first, end = c.interior(self.s.rows or "", self.op.ranges)
        return decided(first <= row) and decided(row < end)

    def _inside(self, point: Point, row: int, by_row: Sequence[Constraint]) -> Point:
        """Return the position moved to a row; to the first row if this row is out of bounds."""
        value = Pos(None, row)
        unsure = [c for c in by_row if not self._is_inside(row, c)]
        if unsure:
            held = self._held(point, row, unsure)
            value = Pos(self.e.op(SelectOp(held, self.e.index(row), self.e.index(0))))
        read = self.plan.inputs  # the operands of the combine body have been read
        moved = [
            self.e.step(offset, value, plan.row_stride)
            for offset, plan in zip(point.offsets[read:], self.plan.operands[read:], strict=True)
        ]
        return replace(point, offsets=(*point.offsets[:read], *moved))

    def _by_row(self, c: Constraint) -> bool:
        return self.s.rows is not None and c.form.coefficient(self.s.rows) != 0

    def _if(
        self, point: Point, row: int, constraints: Sequence[Constraint], body: Callable[[], None]
    ) -> None:
        if constraints:
            self.e.when(self._held(point, row, constraints), body)
        else:
            body()

    def _held(self, point: Point, row: int, constraints: Sequence[Constraint]) -> SSAValue:
        """Emit the test whether a row satisfies all of the constraints."""
        held = [self.loads.holds(c, point, row).ssa for c in constraints]
        return reduce(lambda a, b: self.e.op(arith.AndIOp(a, b)), held)

    def _row(self, point: Point, row: int, number: int, values: Sequence[Val]) -> None:
        for u, value in enumerate(values):
            self.store(point, row, u, self._posted(point, row, u, number, value))

    def _posted(self, point: Point, row: int, u: int, number: int, value: Val) -> Val:
        """Apply the post body, if there is one."""
        if (block := self.op.post_block) is None:
            return value
        posts = [
            self.loads.load(n, point, row, u, None)
            for n in range(self.plan.inputs, len(self.buffers) - 1)
        ]
        tail = point.tail_of(u)
        return self.bodies.run(block, [value, *posts], point.indices, number, u, tail)

    def store(self, point: Point, row: int, u: int, value: Val) -> None:
        """Store a vector of the tile, or an element."""
        buffer = self.buffers[-1]
        at = self.e.at(self.loads.address(-1, point, row, u))
        if self.s.vector is None or self.plan.sums_lanes:
            self.e.effect(memref.StoreOp.create(operands=[value.ssa, buffer, at]))
            return
        spread, tail = self.e.spread(value), point.tail_of(u)
        if tail == 1 and self._may_be_truncated():
            first = self._first_lane(spread)
            self.e.effect(memref.StoreOp.create(operands=[first, buffer, at]))
        elif tail != 0:
            mask = self.e.lane_mask(tail)
            self.e.effect(vector.MaskedStoreOp(buffer, [at], mask, spread))
        else:
            self.e.effect(vector.StoreOp.create(operands=[spread, buffer, at]))

    def _may_be_truncated(self) -> bool:
        """Return whether LLVM might store too many bytes for one lane of a masked store.

        LLVM merges a truncation into the store, and then uses the width before the truncation.
        """
        stored = find_element(tensor_type(self.op.res).element_type)
        return stored is not None and stored.llvm in ("i8", "i16", "i32")

    def _first_lane(self, value: SSAValue) -> SSAValue:
        """Return the first lane of a vector, as the sum of the lanes with all others set to 0.

        Floats are summed as integers with their bits, as bf16 is i16 in LLVM code.
        """
        assert isinstance(value.type, VectorType)
        element = value.type.element_type
        stored = find_element(element)
        if stored is not None and stored.is_float:
            to = IntegerType(stored.bits)
            lanes = CASTS["arith.bitcast"](value, VectorType(to, value.type.get_shape()))
            first = self._first_lane(self.e.op(lanes))
            return self.e.op(CASTS["arith.bitcast"](first, element))
        mask, zero = self.e.lane_mask(1), self.bodies.zero(value.type)
        return horizontal(self.e, "+", [self.e.op(SelectOp(mask, value, zero))])
