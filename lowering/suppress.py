"""A `tile.suppress`, greedy selection as in non-maximum suppression, as loops, row by row.

The candidates of a row are the leaves of a tournament tree: each node holds the better one of its
children, and the root the best of all. The root is removed, which updates only the path above its
leaf, until enough values are selected. The removed candidate is compared with the selected values
in whole vectors, up to a value that suppresses it. Candidates that are never reached are therefore
not sorted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import IntegerAttr, IntegerType, i1, i32, i64
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from tessella.dialects import rt
from tessella.dialects.arith import CASTS, CmpfOp, CmpiOp, SelectOp
from tessella.dialects.nn.core import is_float, number, tensor_type
from tessella.dialects.tile import RowSchedule, SuppressOp
from tessella.dialects.tile.flat import FlatAccess
from tessella.lowering.aggregate import horizontal
from tessella.lowering.comparable import comparable
from tessella.lowering.keys import KeyLoops, moves
from tessella.lowering.rows import Point, flat
from tessella.lowering.values import INDEX, BlockEmitter, Pos, Val
from tessella.support.errors import InvalidModelError
from tessella.support.sizes import Size, bounds_of

MOST = 1 << 31
"""The limit on the values of a row, whose positions have 32 bits."""


def scratch_of(op: SuppressOp) -> Sequence[rt.Buffer]:
    """Return the types of the buffers that each thread needs: for the tree, the candidates'
    positions, and the items of the selected values."""
    size, kept = op.along.range, op.count + _sweep(op).lanes
    return [
        rt.flat_buffer(i64, 4 * size),
        rt.flat_buffer(i32, size),
        *(
            rt.flat_buffer(tensor_type(value).element_type, kept)
            for value, access in _items(op)
            if moves(access, op.along.name)
        ),
    ]


def _sweep(op: SuppressOp) -> RowSchedule:
    if op.schedule is None:
        raise InvalidModelError("a selection has no schedule", hint="tile-schedule gives it one")
    if bounds_of(op.along.range)[1] >= MOST:
        raise InvalidModelError("the rows of a selection are too long", expected=f"below {MOST}")
    return op.schedule.data


def _items(op: SuppressOp) -> Sequence[tuple[SSAValue, FlatAccess[Size]]]:
    pairs = zip(op.items, op.item_accesses, strict=True)
    return [(value, flat(op.name, value, forms, op.ranges)) for value, forms in pairs]


class Suppress(KeyLoops):
    """Emits the loops of a greedy selection."""

    def __init__(
        self,
        emitter: BlockEmitter,
        op: SuppressOp,
        buffers: Mapping[SSAValue, SSAValue],
        scratch: Sequence[SSAValue],
        share: tuple[SSAValue, SSAValue],
    ) -> None:
        super().__init__(emitter, op, buffers, _sweep(op).lanes, op.along.name)
        self.op = op
        self.share = share
        self.tree, self.places, *kept = scratch
        rest = iter(kept)
        self.items = [
            (buffers[value], access, next(rest) if moves(access, self.name) else None)
            for value, access in _items(op)
        ]
        """For each item: the buffer with the item of all values, the access to it, and the buffer
        for the selected values (None if the item is equal for all values of a row)."""
        ranges = {index.name: index.range for index in op.free}
        self.limit = buffers[op.limit], flat(op.name, op.limit, op.access_list[-1], ranges)
        self.results = [buffers[value] for value in op.results]

    def emit(self) -> None:
        """Append the loops to the emitter's block."""
        self.e.lanes = self.lanes
        self.loop(*self.share, self._row)

    def _row(self, row: SSAValue) -> None:
        e, point = self.e, self.point(row, self.op.free)
        buffer, access = self.limit
        limit = self._index(self.load(buffer, self.address(access, point)))
        limit = e.op(arith.MinSIOp(limit, e.index(self.op.count)))
        found = self._candidates(point)
        first, depth = self._grow(point, found)

        def body(_: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            is_open = e.op(CmpiOp(carried[0], limit, "slt"))
            step = partial(self._step, row, point, (first, depth), *carried)
            return e.either(is_open, step, carried)

        count, *_ = e.loop(e.index(0), found, 1, [e.index(0), *self._no_items()], body)
        self.store(e.op(CASTS["arith.index_cast"](count, i64)), self.results[1], row)

    # ** candidates **

    def _candidates(self, point: Point) -> SSAValue:
        """Store the positions of the candidates and return their number."""
        e, done, found = self.e, self.e.index(0), self.e.index(0)
        size = e.index(self.op.along.range)
        append = partial(self._append, point)

        def several(start: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            stop = e.op(arith.AddiOp(start, e.index(self.lanes)))
            each = partial(e.loop, start, stop, 1, carried, append)
            if not is_float(self.element):
                return each()
            keys = self.several_keys(point, start).ssa
            some = horizontal(e, "+", [e.op(CmpfOp(keys, keys, "ord"))])
            return e.either(some, each, carried)

        if self.is_contiguous:
            done = e.apply(AffineExpr.dimension(0) // self.lanes * self.lanes, [size])
            (found,) = e.loop(e.index(0), done, self.lanes, [found], several)
        (found,) = e.loop(done, size, 1, [found], append)
        return found

    def _append(
        self, point: Point, at: SSAValue, carried: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        """Append the position of a value to the candidates, and return the next slot. If the value
        is not a candidate, its slot is returned and overwritten by the next position."""
        e, (slot,) = self.e, carried
        self.store(e.op(CASTS["arith.index_cast"](at, i32)), self.places, slot)
        following = e.op(arith.AddiOp(slot, e.index(1)))
        if not is_float(self.element):
            return [following]
        key = self.one_key(point, at).ssa
        return [e.op(SelectOp(e.op(CmpfOp(key, key, "ord")), following, slot))]

    def _rank(self, point: Point, slot: SSAValue) -> SSAValue:
        """Return an integer by which candidates are compared: it is smaller for the better one of
        two, and for the earlier one if their keys are equal."""
        e, key = self.e, self.one_key(point, self._index(self.load(self.places, slot)))
        rank = comparable(e, key, self.element, descending=True).ssa
        high = e.op(arith.ShLIOp(e.op(CASTS["arith.extsi"](rank, i64)), self._number(32)))
        return e.op(arith.OrIOp(high, e.op(CASTS["arith.index_cast"](slot, i64))))

    # ** the tree: node i has the children 2 i and 2 i + 1 **

    def _grow(self, point: Point, found: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Build the tree of the candidates. Returns its first leaf and its depth."""
        e = self.e
        first, depth = self._powers(found)

        def leaf(at: SSAValue) -> None:
            self.store(self._rank(point, at), self.tree, e.op(arith.AddiOp(first, at)))

        def node(at: SSAValue) -> None:
            here = e.op(arith.SubiOp(first, at))
            left, right = (self.load(self.tree, e.linear([(here, 2)], d)) for d in range(2))
            self.store(e.op(arith.MinSIOp(left, right)), self.tree, here)

        self.loop(e.index(0), found, leaf)
        self.loop(
            e.op(arith.AddiOp(first, found)),
            e.linear([(first, 2)], 0),
            lambda at: self.store(self._number(_NONE), self.tree, at),
        )
        self.loop(e.index(1), first, node)
        return first, depth

    def _powers(self, found: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Return the least power of two that is at least ``found``, and its logarithm."""
        e, bits = self.e, (bounds_of(self.op.along.range)[1] - 1).bit_length()

        def double(_: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            power, depth = carried
            below = e.op(CmpiOp(power, found, "slt"))
            twice, more = e.linear([(power, 2)], 0), e.linear([(depth, 1)], 1)
            return [e.op(SelectOp(below, twice, power)), e.op(SelectOp(below, more, depth))]

        power, depth = e.loop(e.index(0), e.index(bits), 1, [e.index(1), e.index(0)], double)
        return power, depth

    def _take(self, leaves: tuple[SSAValue, SSAValue]) -> SSAValue:
        """Remove the best candidate from the tree, and return its position."""
        e, (first, depth) = self.e, leaves
        best = self.load(self.tree, e.index(1))
        slot = self._index(e.op(arith.AndIOp(best, self._number((1 << 32) - 1))))
        none, d0 = self._number(_NONE), AffineExpr.dimension(0)
        leaf = e.op(arith.AddiOp(first, slot))
        self.store(none, self.tree, leaf)

        def up(_: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            here, rank = carried
            above = e.apply(d0 // 2, [here])
            other = self.load(self.tree, e.apply(d0 // 2 * 4 + 1 - d0, [here]))
            better = e.op(arith.MinSIOp(rank, other))
            self.store(better, self.tree, above)
            return [above, better]

        e.loop(e.index(0), depth, 1, [leaf, none], up)
        return self._index(self.load(self.places, slot))

    # ** selected values **

    def _step(
        self,
        row: SSAValue,
        point: Point,
        leaves: tuple[SSAValue, SSAValue],
        count: SSAValue,
        *last: SSAValue,
    ) -> Sequence[SSAValue]:
        """Select the best candidate unless a selected one suppresses it.

        Returns the number of selected values, and the items of the last of them.
        """
        e, place = self.e, self._take(leaves)
        here = {**point, self.name: Pos(place)}
        own = [self.load(buffer, self.address(access, here)) for buffer, access, _ in self.items]
        false, true = (e.constant(IntegerAttr(n, i1), i1) for n in (0, -1))

        def body(start: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            compare = partial(self._compare, here, own, start, count)
            is_free = e.op(arith.XOrIOp(carried[0], true))
            return e.either(is_free, compare, carried)

        (is_ruled_out,) = e.loop(e.index(0), count, self.lanes, [false], body)

        def select() -> Sequence[SSAValue]:
            items = self._keep(own, count, last)
            wide = e.op(CASTS["arith.index_cast"](place, i64))
            where = e.linear([(row, self.op.count), (count, 1)], 0)
            self.store(wide, self.results[0], where)
            return [e.op(arith.AddiOp(count, e.index(1))), *items]

        return e.either(e.op(arith.XOrIOp(is_ruled_out, true)), select, [count, *last])

    def _no_items(self) -> list[SSAValue]:
        """Return a vector of zeros for each item that has a buffer for the selected values."""
        types = [tensor_type(value).element_type for value in self.op.items]
        zeros = [self.e.constant(number(0, type), type) for type in types]
        pairs = zip(zeros, self.items, strict=True)
        return [self.e.spread(Val(zero)) for zero, (_, _, kept) in pairs if kept is not None]

    def _keep(
        self, own: Sequence[SSAValue], count: SSAValue, last: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """Store the items of a selected value after those of earlier ones. Returns the last vector
        of each item.

        Items are stored in the whole vectors in which they are later loaded: a load that covers
        several stores would wait for them.
        """
        e, d0 = self.e, AffineExpr.dimension(0)
        start = e.apply(d0 // self.lanes * self.lanes, [count])
        lane = e.op(CASTS["arith.index_cast"](e.apply(d0 % self.lanes, [count]), i32))
        made: list[SSAValue] = []
        pairs = zip(own, self.items, strict=True)
        stored = [(value, kept) for value, (_, _, kept) in pairs if kept is not None]
        for (value, kept), before in zip(stored, last, strict=True):
            if self.lanes > 1:
                here = e.op(CmpiOp(self.bodies.lanes(1, i32), e.spread(Val(lane)), "eq"))
                value = e.op(SelectOp(here, e.spread(Val(value)), before))
            self.store(value, kept, start)
            made.append(value)
        return made

    def _compare(
        self, here: Point, own: Sequence[SSAValue], start: SSAValue, count: SSAValue
    ) -> Sequence[SSAValue]:
        """Return whether one of a vector of selected values suppresses a candidate."""
        e = self.e
        before = [
            Val(value) if kept is None else Val(self.load(kept, start, varying=True), True)
            for value, (_, _, kept) in zip(own, self.items, strict=True)
        ]
        block = self.op.ruling.block
        ruled = e.spread(self.bodies.run(block, [*before, *map(Val, own)], here, 0, 0, 0))
        if self.lanes == 1:
            return [ruled]
        left = e.op(arith.SubiOp(count, start))
        known = e.op(vector.CreateMaskOp([left], e.vector_type(IntegerType(1))))
        return [horizontal(e, "+", [e.op(arith.AndIOp(ruled, known))])]

    def _index(self, value: SSAValue) -> SSAValue:
        return self.e.op(CASTS["arith.index_cast"](value, INDEX))

    def _number(self, value: int) -> SSAValue:
        return self.e.constant(IntegerAttr(value, i64), i64)


_NONE = (1 << 63) - 1
"""The rank of a value that is not a candidate."""
