"""The loads of a register tile, as planned for each operand, and the masks of valid lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, MemRefType, i32
from xdsl.ir import SSAValue

from tessella.dialects.arith import CmpiOp, SelectOp, element_of
from tessella.dialects.nn.core import number
from tessella.dialects.tile.flat import Constraint, Flat
from tessella.dialects.tile.schedule_attributes import Schedule
from tessella.lowering.aggregate import horizontal
from tessella.lowering.body import Bodies
from tessella.lowering.point import Point
from tessella.lowering.transpose import pick, transpose
from tessella.lowering.values import INDEX, BlockEmitter, Pos, Val
from tessella.passes.tile.plan import Access, AccessPlan, OperandPlan
from tessella.support.conditions import decided
from tessella.support.decisions import decided_min, known
from tessella.support.sizes import Expr, Size, bounds_of, expression, round_up


@dataclass
class Loads:
    """Emits the loads of a statement's operands. A load is cached until ``forget`` is called."""

    e: BlockEmitter
    flat: Flat
    s: Schedule
    plan: AccessPlan
    buffers: Sequence[SSAValue]
    bodies: Bodies
    transposed: dict[tuple[int, int], list[SSAValue]] = field(
        default_factory=dict[tuple[int, int], list[SSAValue]]
    )
    """The rows of transposed square blocks, by operand and vector."""

    def forget(self) -> None:
        """Drop all cached loads."""
        self.bodies.forget()
        self.transposed.clear()

    def address(self, operand: int, point: Point, row: int, u: int) -> Pos:
        """Return the offset in memory at which an operand's vector number ``u`` begins in a row of
        the register tile."""
        plan = self.plan.operands[operand]
        lane, start = u * self.s.lanes, point.offsets[operand] + row * plan.row_stride
        if plan.access is not Access.PACKED:
            return start + lane * plan.stride
        panel, lane = divmod(lane, plan.room)
        stride = self.flat.accesses[operand].stride(self.s.vector or "")
        return start + (panel * plan.room * stride + lane * plan.stride)

    def load(self, operand: int, point: Point, row: int, u: int, mask: Val | None) -> Val:
        """Load an operand's vector number ``u`` in a row of the register tile, or the one element
        that all lanes share."""
        return self._loaders[self.plan.operands[operand].access](operand, point, row, u, mask)

    def current(self, point: Point, u: int) -> Val:
        """Load the present values of the result's vector number ``u``."""
        buffer, pos = self.buffers[-1], self.address(-1, point, 0, u)
        if self.s.vector is None:
            return self._element_now(buffer, pos, None)
        return self._vector_now(buffer, pos, None, point.tail_of(u))

    def load_or_zero(self, operand: int, point: Point, row: int, u: int, mask: Val | None) -> Val:
        """Load an operand, with zeros in masked lanes."""
        value, plan = self.load(operand, point, row, u, mask), self.plan.operands[operand]
        if mask is None or self._is_zeroed(plan, point):
            return value
        return self.bodies.cached(
            ("or zero", value.ssa, mask.ssa), lambda: self._or_zero(value, mask)
        )

    def _is_zeroed(self, plan: OperandPlan, point: Point) -> bool:
        """Return whether an operand's masked load has already put zeros into all invalid lanes."""
        if plan.access not in (Access.CONTIGUOUS, Access.PACKED):
            return False
        others = any(self._active(self.plan.constraints.masked, point))
        return bool(plan.guards) or not (others or self._has_room(plan))

    def _or_zero(self, value: Val, mask: Val) -> Val:
        element = element_of(value.ssa.type)
        zero = self.e.constant(number(0, element), element)
        if not (mask.varying or value.varying):
            return Val(self.e.op(SelectOp(mask.ssa, value.ssa, zero)))
        spread, zeros = self.e.spread(value), self.bodies.spread_constant(zero)
        return Val(self.e.op(SelectOp(self.e.spread(mask), spread, zeros)), varying=True)

    @cached_property
    def _loaders(self) -> dict[Access, Callable[[int, Point, int, int, Val | None], Val]]:
        return {
            Access.BROADCAST: self._load_element,
            Access.CONTIGUOUS: self._load_vector,
            Access.PACKED: self._load_vector,
            Access.STRIDED: self._load_strided,
            Access.TRANSPOSED: self._load_transposed,
        }

    def _load_element(self, operand: int, point: Point, row: int, u: int, mask: Val | None) -> Val:
        buffer, pos = self.buffers[operand], self.address(operand, point, row, u)
        guard = self._element_guard(operand, point, row, u, mask)
        return self.bodies.cached(
            ("element", buffer, pos, guard and guard.ssa),
            lambda: self._element_now(buffer, pos, guard),
        )

    def _load_vector(self, operand: int, point: Point, row: int, u: int, mask: Val | None) -> Val:
        plan, buffer = self.plan.operands[operand], self.buffers[operand]
        pos = self.address(operand, point, row, u)
        tail = 0 if self._has_room(plan) else point.tail_of(u)
        guard = mask if plan.guards else None
        return self.bodies.cached(
            ("vector", buffer, pos, guard and guard.ssa, tail),
            lambda: self._vector_now(buffer, pos, guard, tail),
        )

    def _has_room(self, plan: OperandPlan) -> bool:
        """Return whether whole vectors at the end of the vector index still lie in the operand's
        memory, beyond the index's last element, so that they need no mask."""
        if plan.room == 0:
            return False
        if self.s.width % plan.room == 0:
            return True
        whole = round_up(self.flat.ranges[self.s.vector or ""], self.s.lanes)
        return decided(plan.room >= decided_min(self.s.width, whole))

    def _element_guard(
        self, operand: int, point: Point, row: int, u: int, mask: Val | None
    ) -> Val | None:
        """Return the condition under which the one element that all lanes share may be loaded; None
        if there is no condition."""
        own = self.plan.operands[operand].guards
        if mask is None or not own:
            return None
        if not mask.varying:
            return mask
        held = [self.holds(c, point, row, u) for c in self._active(own, point)]
        return self._all([self._any(h) if h.varying else h for h in held])

    def _any(self, mask: Val) -> Val:
        key = ("any", mask.ssa)
        return Val(self.e.shared(key, (mask.ssa,), lambda: horizontal(self.e, "+", [mask.ssa])))

    def _load_transposed(self, operand: int, point: Point, row: int, u: int, _: Val | None) -> Val:
        """Return a row of a square block whose lanes are not contiguous. The block's vectors are
        loaded along the index of the rows, in which the operand is contiguous, and transposed."""
        key = (operand, u)
        if key not in self.transposed:
            stride, buffer = self.plan.operands[operand].stride, self.buffers[operand]
            start = self.address(operand, point, 0, u)
            height = len(point.rows) % self.s.lanes
            loaded = [
                self._vector_now(buffer, self.e.step(start, lane, stride), None, height).ssa
                for lane in self._lanes(point.tail_of(u))
            ]
            self.transposed[key] = transpose(self.e, loaded, self.s.lanes)
        return Val(self.transposed[key][row], varying=True)

    def _lanes(self, tail: Size) -> Iterator[Pos]:
        """Yield the numbers of the valid lanes.

        If the number of valid lanes is symbolic, yield a number for every lane; lanes beyond the
        last valid one repeat its number.
        """
        if expression(tail) is None:
            yield from (Pos(None, lane) for lane in range(tail or self.s.lanes))
            return
        last = Pos(self.e.index(tail - 1))
        yield from (self.e.min(Pos(None, lane), last) for lane in range(self.s.lanes))

    def _load_strided(self, operand: int, point: Point, row: int, u: int, mask: Val | None) -> Val:
        """Load every ``stride``-th element: ``stride`` vectors are loaded, and their elements are
        selected."""
        stride = self.plan.operands[operand].stride
        start = self.address(operand, point, row, u)
        tail = point.tail_of(u)
        # The loads end at the last lane's element.
        size = ((self.s.lanes if tail == 0 else tail) - 1) * stride + 1

        most = self.s.lanes * stride

        def load() -> Val:
            chunks = [
                self._load_chunk(operand, start, point, row, u, first, size - first)
                for first in range(0, min(bounds_of(size)[1], known(most)), self.s.lanes)
            ]
            return Val(pick(self.e, chunks, known(stride)), varying=True)

        return self.bodies.cached((operand, start, mask.ssa if mask else None, size), load)

    def _load_chunk(
        self, operand: int, start: Pos, point: Point, row: int, u: int, first: int, size: Size
    ) -> SSAValue:
        """Load a vector of contiguous elements of an operand from the element ``first`` on; memory
        beyond ``size`` elements is not read."""
        guards = self.plan.operands[operand].guards
        masks = [self.holds(c, point, row, u, first) for c in self._active(guards, point)]
        if bounds_of(size)[0] < self.s.lanes:
            masks.append(Val(self.e.lane_mask(size), varying=True))
        return self._vector_now(self.buffers[operand], start + first, self._all(masks), 0).ssa

    def _element_now(self, buffer: SSAValue, pos: Pos, guard: Val | None) -> Val:
        at = self.e.at(pos)
        if guard is not None:
            at = self.e.op(SelectOp(guard.ssa, at, self.e.index(0)))
        assert isinstance(buffer.type, MemRefType)
        return Val(self.e.add(memref.LoadOp, [buffer, at], buffer.type.element_type))

    def _vector_now(self, buffer: SSAValue, pos: Pos, mask: Val | None, tail: Size) -> Val:
        at = self.e.at(pos)
        assert isinstance(buffer.type, MemRefType)
        type = self.e.vector_type(buffer.type.element_type)
        lanes = [Val(self.e.lane_mask(tail), varying=True)] if tail != 0 else []
        counting = self._all([*lanes, mask] if mask is not None else lanes)
        if counting is None:
            return Val(self.e.add(vector.LoadOp, [buffer, at], type), varying=True)
        operands = [buffer, at, self.e.spread(counting), self.bodies.zero(type)]
        return Val(self.e.add(vector.MaskedLoadOp, operands, type), varying=True)

    def mask(self, point: Point, row: int, u: int) -> Val | None:
        """Return the condition under which a point contributes to the result, as a scalar or a mask
        of the lanes; None if there is no condition."""
        active = self._active(self.plan.constraints.masked, point)
        masks = [self.holds(c, point, row, u) for c in active]
        if self.plan.adds_lanes and (tail := point.tail_of(u)) != 0:
            masks.append(Val(self.e.lane_mask(tail), varying=True))
        return self._all(masks)

    def _active(self, constraints: Sequence[Constraint], point: Point) -> Iterator[Constraint]:
        """Yield the constraints that masks must enforce at a point. Constraints on the lanes are
        enforced only if the point is ``masked``."""
        lanes = self.plan.constraints.lanes
        return (c for c in constraints if point.masked or c not in lanes)

    def _all(self, masks: Sequence[Val]) -> Val | None:
        """Return the conjunction of conditions, cached."""
        if not masks:
            return None
        total = masks[0]
        for other in masks[1:]:
            varying = total.varying or other.varying
            a, b = (self._spread(m) if varying else m.ssa for m in (total, other))
            both = self.e.shared(
                ("and", a, b), (a, b), lambda a=a, b=b: self.e.op(arith.AndIOp(a, b))
            )
            total = Val(both, varying)
        return total

    def _spread(self, mask: Val) -> SSAValue:
        """Broadcast a condition that all lanes share to a mask, cached."""
        if mask.varying or self.e.lanes == 1:
            return mask.ssa
        type = self.e.vector_type(mask.ssa.type)
        return self.e.shared(
            ("spread mask", mask.ssa),
            (mask.ssa,),
            lambda: self.e.op(vector.BroadcastOp(mask.ssa, type)),
        )

    def holds(
        self, c: Constraint, point: Point, row: int, u: int = 0, element: int | None = None
    ) -> Val:
        """Test a constraint, ``0 <= form < extent``, by one unsigned comparison, which is cached.

        The result is a scalar if the constraint's affine expression does not depend on the lanes'
        index, otherwise a mask of the lanes. With ``element``, it is a mask for a vector of
        contiguous elements of an operand, beginning ``element`` elements after that of the first
        lane.
        """
        terms: list[tuple[SSAValue, int]] = []
        constant: Size = c.form.constant
        lane = 0
        for name, k in c.form.terms:
            pos = point.indices.get(name, Pos())
            constant += k * pos.constant
            if pos.ssa is not None:
                terms.append((pos.ssa, k))
            if name == self.s.rows:
                constant += k * row
            if name == self.s.vector:
                constant, lane = constant + k * u * self.s.lanes, k
                if element is not None:
                    constant, lane = constant + element, 1
        key = ("holds", tuple(terms), constant, lane, c.extent)
        values = [value for value, _ in terms]
        compared = self.e.shared(key, values, lambda: self._compare(terms, constant, lane, c))
        return Val(compared, varying=bool(lane))

    def _compare(
        self, terms: Sequence[tuple[SSAValue, int]], constant: Size, lane: int, c: Constraint
    ) -> SSAValue:
        scalar = self.e.linear(terms, constant)
        if not lane:
            return self.e.op(CmpiOp(scalar, self.e.index(c.extent), "ult"))
        kind = INDEX
        if self._is_narrow(c):
            # A vector of i32 takes one register where a vector of index takes two.
            kind = i32
            scalar = self.e.op(arith.IndexCastOp(scalar, i32))
        extent = self._extent(c.extent, kind)
        first = self.e.op(vector.BroadcastOp(scalar, self.e.vector_type(kind)))
        value = self.e.op(arith.AddiOp(first, self.bodies.lanes(lane, kind)))
        return self.e.op(CmpiOp(value, self.bodies.spread_constant(extent), "ult"))

    def _extent(self, extent: Size, kind: IndexType | IntegerType) -> SSAValue:
        """Return a size as an integer of a type."""
        if not isinstance(extent, Expr):
            return self.e.constant(IntegerAttr(extent, kind), kind)
        value = self.e.index(extent)
        if kind == INDEX:
            return value
        return self.e.shared(
            ("cast", value), (value,), lambda: self.e.op(arith.IndexCastOp(value, kind))
        )

    def _is_narrow(self, c: Constraint) -> bool:
        """Return whether all values of a constraint's affine expression fit into i32, even in lanes
        beyond the last valid one."""
        if any(name in self.flat.floating for name, _ in c.form.terms):
            return False
        low, high = c.form.bounds(self.flat.ranges)
        beyond = self.s.width * max(abs(k) for _, k in c.form.terms)
        most = max(-bounds_of(low)[0], bounds_of(high)[1], bounds_of(c.extent)[1])
        return most + beyond < 1 << 31
