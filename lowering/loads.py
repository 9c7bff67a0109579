"""What a register tile loads: vectors side by side, a few elements apart or across, and single
elements; and the masks of what counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import IntegerAttr, MemRefType, i32
from xdsl.ir import SSAValue

from tessella.dialects.arith import CmpiOp, SelectOp
from tessella.dialects.tile.attributes import Schedule
from tessella.dialects.tile.flat import Constraint, Flat, FlatAccess, is_crosswise, is_strided
from tessella.lowering.aggregate import horizontal
from tessella.lowering.body import Bodies
from tessella.lowering.point import Point
from tessella.lowering.transpose import pick, transpose
from tessella.lowering.values import INDEX, Emitter, Pos, Val
from tessella.passes.tile.constraints import Constraints


@dataclass
class Loads:
    """Emits the loads of a statement's operands, each once until it is told to forget."""

    e: Emitter
    flat: Flat
    s: Schedule
    constraints: Constraints
    buffers: Sequence[SSAValue]
    bodies: Bodies
    squares: dict[tuple[int, int], list[SSAValue]] = field(
        default_factory=dict[tuple[int, int], list[SSAValue]]
    )
    """The rows of the squares that are loaded, by operand and vector."""

    def forget(self) -> None:
        """Load all anew from here on."""
        self.bodies.forget()
        self.squares.clear()

    def address(self, operand: int, point: Point, row: int, u: int) -> Pos:
        """Where an operand's element lies at a row and a vector of the register tile."""
        a = self.flat.accesses[operand]
        pos = point.offsets[operand]
        if self.s.rows is not None:
            pos += row * a.stride(self.s.rows)
        if self.s.vector is not None:
            pos += u * self.s.lanes * a.lane_stride(self.s.vector)
        return pos

    def load(self, operand: int, point: Point, row: int, u: int, mask: Val | None) -> Val:
        """An operand's vector, or the one element that its lanes share."""
        a = self.flat.accesses[operand]
        if is_crosswise(a, self.s):
            return self._load_crosswise(operand, point, row, u)
        if is_strided(a, self.s):
            return self._load_strided(operand, point, row, u, mask)
        buffer = self.buffers[operand]
        pos = self.address(operand, point, row, u)
        tail = point.tail_of(u)
        varying = self.s.vector is not None and a.lane_stride(self.s.vector) != 0
        padded = varying and self._has_room(a)
        guard = self._guard(operand, point, row, u, mask, varying=varying)
        key = (operand, pos, guard.ssa if guard else None, tail if varying else 0)
        return self.bodies.cached(
            key, lambda: self._load_now(buffer, pos, guard, varying, 0 if padded else tail)
        )

    def _has_room(self, a: FlatAccess) -> bool:
        """Whether memory goes on behind an index's last element, as far as its vectors do."""
        name = self.s.vector or ""
        whole = -(-self.flat.ranges[name] // self.s.lanes) * self.s.lanes
        return a.room.get(name, 0) >= min(self.s.width, whole)

    def _guard(
        self, operand: int, point: Point, row: int, u: int, mask: Val | None, *, varying: bool
    ) -> Val | None:
        """Whether an operand may be loaded, where that depends; one answer for an element that
        all lanes share."""
        own = [c for c in self.constraints.masks if operand in c.operands]
        if mask is None or not own or varying or not mask.varying:
            return mask if own else None
        held = [self._holds(c, point, row, u) for c in own]
        scalars = [horizontal(self.e, "+", [h.ssa]) if h.varying else h.ssa for h in held]
        return self._all([Val(scalar) for scalar in scalars])

    def _load_crosswise(self, operand: int, point: Point, row: int, u: int) -> Val:
        """A row of a square that is loaded along the rows' index and transposed."""
        key = (operand, u)
        if key not in self.squares:
            a, buffer = self.flat.accesses[operand], self.buffers[operand]
            start = self.address(operand, point, 0, u)
            height = len(point.rows) % self.s.lanes
            loaded = [
                self._load_now(buffer, start + lane * a.lane_stride(name), None, True, height).ssa
                for name in (self.s.vector,)
                if name is not None
                for lane in range(point.tail_of(u) or self.s.lanes)
            ]
            self.squares[key] = transpose(self.e, loaded, self.s.lanes)
        return Val(self.squares[key][row], varying=True)

    def _load_strided(self, operand: int, point: Point, row: int, u: int, mask: Val | None) -> Val:
        """Every few elements of as many vectors."""
        assert self.s.vector is not None
        stride = self.flat.accesses[operand].lane_stride(self.s.vector)
        start = self.address(operand, point, row, u)
        lanes = point.tail_of(u) or self.s.lanes
        # nothing is read behind the last lane's element
        size = (lanes - 1) * stride + 1

        def load() -> Val:
            chunks = [
                self._load_chunk(operand, start, point, row, u, first, size - first)
                for first in range(0, size, self.s.lanes)
            ]
            return Val(pick(self.e, chunks, stride), varying=True)

        return self.bodies.cached((operand, start, mask.ssa if mask else None, size), load)

    def _load_chunk(
        self, operand: int, start: Pos, point: Point, row: int, u: int, first: int, size: int
    ) -> SSAValue:
        """A vector of an operand from the element ``first`` on, of which ``size`` elements may be
        read."""
        masks = [
            self._holds(c, point, row, u, first)
            for c in self.constraints.masks
            if operand in c.operands
        ]
        if size < self.s.lanes:
            masks.append(Val(self.e.lane_mask(size), varying=True))
        mask = self._all(masks)
        return self._load_now(self.buffers[operand], start + first, mask, True, 0).ssa

    def _load_now(
        self, buffer: SSAValue, pos: Pos, mask: Val | None, varying: bool, tail: int
    ) -> Val:
        at = self.e.at(pos)
        if not varying:
            if mask is not None:
                at = self.e.op(SelectOp(mask.ssa, at, self.e.index(0)))
            return Val(self.e.op(memref.LoadOp.get(buffer, [at])))
        assert isinstance(buffer.type, MemRefType)
        type = self.e.vector_type(buffer.type.element_type)
        lanes = [Val(self.e.lane_mask(tail), varying=True)] if tail else []
        counting = self._all([*lanes, mask] if mask is not None else lanes)
        if counting is None:
            return Val(self.e.op(vector.LoadOp(buffer, [at], type)), varying=True)
        spread, zero = self.e.spread(counting), self.bodies.zero(type)
        return Val(self.e.op(vector.MaskedLoadOp(buffer, [at], spread, zero, type)), varying=True)

    def mask(self, point: Point, row: int, u: int) -> Val | None:
        """Whether the point counts, where that is not known already; None where it does."""
        masks: list[Val] = [self._holds(c, point, row, u) for c in self.constraints.masks]
        if self.s.vector in self.flat.reduced and (tail := point.tail_of(u)):
            masks.append(Val(self.e.lane_mask(tail), varying=True))
        return self._all(masks)

    def _all(self, masks: Sequence[Val]) -> Val | None:
        if not masks:
            return None
        total = masks[0]
        for other in masks[1:]:
            varying = total.varying or other.varying
            a, b = (self.e.spread(m) if varying else m.ssa for m in (total, other))
            total = Val(self.e.op(arith.AndIOp(a, b)), varying)
        return total

    def _holds(
        self, c: Constraint, point: Point, row: int, u: int, element: int | None = None
    ) -> Val:
        """``0 <= form < extent``, by one unsigned comparison: for the lanes, or for the elements of
        an operand side by side, from one on that is counted from the first lane's."""
        terms: list[tuple[SSAValue, int]] = []
        constant, lane = c.form.constant, 0
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
        scalar = self.e.linear(terms, constant)
        if not lane:
            return Val(self.e.op(CmpiOp(scalar, self.e.index(c.extent), "ult")))
        kind = INDEX
        if self._is_narrow(c):
            # a vector of i32 is one register where one of index is two
            kind = i32
            scalar = self.e.op(arith.IndexCastOp(scalar, i32))
        extent = self.e.constant(IntegerAttr(c.extent, kind), kind)
        value = self.e.op(arith.AddiOp(self.e.spread(Val(scalar)), self.bodies.lanes(lane, kind)))
        return Val(self.e.op(CmpiOp(value, self.e.spread(Val(extent)), "ult")), varying=True)

    def _is_narrow(self, c: Constraint) -> bool:
        """Whether all values of a constraint, beyond the last lane too, are small integers."""
        low, high = c.form.bounds(self.flat.ranges)
        beyond = self.s.width * max(abs(k) for _, k in c.form.terms)
        return max(-low, high, c.extent) + beyond < 1 << 31
