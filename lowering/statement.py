"""One statement of a kernel as loops: the register tile and the loops around it.

A register tile computes ``rows x vectors`` vectors of the output: accumulators stay in registers
over the whole reduction, operands that do not move with the vector index are loaded once and
broadcast, and the post body runs before the one store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from math import prod

from xdsl.dialects import arith, math, memref, vector
from xdsl.dialects.builtin import IntegerAttr, IntegerType, MemRefType, VectorType, i32
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from tessella.dialects.arith import CmpiOp, SelectOp
from tessella.dialects.nn.core import tensor_type
from tessella.dialects.rt import PrefetchOp
from tessella.dialects.tile import ContractOp, Linear, YieldOp
from tessella.dialects.tile.attributes import Schedule
from tessella.dialects.tile.flat import Constraint, Flat, is_crosswise, is_strided
from tessella.lowering.aggregate import accumulate, horizontal, identity
from tessella.lowering.body import Bodies
from tessella.lowering.check_schedule import check_schedule
from tessella.lowering.transpose import pick, transpose
from tessella.lowering.values import INDEX, Emitter, Pos, Val
from tessella.passes.tile.constraints import classify
from tessella.passes.tile.tiles import Tiles, overlaps, split

FEW = 0.75
"""The share of the rows that tiles other than edge tiles run, from which on those are few."""


@dataclass(frozen=True)
class Extent:
    """A stretch of an index's range."""

    start: Pos
    size: int


@dataclass(frozen=True)
class Point:
    """Where the loops stand: the value of each index, the offset of each operand, and the
    register tile."""

    indices: Mapping[str, Pos]
    offsets: tuple[Pos, ...]
    rows: tuple[int, ...] = (0,)
    edge: bool = False
    vectors: int = 1
    tail: int = 0
    """Lanes of the last vector that count; 0 where all do."""
    line: Pos | None = None
    """Of the lines that a point reads of a panel: which of the next panel's is asked for."""
    blocks: Mapping[str, Extent] = field(default_factory=dict[str, Extent])
    """Where the current blocks of indices are."""


class Statement:
    """Emits the loops of one ``tile.contract``."""

    def __init__(
        self,
        emitter: Emitter,
        op: ContractOp,
        flat: Flat,
        schedule: Schedule,
        buffers: Mapping[SSAValue, SSAValue],
        code: int = 0,
    ) -> None:
        self.e = emitter
        self.op = op
        self.flat = flat
        self.s = schedule
        self.buffers = [buffers[v] for v in (*op.inputs, *op.post_inputs, op.res)]
        check_schedule(op, flat, schedule)
        self.constraints = classify(flat, schedule)
        self.reduces_lanes = schedule.vector in flat.reduced
        self.bodies = Bodies(emitter, schedule, buffers, code)
        self._squares: dict[tuple[int, int], list[SSAValue]] = {}
        self.element = tensor_type(op.res).element_type
        last = op.combine.block.last_op
        assert isinstance(last, YieldOp)
        self.combined = last.value.type

    def emit(self) -> None:
        """Append the loops to the emitter's block."""
        self.e.lanes = self.s.lanes
        offsets = tuple(Pos(None, a.offset) for a in self.flat.accesses)
        self._blocks(self.s.blocks, Point({}, offsets))

    # ** free indices **

    def _move(self, point: Point, name: str, value: Pos) -> Point:
        offsets = tuple(
            self.e.step(offset, value, a.stride(name))
            for offset, a in zip(point.offsets, self.flat.accesses, strict=True)
        )
        return replace(point, indices={**point.indices, name: value}, offsets=offsets)

    def _blocks(self, blocks: Sequence[tuple[str, int]], point: Point) -> None:
        if not blocks:
            self._free(self.s.order, point)
            return
        (name, size), *rest = blocks
        extent = self.flat.ranges[name]
        for tiles in self._tiles(name, extent, size, (0, extent)):

            def body(start: Pos, size: int = tiles.size) -> None:
                inner = {**point.blocks, name: Extent(start, size)}
                self._blocks(rest, replace(point, blocks=inner))

            self._run(name, tiles, body)

    def _free(self, order: Sequence[str], point: Point) -> None:
        if not order:
            self._tile(point)
            return
        name, rest = order[0], order[1:]
        block = point.blocks.get(name, Extent(Pos(), self.flat.ranges[name]))
        for tiles in self._split(name, block.size):
            shaped = self._shaped(point, name, tiles)

            def body(value: Pos, shaped: Point = shaped) -> None:
                self._free(rest, self._move(shaped, name, self.e.step(block.start, value, 1)))

            self._run(name, tiles, body)

    def _split(self, name: str, extent: int) -> Iterator[Tiles]:
        sizes = {self.s.rows: self.s.row_tile, self.s.vector: self.s.width}
        clean = (0, extent)
        if name == self.s.rows:
            clean = self.constraints.clean_rows(self.flat, name)
        return self._tiles(name, extent, sizes.get(name, 1), clean)

    def _tiles(self, name: str, extent: int, size: int, clean: tuple[int, int]) -> Iterator[Tiles]:
        return split(extent, size, clean, overlap=overlaps(self.op, self.flat, name, extent, size))

    def _shaped(self, point: Point, name: str, tiles: Tiles) -> Point:
        """The point with the register tile's extent along an index."""
        if name == self.s.rows:
            return replace(point, rows=tuple(range(tiles.size)), edge=tiles.edge)
        if name == self.s.vector:
            full, tail = divmod(tiles.size, self.s.lanes)
            return replace(point, vectors=full + (tail > 0), tail=tail)
        return point

    def _run(self, name: str, tiles: Tiles, body: Callable[[Pos], None]) -> None:
        """Run a body at the start of each tile."""
        if tiles.count == 1:
            body(Pos(None, tiles.start))
            return

        def loop_body(iv: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
            iv.name_hint = name
            last = Pos(None, tiles.stop - tiles.size)
            body(self._min(Pos(iv), last) if tiles.overlap else Pos(iv))
            return ()

        start, stop = self.e.index(tiles.start), self.e.index(tiles.stop)
        self.e.loop(start, stop, tiles.size, (), loop_body)

    # ** the register tile **

    def _tile(self, point: Point) -> None:
        if self.s.prefetch:
            point = replace(point, line=self._line(point))
        if self.op.is_map:
            values = self._combine(point, [], point.rows)
        else:
            zero = identity(self.e, self.op.aggregation.data, self.combined, self.s.vector)
            count = self.s.vectors if self.reduces_lanes else point.vectors
            start = [zero] * (len(point.rows) * count)
            sums = self._reduce(self.s.reduction, point, start, point.rows)
            varying = self.s.vector is not None
            if self.reduces_lanes:
                kind = self.op.aggregation.data
                groups = [sums[i : i + count] for i in range(0, len(sums), count)]
                sums = [horizontal(self.e, kind, group) for group in groups]
                varying = False
            values = [Val(v, varying) for v in sums]
        self._finish(point, values)

    def _finish(self, point: Point, values: Sequence[Val]) -> None:
        for i, value in enumerate(values):
            row, u = divmod(i, point.vectors)
            block = self.op.post_block
            if block is not None:
                posts = [
                    self._load(n, point, point.rows[row], u, None)
                    for n in range(self.flat.inputs, len(self.buffers) - 1)
                ]
                value = self.bodies.run(
                    block, [value, *posts], point.indices, row, u, self._tail(point, u)
                )
            self._store(point, point.rows[row], u, value)
        self.bodies.forget()

    def _tail(self, point: Point, u: int) -> int:
        return point.tail if u == point.vectors - 1 else 0

    def _store(self, point: Point, row: int, u: int, value: Val) -> None:
        buffer = self.buffers[-1]
        at = self.e.at(self._address(-1, point, row, u))
        if self.s.vector is None or self.reduces_lanes:
            self.e.effect(memref.StoreOp.get(value.ssa, buffer, [at]))
            return
        spread, tail = self.e.spread(value), self._tail(point, u)
        if tail == 1 and self._may_be_truncated():
            self.e.effect(memref.StoreOp.get(self._first_lane(spread), buffer, [at]))
        elif tail:
            mask = self._lane_mask(tail)
            self.e.effect(vector.MaskedStoreOp(buffer, [at], mask, spread))
        else:
            self.e.effect(vector.StoreOp(spread, buffer, [at]))

    def _may_be_truncated(self) -> bool:
        """Whether LLVM stores one lane of a masked store too wide: it joins a truncation and the
        store, and takes the width from before."""
        return isinstance(self.element, IntegerType) and 1 < self.element.width.data < 64

    def _first_lane(self, value: SSAValue) -> SSAValue:
        assert isinstance(value.type, VectorType)
        mask, zero = self._lane_mask(1), self.bodies.zero(value.type)
        return horizontal(self.e, "+", [self.e.op(SelectOp(mask, value, zero))])

    # ** reduced indices **

    def _reduce(
        self, names: Sequence[str], point: Point, sums: list[SSAValue], rows: Sequence[int]
    ) -> list[SSAValue]:
        if not names:
            return [v.ssa for v in self._combine(point, sums, rows)]
        name, rest = names[0], names[1:]
        if name == self.s.vector:
            return self._reduce_lanes(name, rest, point, sums, rows)
        unrolled = [c for c in self.constraints.rows if c.form.coefficient(name)]
        if unrolled and point.edge:
            return self._unroll(unrolled[0], name, rest, point, sums, rows)
        start, stop = self._bounds(name, point)
        if start == Pos() and stop == Pos(None, 1):
            return self._reduce(rest, self._move(point, name, Pos()), sums, rows)

        known = start.ssa is None and stop.ssa is None

        def body(iv: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            iv.name_hint = name
            return self._reduce(rest, self._move(point, name, Pos(iv)), list(carried), rows)

        unroll = self._unroll_count(name, rest, point) if known else 1
        return self.e.loop(self.e.at(start), self.e.at(stop), 1, sums, body, unroll)

    def _unroll_count(self, name: str, inner: Sequence[str], point: Point) -> int:
        """How many steps of a reduced index's loop become one: where the loops inside are unrolled
        as a whole, so many that the schedule's number of points come together.

        Edge tiles, whose taps are unrolled around the loop, keep it as it is where they are few:
        their code takes as long to compile as all other tiles'. 0 keeps a short loop from becoming
        one with the taps.
        """
        extent = self.flat.ranges[name]
        if point.edge and self.constraints.rows:
            if extent <= self.s.unroll:
                return 0
            if self._edges_are_few:
                return 1
        points = prod(self.flat.ranges[n] for n in inner)
        return max(1, min(extent, self.s.unroll // points))

    @cached_property
    def _edges_are_few(self) -> bool:
        assert self.s.rows is not None
        low, high = self.constraints.clean_rows(self.flat, self.s.rows)
        return (high - low) // self.s.row_tile * self.s.row_tile >= FEW * self.flat.ranges[
            self.s.rows
        ]

    def _reduce_lanes(
        self,
        name: str,
        rest: Sequence[str],
        point: Point,
        sums: list[SSAValue],
        rows: Sequence[int],
    ) -> list[SSAValue]:
        extent = self.flat.ranges[name]
        for tiles in split(extent, self.s.width, (0, extent), overlap=False):
            full, tail = divmod(tiles.size, self.s.lanes)
            shaped = replace(point, vectors=full + (tail > 0), tail=tail)
            if tiles.count == 1:
                moved = self._move(shaped, name, Pos(None, tiles.start))
                sums = self._reduce(rest, moved, sums, rows)
                continue

            def body(
                iv: SSAValue, carried: Sequence[SSAValue], shaped: Point = shaped
            ) -> Sequence[SSAValue]:
                iv.name_hint = name
                return self._reduce(rest, self._move(shaped, name, Pos(iv)), list(carried), rows)

            start, stop = self.e.index(tiles.start), self.e.index(tiles.stop)
            sums = self.e.loop(start, stop, tiles.size, sums, body)
        return sums

    def _unroll(
        self,
        constraint: Constraint,
        name: str,
        rest: Sequence[str],
        point: Point,
        sums: list[SSAValue],
        rows: Sequence[int],
    ) -> list[SSAValue]:
        """Each value of the reduced index apart, with the rows for which the point is inside."""
        assert self.s.rows is not None
        first = point.indices[self.s.rows].constant
        for value in range(self.flat.ranges[name]):
            known = {name: Linear((), value)}
            active = [
                row
                for row in rows
                if 0
                <= constraint.form.substitute(
                    {**known, self.s.rows: Linear((), first + row)}
                ).constant
                < constraint.extent
            ]
            if active:
                sums = self._reduce(rest, self._move(point, name, Pos(None, value)), sums, active)
        return sums

    def _bounds(self, name: str, point: Point) -> tuple[Pos, Pos]:
        """The loop bounds of a reduced index, cut to where its constraints hold."""
        start, stop = Pos(), Pos(None, self.flat.ranges[name])
        for c in self.constraints.bounds:
            scale = c.form.coefficient(name)
            if not scale:
                continue
            others = [(point.indices[n], k) for n, k in c.form.terms if n != name]
            constant = c.form.constant + sum(k * pos.constant for pos, k in others)
            terms = [(pos.ssa, k) for pos, k in others if pos.ssa is not None]
            low, high = -constant, c.extent - 1 - constant
            if not terms:
                start = self._max(start, Pos(None, -(-low // scale)))
                stop = self._min(stop, Pos(None, high // scale + 1))
                continue
            (value, k), *_ = terms
            moved = AffineExpr.dimension(0) * -k
            start = self._max(start, Pos(self.e.apply((moved + low).ceil_div(scale), [value])))
            stop = self._min(stop, Pos(self.e.apply((moved + high) // scale + 1, [value])))
        return start, stop

    def _max(self, a: Pos, b: Pos) -> Pos:
        if a.ssa is None and b.ssa is None:
            return Pos(None, max(a.constant, b.constant))
        return Pos(self.e.op(arith.MaxSIOp(self.e.at(a), self.e.at(b))))

    def _min(self, a: Pos, b: Pos) -> Pos:
        if a.ssa is None and b.ssa is None:
            return Pos(None, min(a.constant, b.constant))
        return Pos(self.e.op(arith.MinSIOp(self.e.at(a), self.e.at(b))))

    # ** panels **

    def _line(self, point: Point) -> Pos:
        """Another line for each register tile that shares a panel, so that together they ask for
        all of the next one."""
        inside = self.s.order[self.s.order.index(self.s.vector or "") + 1 :]
        number, values = AffineExpr.constant(0), list[SSAValue]()
        for name in inside:
            pos = point.indices[name]
            if pos.ssa is not None:
                step = self.s.row_tile if name == self.s.rows else 1
                number += AffineExpr.dimension(len(values)) // step
                values.append(pos.ssa)
        if not values:
            return Pos()
        return Pos(self.e.apply(number % self.s.vectors, values))

    def _prefetch(self, point: Point) -> None:
        if point.line is None or self.s.vector is None:
            return
        for operand in range(self.flat.inputs):
            a = self.flat.accesses[operand]
            if self.s.vector in a.lanes and not (self.s.rows and a.stride(self.s.rows)):
                next_panel = point.offsets[operand] + self.s.width * a.stride(self.s.vector)
                pos = self.e.step(next_panel, point.line, self.s.lanes)
                self.e.effect(PrefetchOp(self.buffers[operand], self.e.at(pos)))

    # ** points **

    def _combine(self, point: Point, sums: list[SSAValue], rows: Sequence[int]) -> list[Val]:
        """The tile's values after this point; for a map, the values themselves."""
        width = self.s.vectors if self.reduces_lanes else point.vectors
        results = [Val(v, self.s.vector is not None) for v in sums]
        maps = self.op.is_map
        fused = self.op.is_multiply_add
        self._prefetch(point)
        for row in rows:
            for u in range(point.vectors):
                mask = self._mask(point, row, u)
                args = [self._load(n, point, row, u, mask) for n in range(self.flat.inputs)]
                slot = row * width + u
                if fused:
                    old = results[slot].ssa
                    results[slot] = self._kept(mask, self._fma(args, old), old)
                    continue
                block, tail = self.op.combine.block, self._tail(point, u)
                value = self.bodies.run(block, args, point.indices, row, u, tail)
                if maps:
                    results.append(self._default(value, mask))
                    continue
                kind, old = self.op.aggregation.data, results[slot].ssa
                new = accumulate(self.e, kind, old, self.e.spread(value))
                results[slot] = self._kept(mask, new, old)
        self.bodies.forget()
        self._squares.clear()
        return results

    def _kept(self, mask: Val | None, new: SSAValue, old: SSAValue) -> Val:
        """The new value where the point counts."""
        if mask is not None:
            new = self.e.op(SelectOp(self.e.spread(mask), new, old))
        return Val(new, self.s.vector is not None)

    def _default(self, value: Val, mask: Val | None) -> Val:
        if mask is None:
            return value
        default = self.op.default
        assert default is not None, "an assignment that leaves its operands has a default"
        other = self.e.constant(default, self.element)
        if not (mask.varying or value.varying):
            return Val(self.e.op(SelectOp(mask.ssa, value.ssa, other)))
        spread = self.e.spread(Val(other))
        chosen = SelectOp(self.e.spread(mask), self.e.spread(value), spread)
        return Val(self.e.op(chosen), varying=True)

    def _fma(self, args: Sequence[Val], total: SSAValue) -> SSAValue:
        if self.s.vector is None:
            return self.e.op(math.FmaOp(args[0].ssa, args[1].ssa, total))
        a, b = (self.e.spread(x) for x in args)
        return self.e.op(vector.FMAOp(a, b, total))

    def _address(self, operand: int, point: Point, row: int, u: int) -> Pos:
        a = self.flat.accesses[operand]
        pos = point.offsets[operand]
        if self.s.rows is not None:
            pos += row * a.stride(self.s.rows)
        if self.s.vector is not None:
            pos += u * self.s.lanes * a.lane_stride(self.s.vector)
        return pos

    def _load(self, operand: int, point: Point, row: int, u: int, mask: Val | None) -> Val:
        a = self.flat.accesses[operand]
        if is_crosswise(a, self.s):
            return self._load_crosswise(operand, point, row, u)
        if is_strided(a, self.s):
            return self._load_strided(operand, point, row, u, mask)
        buffer = self.buffers[operand]
        pos = self._address(operand, point, row, u)
        tail = self._tail(point, u)
        varying = self.s.vector is not None and a.lane_stride(self.s.vector) != 0
        padded = varying and self.s.vector in a.lanes
        guard = self._guard(operand, point, row, u, mask, varying=varying)
        key = (operand, pos, guard.ssa if guard else None, tail if varying else 0)
        return self.bodies.cached(
            key, lambda: self._load_now(buffer, pos, guard, varying, 0 if padded else tail)
        )

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
        return Val(reduce(lambda a, b: self.e.op(arith.AndIOp(a, b)), scalars))

    def _load_crosswise(self, operand: int, point: Point, row: int, u: int) -> Val:
        """A row of a square that is loaded along the rows' index and transposed."""
        key = (operand, u)
        if key not in self._squares:
            a, buffer = self.flat.accesses[operand], self.buffers[operand]
            start = self._address(operand, point, 0, u)
            height = len(point.rows) % self.s.lanes
            loaded = [
                self._load_now(buffer, start + lane * a.lane_stride(name), None, True, height).ssa
                for name in (self.s.vector,)
                if name is not None
                for lane in range(self._tail(point, u) or self.s.lanes)
            ]
            self._squares[key] = transpose(self.e, loaded, self.s.lanes)
        return Val(self._squares[key][row], varying=True)

    def _load_strided(self, operand: int, point: Point, row: int, u: int, mask: Val | None) -> Val:
        """Every few elements of as many vectors."""
        assert self.s.vector is not None
        stride = self.flat.accesses[operand].lane_stride(self.s.vector)
        start = self._address(operand, point, row, u)
        lanes = self._tail(point, u) or self.s.lanes
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
            masks.append(Val(self._lane_mask(size), varying=True))
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
        masks = [self._lane_mask(tail)] if tail else []
        masks += [self.e.spread(mask)] if mask is not None else []
        if not masks:
            return Val(self.e.op(vector.LoadOp(buffer, [at], type)), varying=True)
        both = masks[0] if len(masks) == 1 else self.e.op(arith.AndIOp(masks[0], masks[1]))
        zero = self.bodies.zero(type)
        return Val(self.e.op(vector.MaskedLoadOp(buffer, [at], both, zero, type)), varying=True)

    def _lane_mask(self, lanes: int) -> SSAValue:
        return self.e.lane_mask(lanes)

    def _mask(self, point: Point, row: int, u: int) -> Val | None:
        """Whether the point counts, where that is not known already; None where it does."""
        masks: list[Val] = [self._holds(c, point, row, u) for c in self.constraints.masks]
        if self.reduces_lanes and (tail := self._tail(point, u)):
            masks.append(Val(self._lane_mask(tail), varying=True))
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
