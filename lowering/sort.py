"""A `tile.sort` as loops, row by row.

- ``insertion``: a sorted buffer holds the best keys so far. Blocks of keys are compared with the
  last of them in whole vectors; each better key of a block is inserted.
- ``interleaved``: the same for several rows, one in each lane.
- ``radix``: all keys are sorted by digits, from the lowest one, each time stably. One pass counts
  the digits of all keys. A digit that all keys share moves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import IntegerAttr, IntegerType, i32, i64
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from tessella.dialects import rt
from tessella.dialects.arith import CASTS, CmpiOp, SelectOp
from tessella.dialects.tile import Sorting, SortOp, yielded
from tessella.dialects.tile.sort import INSERTION, INTERLEAVED
from tessella.lowering.aggregate import accumulate, horizontal
from tessella.lowering.comparable import comparable, key_type
from tessella.lowering.keys import KeyLoops
from tessella.lowering.rows import flat
from tessella.lowering.values import INDEX, BlockEmitter, Pos, Val
from tessella.support.errors import InvalidModelError
from tessella.support.sizes import bounds_of, ceil_div

VECTORS = 4
"""Vectors in a block of keys, which are compared at a time."""


def scratch_of(op: SortOp) -> Sequence[rt.Buffer]:
    """Return the types of the buffers that each thread needs: for keys, for positions, and for
    counts of digits."""
    sorting = _sorting(op)
    keys, places = _types(op)
    if sorting.method == INSERTION:
        best = op.count + 2 * sorting.lanes
        block = VECTORS * sorting.lanes
        return [
            rt.flat_buffer(keys, block),
            rt.flat_buffer(keys, best),
            rt.flat_buffer(places, best),
        ]
    if sorting.method == INTERLEAVED:
        best = op.count * sorting.lanes
        return [rt.flat_buffer(keys, best), rt.flat_buffer(places, best)]
    twice, digits = 2 * op.along.range, _digits(keys, sorting)
    return [
        rt.flat_buffer(keys, twice),
        rt.flat_buffer(places, twice),
        rt.flat_buffer(places, digits << sorting.digit),
    ]


def _sorting(op: SortOp) -> Sorting:
    if op.schedule is None:
        raise InvalidModelError("a sort has no schedule", hint="tile-schedule gives it one")
    return op.schedule.data


def _types(op: SortOp) -> tuple[IntegerType, IntegerType]:
    """Return the integer types of keys and of positions in the buffers."""
    key = key_type(yielded(op.combine.block).type)
    is_long = bounds_of(op.along.range)[1] >= 1 << 31
    return key, i64 if is_long or key.width.data > 32 else i32


def _digits(key: IntegerType, sorting: Sorting) -> int:
    return ceil_div(key.width.data, sorting.digit)


class Sort(KeyLoops):
    """Emits the loops of a sort."""

    def __init__(
        self,
        emitter: BlockEmitter,
        op: SortOp,
        buffers: Mapping[SSAValue, SSAValue],
        scratch: Sequence[SSAValue],
        share: tuple[SSAValue, SSAValue],
    ) -> None:
        sorting = _sorting(op)
        is_interleaved = sorting.method == INTERLEAVED
        vector = op.free[-1] if is_interleaved else op.along
        super().__init__(emitter, op, buffers, sorting.lanes, vector.name)
        self.op = op
        self.sorting = sorting
        self.results = [buffers[value] for value in op.results]
        self.scratch = scratch
        self.share = share
        self.key, self.place = _types(op)
        taken = {**op.ranges, self.name: op.count}
        self.writes = [flat(op.name, value, op.out_access, taken) for value in op.results]

    def emit(self) -> None:
        """Append the loops to the emitter's block."""
        self.e.lanes = self.sorting.lanes
        self.loop(*self.share, self._group if self.sorting.method == INTERLEAVED else self._row)

    # ** rows **

    def _row(self, number: SSAValue) -> None:
        point = self.point(number, self.op.free)
        sort = self._inserted if self.sorting.method == INSERTION else self._by_digits
        places, start = sort(point)
        self._write(point, places, start, 1)

    def _group(self, number: SSAValue) -> None:
        """Sort a group of interleaved rows. The last group overlaps its predecessor, so that every
        lane has a row."""
        e, lanes, (*outer, last) = self.e, self.sorting.lanes, self.op.free
        groups = ceil_div(last.range, lanes)
        point = self.point(self.quotient(number, groups), outer)
        group = e.op(arith.MuliOp(self.digit(number, groups), e.index(lanes)))
        start = e.op(arith.MinSIOp(group, e.index(last.range - lanes)))
        self._interleaved({**point, last.name: Pos(start)})

        def body(lane: SSAValue) -> None:
            row = {**point, last.name: Pos(e.op(arith.AddiOp(start, lane)))}
            self._write(row, self.scratch[1], lane, lanes)

        self.loop(e.index(0), e.index(lanes), body)

    def _write(
        self, point: Mapping[str, Pos], places: SSAValue, start: SSAValue, stride: int
    ) -> None:
        """Write the first keys of a row and their positions to the results. The positions are read
        from the buffer ``places``, from ``start`` on."""
        e, values = self.e, self.op.results

        def body(at: SSAValue) -> None:
            place = self.load(places, e.linear([(start, 1), (at, stride)], 0))
            index = e.op(CASTS["arith.index_cast"](place, INDEX))
            here = {**point, self.name: Pos(at)}
            if values[0].first_use is not None:
                value = self.one_key(point, index).ssa
                self.store(value, self.results[0], self.address(self.writes[0], here))
            if values[1].first_use is not None:
                wide = e.op(CASTS["arith.index_cast"](index, i64))
                self.store(wide, self.results[1], self.address(self.writes[1], here))

        self.loop(e.index(0), e.index(self.op.count), body)

    # ** keys **

    def _one(self, point: Mapping[str, Pos], at: SSAValue) -> SSAValue:
        """Return the comparable integer of the key at one position."""
        return self._comparable(self.one_key(point, at))

    def _several(self, point: Mapping[str, Pos], at: SSAValue) -> SSAValue:
        """Return a vector of the comparable integers of consecutive keys."""
        return self._comparable(self.several_keys(point, at))

    def _comparable(self, key: Val) -> SSAValue:
        is_descending = self.op.descending is not None
        return comparable(self.e, key, self.element, descending=is_descending).ssa

    def _fill(
        self,
        point: Mapping[str, Pos],
        start: SSAValue,
        count: SSAValue,
        store: Callable[[SSAValue, SSAValue], None],
    ) -> None:
        """Store the comparable integers of ``count`` keys of a row, from position ``start`` on.

        ``store(key, number)`` receives one key or a vector of keys.
        """
        e, lanes, done = self.e, self.sorting.lanes, self.e.index(0)

        def body(take: Callable[..., SSAValue], at: SSAValue) -> None:
            store(take(point, e.op(arith.AddiOp(start, at))), at)

        if self.is_contiguous:
            done = self._whole(count, lanes)
            self.loop(e.index(0), done, partial(body, self._several), lanes)
        self.loop(done, count, partial(body, self._one))

    def _whole(self, count: SSAValue, size: int) -> SSAValue:
        """Return ``count`` rounded down to a multiple of ``size``."""
        return self.e.apply(AffineExpr.dimension(0) // size * size, [count])

    # ** insertion **

    def _inserted(self, point: Mapping[str, Pos]) -> tuple[SSAValue, SSAValue]:
        e, (_, best, places) = self.e, self.scratch
        lanes, count = self.sorting.lanes, self.op.count
        self.store(self._number(-(1 << (self.key.width.data - 1))), best, e.index(lanes - 1))

        def begin(at: SSAValue) -> None:
            self._insert(self._one(point, at), at, at)

        self.loop(e.index(0), e.index(count), begin)
        size = VECTORS * lanes
        self.loop(e.index(count), e.index(self.op.along.range), partial(self._block, point), size)
        return places, e.index(lanes)

    def _block(self, point: Mapping[str, Pos], start: SSAValue) -> None:
        """Insert those keys of a block that are better than the last of the best keys."""
        e, lanes, (block, _, _) = self.e, self.sorting.lanes, self.scratch
        size = VECTORS * lanes
        left = e.op(arith.SubiOp(e.index(self.op.along.range), start))
        count = e.op(arith.MinSIOp(left, e.index(size)))
        self._fill(point, start, count, lambda key, at: self.store(key, block, at))

        def pad(at: SSAValue) -> None:
            self.store(self._number((1 << (self.key.width.data - 1)) - 1), block, at)

        self.loop(count, e.index(size), pad)
        last = e.spread(Val(self._last()))
        keys = [self.load(block, e.index(i * lanes), varying=True) for i in range(VECTORS)]
        found = [e.op(CmpiOp(key, last, "slt")) for key in keys]
        any_found = reduce(partial(accumulate, e, "+"), found)
        if lanes > 1:
            any_found = horizontal(e, "+", [any_found])
        e.when(any_found, lambda: self.loop(e.index(0), count, partial(self._try, start)))

    def _try(self, start: SSAValue, at: SSAValue) -> None:
        key = self.load(self.scratch[0], at)
        better = self.e.op(CmpiOp(key, self._last(), "slt"))
        place = self.e.op(arith.AddiOp(start, at))
        self.e.when(better, lambda: self._insert(key, place, None))

    def _last(self) -> SSAValue:
        """Return the last of the best keys."""
        return self.load(self.scratch[1], self.e.index(self.op.count + self.sorting.lanes - 1))

    def _insert(self, key: SSAValue, at: SSAValue, length: SSAValue | None) -> None:
        """Insert a key after the best keys that are no greater.

        The buffer holds as many best keys as requested, or ``length`` keys. Vectors of keys are
        moved by one position, from the last vector to the first.
        """
        e, lanes, (_, best, places) = self.e, self.sorting.lanes, self.scratch
        place = e.op(CASTS["arith.index_cast"](at, self.place))
        new, new_place = e.spread(Val(key)), e.spread(Val(place))
        last = e.index(self.op.count - 1) if length is None else length
        blocks = e.apply(AffineExpr.dimension(0) // lanes, [last])

        def body(number: SSAValue) -> None:
            offset = e.op(arith.MuliOp(e.op(arith.SubiOp(blocks, number)), e.index(lanes)))
            here = e.op(arith.AddiOp(offset, e.index(lanes)))
            before = e.op(arith.SubiOp(here, e.index(1)))
            load = partial(self.load, varying=True)
            old, previous = load(best, here), load(best, before)
            stays = e.op(CmpiOp(old, new, "sle"))
            if length is not None:
                there = e.op(arith.SubiOp(length, offset))
                mask = e.vector_type(IntegerType(1)) if lanes > 1 else None
                known = (
                    e.op(vector.CreateMaskOp([there], mask))
                    if mask is not None
                    else e.op(CmpiOp(there, e.index(0), "sgt"))
                )
                stays = e.op(arith.AndIOp(stays, known))
            follows = e.op(CmpiOp(previous, new, "sle"))
            pairs = (
                (best, new, old, previous),
                (places, new_place, load(places, here), load(places, before)),
            )
            for buffer, own, current, earlier in pairs:
                moved = e.op(SelectOp(follows, own, earlier))
                self.store(e.op(SelectOp(stays, current, moved)), buffer, here)

        self.loop(e.index(0), e.op(arith.AddiOp(blocks, e.index(1))), body)

    # ** interleaved rows **

    def _interleaved(self, point: Mapping[str, Pos]) -> None:
        e, lanes, count = self.e, self.sorting.lanes, self.op.count

        def begin(at: SSAValue) -> None:
            self._exchange(self._several(point, at), at, at, e.op(arith.AddiOp(at, e.index(1))))

        def follow(at: SSAValue) -> None:
            key = self._several(point, at)
            last = self.load(self.scratch[0], e.index((count - 1) * lanes), varying=True)
            better = horizontal(e, "+", [e.op(CmpiOp(key, last, "slt"))])
            e.when(better, lambda: self._exchange(key, at, None, e.index(count)))

        self.loop(e.index(0), e.index(count), begin)
        self.loop(e.index(count), e.index(self.op.along.range), follow)

    def _exchange(
        self, key: SSAValue, at: SSAValue, end: SSAValue | None, length: SSAValue
    ) -> None:
        """Insert a key of each lane into the best keys of its row.

        ``length`` is the number of positions. The key in the last position is dropped, unless that
        position is ``end``, which holds no key yet.
        """
        e, lanes, (best, places) = self.e, self.sorting.lanes, self.scratch
        place = e.spread(Val(e.op(CASTS["arith.index_cast"](at, self.place))))

        def body(number: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            here = e.linear([(number, lanes)], 0)
            old = [self.load(buffer, here, varying=True) for buffer in (best, places)]
            moves = e.op(CmpiOp(key, old[0], "slt"))
            if end is not None:
                is_end = e.spread(Val(e.op(CmpiOp(number, end, "eq"))))
                moves = e.op(arith.OrIOp(moves, is_end))
            for buffer, own, current in zip((best, places), carried, old, strict=True):
                self.store(e.op(SelectOp(moves, own, current)), buffer, here)
            pairs = zip(carried, old, strict=True)
            return [e.op(SelectOp(moves, current, own)) for own, current in pairs]

        e.loop(e.index(0), length, 1, [key, place], body)

    # ** radix **

    def _by_digits(self, point: Mapping[str, Pos]) -> tuple[SSAValue, SSAValue]:
        e, (keys, places, counts) = self.e, self.scratch
        size, lowest = e.index(self.op.along.range), -(1 << (self.key.width.data - 1))

        def store(key: SSAValue, at: SSAValue) -> None:
            varying = isinstance(key.type, type(e.vector_type(self.key)))
            flip = Val(self._number(lowest))
            bits = e.op(arith.XOrIOp(key, e.spread(flip) if varying else flip.ssa))
            self.store(bits, keys, at)

        self._fill(point, e.index(0), size, store)
        digits = _digits(self.key, self.sorting)
        zero = self._place_number(0)
        self.loop(
            e.index(0),
            e.index(digits << self.sorting.digit),
            lambda at: self.store(zero, counts, at),
        )
        self.loop(e.index(0), size, partial(self._count, digits))
        start = e.index(0)
        for digit in range(digits):
            start = self._pass(digit, start)
        return places, start

    def _count(self, digits: int, at: SSAValue) -> None:
        """Increment the counter of each digit of the key at a position, and store the position."""
        e, (keys, places, counts) = self.e, self.scratch
        self.store(e.op(CASTS["arith.index_cast"](at, self.place)), places, at)
        key, one = self.load(keys, at), self._place_number(1)
        for digit in range(digits):
            slot = self._slot(key, digit)
            self.store(e.op(arith.AddiOp(self.load(counts, slot), one)), counts, slot)

    def _slot(self, key: SSAValue, digit: int) -> SSAValue:
        """Return the offset of the counter for a digit of a key."""
        e, bits = self.e, self.sorting.digit
        shifted = e.op(arith.ShRUIOp(key, self._number(bits * digit))) if digit else key
        mask = min(bits, self.key.width.data - bits * digit)
        value = e.op(arith.AndIOp(shifted, self._number((1 << mask) - 1)))
        if self.key.width.data < 64:
            value = e.op(CASTS["arith.extui"](value, i64))
        return e.linear([(e.op(CASTS["arith.index_cast"](value, INDEX)), 1)], digit << bits)

    def _pass(self, digit: int, start: SSAValue) -> SSAValue:
        """Sort the keys by a digit. Returns the offset of the half of the buffer that holds the
        keys afterwards."""
        e, (keys, places, counts) = self.e, self.scratch
        size = e.index(self.op.along.range)
        first = self.load(counts, self._slot(self.load(keys, start), digit))
        total = e.op(CASTS["arith.index_cast"](first, INDEX))
        is_one = e.op(CmpiOp(total, size, "eq"))
        to = e.op(arith.SubiOp(size, start))

        def sums(at: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            slot = e.linear([(at, 1)], digit << self.sorting.digit)
            count = self.load(counts, slot)
            self.store(carried[0], counts, slot)
            return [e.op(arith.AddiOp(carried[0], count))]

        def move(at: SSAValue) -> None:
            source = e.op(arith.AddiOp(start, at))
            key = self.load(keys, source)
            slot = self._slot(key, digit)
            count = self.load(counts, slot)
            target = e.op(arith.AddiOp(to, e.op(CASTS["arith.index_cast"](count, INDEX))))
            one = self._place_number(1)
            self.store(e.op(arith.AddiOp(count, one)), counts, slot)
            self.store(key, keys, target)
            self.store(self.load(places, source), places, target)

        slots = e.op(SelectOp(is_one, e.index(0), e.index(1 << self.sorting.digit)))
        e.loop(e.index(0), slots, 1, [self._place_number(0)], sums)
        self.loop(e.index(0), e.op(SelectOp(is_one, e.index(0), size)), move)
        return e.op(SelectOp(is_one, start, to))

    # ** shared by all methods **

    def _number(self, value: int) -> SSAValue:
        """Return an integer of the keys' type."""
        return self.e.constant(IntegerAttr(value, self.key), self.key)

    def _place_number(self, value: int) -> SSAValue:
        return self.e.constant(IntegerAttr(value, self.place), self.place)
