"""Dot products: groups of values that one instruction multiplies and adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects import vector
from xdsl.dialects.builtin import IntegerType, MemRefType, VectorType
from xdsl.ir import SSAValue

from tessella.dialects.arith import SelectOp
from tessella.dialects.nn.core import number
from tessella.dialects.rt import DotOp
from tessella.dialects.tile import ContractOp, Dot
from tessella.dialects.tile.schedule_attributes import Schedule
from tessella.dialects.tile.summed import SummedProduct
from tessella.lowering.body import Bodies
from tessella.lowering.loads import Loads
from tessella.lowering.point import Point
from tessella.lowering.transpose import joined, transpose
from tessella.lowering.values import BlockEmitter, Pos, Val
from tessella.passes.tile.plan import AccessPlan


@dataclass(frozen=True)
class Dots:
    """Emits the products of a statement whose schedule names a dot instruction."""

    e: BlockEmitter
    op: ContractOp
    s: Schedule
    plan: AccessPlan
    bodies: Bodies
    loads: Loads
    dot: Dot

    def added(self, point: Point, row: int, u: int, old: SSAValue, rows: Sequence[int]) -> SSAValue:
        """Return the accumulator of a vector after a group of products is added to ``old``. If the
        instruction computes several rows at a time, only those in ``rows`` change."""
        if self.s.height > 1:
            return self._added_to_rows(point, row, u, old, rows)
        mask = self.loads.mask(point, row, u)
        a, b = (self._factor(n, point, row, u, mask) for n in range(2))
        first, second = (b, a) if self._swaps else (a, b)
        new = self.e.op(DotOp(old, first, second, self.dot.instruction))
        return new if mask is None else self.e.op(SelectOp(mask.ssa, new, old))

    def _factor(self, number: int, point: Point, row: int, u: int, mask: Val | None) -> SSAValue:
        """Return the groups of values of a factor of the product: loaded, or computed by the body
        from an operand."""
        operand, decoding = self.product.operands[number], self.product.decoding(number)
        groups = self._groups(operand, point, row, u, mask)
        if not decoding:
            return groups
        return self.bodies.cached(
            ("decoded", operand, groups), lambda: self._decoded(number, groups, point, row, u)
        ).ssa

    def _decoded(self, number: int, groups: SSAValue, point: Point, row: int, u: int) -> Val:
        """Emit those ops of the body that compute a factor from an operand. They run on a vector
        with all values of the operand's groups."""
        assert isinstance(groups.type, VectorType)
        product, lanes = self.product, self.e.lanes
        argument = product.block.args[product.operands[number]]
        others = {op for op in product.block.ops if op not in product.decoding(number)}
        self.e.lanes = groups.type.get_shape()[0]
        args: dict[SSAValue, Val] = {argument: Val(groups, varying=True)}
        values = self.bodies.values(product.block, args, point.indices, row, u, 0, others)
        self.e.lanes = lanes
        return values[product.factors[number]]

    def _groups(self, operand: int, point: Point, row: int, u: int, mask: Val | None) -> SSAValue:
        """Return an operand's groups of values. For an instruction with groups of one value, return
        a vector of the values."""
        if self.dot.row.k > 1:
            return self._operand(operand, point, row, u, self.s.lanes, mask)
        return self.e.spread(self.loads.load(operand, point, row, u, mask))

    def _added_to_rows(
        self, point: Point, row: int, u: int, old: SSAValue, rows: Sequence[int]
    ) -> SSAValue:
        """Return an accumulator, which holds some lanes of all rows that the instruction computes
        together, after a group of products is added.

        The operands of rows that are not in ``rows`` are 0, so that their sums do not change.
        """
        number, columns = row % self.s.height, self.dot.row.columns(self.s.lanes)
        of_rows, of_lanes = sorted(range(2), key=lambda i: self.plan.operands[i].by_vector)
        zeros = self._zeros(of_rows, self.dot.row.k)
        a = [
            self._operand(of_rows, point, each, u, 1) if each in rows else zeros
            for each in range(row - number, row - number + self.s.height)
        ]
        b = self._operand(of_lanes, point, 0, u, columns, first=number * columns)
        return self.e.op(DotOp(old, self._joined(a), b, self.dot.instruction))

    def _joined(self, groups: Sequence[SSAValue]) -> SSAValue:
        key = ("joined", *groups)
        return self.bodies.cached(key, lambda: Val(joined(self.e, groups))).ssa

    def by_rows(self, sums: Sequence[SSAValue], width: int) -> list[SSAValue]:
        """Split accumulators of several rows into the vectors of each row."""
        height, columns = self.s.height, self.dot.row.columns(self.s.lanes)
        result = list(sums)
        for first in range(0, len(sums), height * width):
            for u in range(width):
                at = slice(first + u, first + height * width, width)
                result[at] = transpose(self.e, sums[at], self.s.lanes, columns)
        return result

    @cached_property
    def _swaps(self) -> bool:
        """True if the instruction takes the operands of the statement's product in reverse
        order."""
        found = self.product.elements
        assert found is not None
        return self.dot.row.swaps(found.a.name, found.b.name) is True

    @cached_property
    def product(self) -> SummedProduct:
        """The product that the statement sums."""
        found = self.op.summed
        assert found is not None
        return found

    def _operand(
        self,
        operand: int,
        point: Point,
        row: int,
        u: int,
        groups: int,
        mask: Val | None = None,
        *,
        first: int = 0,
    ) -> SSAValue:
        """Return an operand's groups of values: ``groups`` of them from lane ``first`` on, or one
        group that all lanes share."""
        plan, pos = self.plan.operands[operand], self.loads.address(operand, point, row, u)
        guard = mask if plan.guards else None
        groups, left = (groups, 0) if plan.by_vector else (1, point.left)
        pos += first * plan.stride
        return self.bodies.cached(
            ("groups", operand, pos, left, guard and guard.ssa),
            lambda: Val(self._load(operand, pos, groups, left, guard)),
        ).ssa

    def _load(self, operand: int, pos: Pos, groups: int, left: int, guard: Val | None) -> SSAValue:
        """Load contiguous values. With ``left``, those after the first ``left`` are 0.

        If ``guard`` is false at run time, the load reads the beginning of the tensor instead, and
        its values are not used.
        """
        buffer, at = self.loads.buffers[operand], self.e.at(pos)
        assert isinstance(buffer.type, MemRefType)
        element, size = buffer.type.element_type, groups * self.dot.row.k
        type = VectorType(element, [size])
        if guard is not None:
            at = self.e.op(SelectOp(guard.ssa, at, self.e.index(0)))
        if left == 0:
            return self.e.add(vector.LoadOp, [buffer, at], type)
        zeros, mask = self._zeros(operand, size), self._first(left, size)
        return self.e.op(vector.MaskedLoadOp(buffer, [at], mask, zeros, type))

    def _zeros(self, operand: int, size: int) -> SSAValue:
        """Return a vector of zeros of an operand's element."""
        buffer = self.loads.buffers[operand].type
        assert isinstance(buffer, MemRefType)
        element = buffer.element_type
        type, zero = VectorType(element, [size]), self.e.constant(number(0, element), element)
        return self.e.shared(("zeros", type), (), lambda: self.e.op(vector.BroadcastOp(zero, type)))

    def _first(self, count: int, size: int) -> SSAValue:
        """Return a mask of ``size`` lanes, true in the first ``count``."""
        type, bound = VectorType(IntegerType(1), [size]), self.e.index(count)
        return self.e.shared(
            ("first", count, size), (), lambda: self.e.op(vector.CreateMaskOp([bound], type))
        )
