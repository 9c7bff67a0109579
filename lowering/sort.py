"""A `tile.sort` as loops, row by row.

``insertion``: the best keys so far are a sorted buffer. Blocks of keys are compared with the last
of the best in whole vectors; of a block with a better one, each that is better is inserted.
``interleaved``: the same for several rows, one in each lane.
``radix``: all keys are sorted by digits, from the lowest one, each time stably. One pass counts the
digits of all keys. A digit that all keys share moves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import IntegerAttr, IntegerType, MemRefType, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from tessella.dialects import rt
from tessella.dialects.arith import CASTS, CmpiOp, SelectOp
from tessella.dialects.nn.core import shape_of
from tessella.dialects.tile import Access, Index, Schedule, Sorting, SortOp, stays_inside, yielded
from tessella.dialects.tile.flat import FlatAccess, flatten_access, layout_of
from tessella.dialects.tile.sort import INSERTION, INTERLEAVED
from tessella.lowering.aggregate import accumulate, horizontal
from tessella.lowering.body import Bodies
from tessella.lowering.comparable import comparable, key_type
from tessella.lowering.values import INDEX, Emitter, Pos, Val
from tessella.support.conditions import decided
from tessella.support.errors import InvalidModelError
from tessella.support.sizes import Expr, Size, bounds_of, ceil_div

VECTORS = 4
"""Vectors of keys that are compared at a time."""

Body = Callable[[SSAValue], None]


def scratch_of(op: SortOp) -> Sequence[rt.Buffer]:
    """The buffers that each thread needs: for keys, for places, and for counts of digits."""
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
    """The integers of keys, and those of places in the buffers."""
    key = key_type(yielded(op.combine.block).type)
    is_long = bounds_of(op.along.range)[1] >= 1 << 31
    return key, i64 if is_long or key.width.data > 32 else i32


def _digits(key: IntegerType, sorting: Sorting) -> int:
    return ceil_div(key.width.data, sorting.digit)


class Sort:
    """Emits the loops of a sort."""

    def __init__(
        self,
        emitter: Emitter,
        op: SortOp,
        buffers: Mapping[SSAValue, SSAValue],
        scratch: Sequence[SSAValue],
        share: tuple[SSAValue, SSAValue] | None,
    ) -> None:
        self.e = emitter
        self.op = op
        self.sorting = _sorting(op)
        self.buffers = [buffers[value] for value in op.tensors]
        self.scratch = scratch
        self.share = share
        self.name = op.along.name
        self.key, self.place = _types(op)
        self.element = yielded(op.combine.block).type
        self.reads = [
            self._flat(value, forms, op.ranges)
            for value, forms in zip(op.inputs, op.input_accesses, strict=True)
        ]
        taken = {**op.ranges, self.name: op.count}
        self.writes = [self._flat(value, op.out_access, taken) for value in op.results]
        free = tuple(index.name for index in op.free)
        lanes = self.sorting.lanes
        self.vector = free[-1] if self.sorting.method == INTERLEAVED else self.name
        self.bodies = Bodies(emitter, Schedule(free, (self.name,), self.vector, lanes), buffers)
        self.scalars = Bodies(emitter, Schedule(free, (self.name,)), buffers)

    def _flat(self, value: SSAValue, forms: Access, ranges: Mapping[str, Size]) -> FlatAccess[Size]:
        if not stays_inside(forms, shape_of(value), ranges):
            raise InvalidModelError(f"an access of tile.sort leaves {value.type}")
        return flatten_access(forms, shape_of(value), layout_of(value), ranges)

    def emit(self) -> None:
        """Append the loops to the emitter's block."""
        self.e.lanes = self.sorting.lanes
        units, e = self.op.units, self.e
        first, stop = self.share or (e.index(0), e.index(units))
        self._loop(first, stop, self._group if self.sorting.method == INTERLEAVED else self._row)

    # ** rows **

    def _row(self, number: SSAValue) -> None:
        point = self._point(number, self.op.free)
        sort = self._inserted if self.sorting.method == INSERTION else self._by_digits
        places, start = sort(point)
        self._write(point, places, start, 1)

    def _point(self, number: SSAValue, free: Sequence[Index]) -> dict[str, Pos]:
        """The values of indices, of which the last one counts fastest."""
        point: dict[str, Pos] = {}
        for index in reversed(free):
            point[index.name] = Pos(self._digit(number, index.range))
            number = self._quotient(number, index.range)
        return point

    def _group(self, number: SSAValue) -> None:
        """Sort interleaved rows. The last group begins earlier, so that all lanes are rows."""
        e, lanes, (*outer, last) = self.e, self.sorting.lanes, self.op.free
        groups = ceil_div(last.range, lanes)
        point = self._point(self._quotient(number, groups), outer)
        group = e.op(arith.MuliOp(self._digit(number, groups), e.index(lanes)))
        start = e.op(arith.MinSIOp(group, e.index(last.range - lanes)))
        self._interleaved({**point, last.name: Pos(start)})

        def body(lane: SSAValue) -> None:
            row = {**point, last.name: Pos(e.op(arith.AddiOp(start, lane)))}
            self._write(row, self.scratch[1], lane, lanes)

        self._loop(e.index(0), e.index(lanes), body)

    def _digit(self, number: SSAValue, range: Size) -> SSAValue:
        if isinstance(range, Expr):
            return self.e.op(arith.RemUIOp(number, self.e.index(range)))
        return self.e.apply(AffineExpr.dimension(0) % range, [number])

    def _quotient(self, number: SSAValue, range: Size) -> SSAValue:
        if isinstance(range, Expr):
            return self.e.op(arith.DivUIOp(number, self.e.index(range)))
        return self.e.apply(AffineExpr.dimension(0) // range, [number])

    def _write(
        self, point: Mapping[str, Pos], places: SSAValue, start: SSAValue, stride: int
    ) -> None:
        """Write the keys and the places of a row's first values, whose places lie from an offset on
        in a buffer."""
        e, values = self.e, self.op.results

        def body(at: SSAValue) -> None:
            place = self._load(places, e.linear([(start, 1), (at, stride)], 0))
            index = e.op(CASTS["arith.index_cast"](place, INDEX))
            here = {**point, self.name: Pos(at)}
            if values[0].first_use is not None:
                value = self._element(point, index)
                self._store(value, self.buffers[-2], self._address(self.writes[0], here))
            if values[1].first_use is not None:
                wide = e.op(CASTS["arith.index_cast"](index, i64))
                self._store(wide, self.buffers[-1], self._address(self.writes[1], here))

        self._loop(e.index(0), e.index(self.op.count), body)

    def _address(self, access: FlatAccess[Size], point: Mapping[str, Pos]) -> SSAValue:
        pos = Pos(None, access.offset)
        for name, value in point.items():
            pos = self.e.step(pos, value, access.stride(name))
        return self.e.at(pos)

    # ** keys **

    def _element(self, point: Mapping[str, Pos], at: SSAValue) -> SSAValue:
        """The key of one value of a row, as the body yields it."""
        here = {**point, self.name: Pos(at)}
        args = [
            Val(self._load(buffer, self._address(access, here)))
            for buffer, access in zip(self.buffers, self.reads, strict=False)
        ]
        lanes, self.e.lanes = self.e.lanes, 1
        value = self.scalars.run(self.op.combine.block, args, here, 0, 0, 0).ssa
        self.e.lanes = lanes
        return value

    def _one(self, point: Mapping[str, Pos], at: SSAValue) -> SSAValue:
        """The integer of one key."""
        key = Val(self._element(point, at))
        return comparable(self.e, key, self.element, descending=self._descending).ssa

    def _several(self, point: Mapping[str, Pos], at: SSAValue) -> SSAValue:
        """The integers of the keys of consecutive values."""
        here = {**point, self.name: Pos(at)}
        args: list[Val] = []
        for buffer, access in zip(self.buffers, self.reads, strict=False):
            address, varying = self._address(access, here), self._moves(access)
            args.append(Val(self._load(buffer, address, varying=varying), varying))
        value = self.bodies.run(self.op.combine.block, args, here, 0, 0, 0)
        value = Val(self.e.spread(value), True)
        return comparable(self.e, value, self.element, descending=self._descending).ssa

    def _moves(self, access: FlatAccess[Size]) -> bool:
        return not decided(access.stride(self.vector) == 0)

    @property
    def _descending(self) -> bool:
        return self.op.descending is not None

    @property
    def _is_contiguous(self) -> bool:
        """Whether whole vectors of the operands are loaded along a row."""
        strides = (access.stride(self.name) for access in self.reads)
        return all(stride in (0, 1) for stride in strides) and self.sorting.lanes > 1

    def _fill(
        self,
        point: Mapping[str, Pos],
        start: SSAValue,
        count: SSAValue,
        store: Callable[[SSAValue, SSAValue], None],
    ) -> None:
        """Store the integers of so many keys from a value of the index on: ``store(key, number)``
        takes one or a vector of them."""
        e, lanes, done = self.e, self.sorting.lanes, self.e.index(0)

        def body(take: Callable[..., SSAValue], at: SSAValue) -> None:
            store(take(point, e.op(arith.AddiOp(start, at))), at)

        if self._is_contiguous:
            done = self._whole(count, lanes)
            self._loop(e.index(0), done, partial(body, self._several), lanes)
        self._loop(done, count, partial(body, self._one))

    def _whole(self, count: SSAValue, size: int) -> SSAValue:
        """The values in whole groups of a size."""
        return self.e.apply(AffineExpr.dimension(0) // size * size, [count])

    # ** insertion **

    def _inserted(self, point: Mapping[str, Pos]) -> tuple[SSAValue, SSAValue]:
        e, (_, best, places) = self.e, self.scratch
        lanes, count = self.sorting.lanes, self.op.count
        self._store(self._number(-(1 << (self.key.width.data - 1))), best, e.index(lanes - 1))

        def begin(at: SSAValue) -> None:
            self._insert(self._one(point, at), at, at)

        self._loop(e.index(0), e.index(count), begin)
        size = VECTORS * lanes
        self._loop(e.index(count), e.index(self.op.along.range), partial(self._block, point), size)
        return places, e.index(lanes)

    def _block(self, point: Mapping[str, Pos], start: SSAValue) -> None:
        """Insert the keys of a block that are better than the last of the best ones."""
        e, lanes, (block, _, _) = self.e, self.sorting.lanes, self.scratch
        size = VECTORS * lanes
        left = e.op(arith.SubiOp(e.index(self.op.along.range), start))
        count = e.op(arith.MinSIOp(left, e.index(size)))
        self._fill(point, start, count, lambda key, at: self._store(key, block, at))

        def pad(at: SSAValue) -> None:
            self._store(self._number((1 << (self.key.width.data - 1)) - 1), block, at)

        self._loop(count, e.index(size), pad)
        last = e.spread(Val(self._last()))
        keys = [self._load(block, e.index(i * lanes), varying=True) for i in range(VECTORS)]
        found = [e.op(CmpiOp(key, last, "slt")) for key in keys]
        any_found = reduce(partial(accumulate, e, "+"), found)
        if lanes > 1:
            any_found = horizontal(e, "+", [any_found])
        e.when(any_found, lambda: self._loop(e.index(0), count, partial(self._try, start)))

    def _try(self, start: SSAValue, at: SSAValue) -> None:
        key = self._load(self.scratch[0], at)
        better = self.e.op(CmpiOp(key, self._last(), "slt"))
        place = self.e.op(arith.AddiOp(start, at))
        self.e.when(better, lambda: self._insert(key, place, None))

    def _last(self) -> SSAValue:
        """The last of the best keys."""
        return self._load(self.scratch[1], self.e.index(self.op.count + self.sorting.lanes - 1))

    def _insert(self, key: SSAValue, at: SSAValue, length: SSAValue | None) -> None:
        """Insert a key behind those of the best that are no greater. They are as many as are
        wanted, or ``length``. The vectors of the best ones are moved from the last one on."""
        e, lanes, (_, best, places) = self.e, self.sorting.lanes, self.scratch
        place = e.op(CASTS["arith.index_cast"](at, self.place))
        new, new_place = e.spread(Val(key)), e.spread(Val(place))
        last = e.index(self.op.count - 1) if length is None else length
        blocks = e.apply(AffineExpr.dimension(0) // lanes, [last])

        def body(number: SSAValue) -> None:
            offset = e.op(arith.MuliOp(e.op(arith.SubiOp(blocks, number)), e.index(lanes)))
            here = e.op(arith.AddiOp(offset, e.index(lanes)))
            before = e.op(arith.SubiOp(here, e.index(1)))
            load = partial(self._load, varying=True)
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
                self._store(e.op(SelectOp(stays, current, moved)), buffer, here)

        self._loop(e.index(0), e.op(arith.AddiOp(blocks, e.index(1))), body)

    # ** interleaved rows **

    def _interleaved(self, point: Mapping[str, Pos]) -> None:
        e, lanes, count = self.e, self.sorting.lanes, self.op.count

        def begin(at: SSAValue) -> None:
            self._exchange(self._several(point, at), at, at, e.op(arith.AddiOp(at, e.index(1))))

        def follow(at: SSAValue) -> None:
            key = self._several(point, at)
            last = self._load(self.scratch[0], e.index((count - 1) * lanes), varying=True)
            better = horizontal(e, "+", [e.op(CmpiOp(key, last, "slt"))])
            e.when(better, lambda: self._exchange(key, at, None, e.index(count)))

        self._loop(e.index(0), e.index(count), begin)
        self._loop(e.index(count), e.index(self.op.along.range), follow)

    def _exchange(
        self, key: SSAValue, at: SSAValue, end: SSAValue | None, length: SSAValue
    ) -> None:
        """Insert a key of each lane into the best of its row, of which the last one drops out; at
        ``end`` there is none yet."""
        e, lanes, (best, places) = self.e, self.sorting.lanes, self.scratch
        place = e.spread(Val(e.op(CASTS["arith.index_cast"](at, self.place))))

        def body(number: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            here = e.linear([(number, lanes)], 0)
            old = [self._load(buffer, here, varying=True) for buffer in (best, places)]
            moves = e.op(CmpiOp(key, old[0], "slt"))
            if end is not None:
                is_end = e.spread(Val(e.op(CmpiOp(number, end, "eq"))))
                moves = e.op(arith.OrIOp(moves, is_end))
            for buffer, own, current in zip((best, places), carried, old, strict=True):
                self._store(e.op(SelectOp(moves, own, current)), buffer, here)
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
            self._store(bits, keys, at)

        self._fill(point, e.index(0), size, store)
        digits = _digits(self.key, self.sorting)
        zero = self._place_number(0)
        self._loop(
            e.index(0),
            e.index(digits << self.sorting.digit),
            lambda at: self._store(zero, counts, at),
        )
        self._loop(e.index(0), size, partial(self._count, digits))
        start = e.index(0)
        for digit in range(digits):
            start = self._pass(digit, start)
        return places, start

    def _count(self, digits: int, at: SSAValue) -> None:
        """Count the digits of a key."""
        e, (keys, places, counts) = self.e, self.scratch
        self._store(e.op(CASTS["arith.index_cast"](at, self.place)), places, at)
        key, one = self._load(keys, at), self._place_number(1)
        for digit in range(digits):
            slot = self._slot(key, digit)
            self._store(e.op(arith.AddiOp(self._load(counts, slot), one)), counts, slot)

    def _slot(self, key: SSAValue, digit: int) -> SSAValue:
        """Where a digit of a key is counted."""
        e, bits = self.e, self.sorting.digit
        shifted = e.op(arith.ShRUIOp(key, self._number(bits * digit))) if digit else key
        mask = min(bits, self.key.width.data - bits * digit)
        value = e.op(arith.AndIOp(shifted, self._number((1 << mask) - 1)))
        if self.key.width.data < 64:
            value = e.op(CASTS["arith.extui"](value, i64))
        return e.linear([(e.op(CASTS["arith.index_cast"](value, INDEX)), 1)], digit << bits)

    def _pass(self, digit: int, start: SSAValue) -> SSAValue:
        """Sort by a digit. Returns where the keys are then."""
        e, (keys, places, counts) = self.e, self.scratch
        size = e.index(self.op.along.range)
        first = self._load(counts, self._slot(self._load(keys, start), digit))
        total = e.op(CASTS["arith.index_cast"](first, INDEX))
        is_one = e.op(CmpiOp(total, size, "eq"))
        to = e.op(arith.SubiOp(size, start))

        def sums(at: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            slot = e.linear([(at, 1)], digit << self.sorting.digit)
            count = self._load(counts, slot)
            self._store(carried[0], counts, slot)
            return [e.op(arith.AddiOp(carried[0], count))]

        def move(at: SSAValue) -> None:
            source = e.op(arith.AddiOp(start, at))
            key = self._load(keys, source)
            slot = self._slot(key, digit)
            count = self._load(counts, slot)
            target = e.op(arith.AddiOp(to, e.op(CASTS["arith.index_cast"](count, INDEX))))
            one = self._place_number(1)
            self._store(e.op(arith.AddiOp(count, one)), counts, slot)
            self._store(key, keys, target)
            self._store(self._load(places, source), places, target)

        slots = e.op(SelectOp(is_one, e.index(0), e.index(1 << self.sorting.digit)))
        e.loop(e.index(0), slots, 1, [self._place_number(0)], sums)
        self._loop(e.index(0), e.op(SelectOp(is_one, e.index(0), size)), move)
        return e.op(SelectOp(is_one, start, to))

    # ** what all of them use **

    def _number(self, value: int) -> SSAValue:
        """An integer of the type of keys."""
        return self.e.constant(IntegerAttr(value, self.key), self.key)

    def _place_number(self, value: int) -> SSAValue:
        return self.e.constant(IntegerAttr(value, self.place), self.place)

    def _load(self, buffer: SSAValue, at: SSAValue, *, varying: bool = False) -> SSAValue:
        if not varying or self.sorting.lanes == 1:
            return self.e.op(memref.LoadOp.get(buffer, [at]))
        assert isinstance(buffer.type, MemRefType)
        element: Attribute = buffer.type.element_type
        return self.e.op(vector.LoadOp(buffer, [at], self.e.vector_type(element)))

    def _store(self, value: SSAValue, buffer: SSAValue, at: SSAValue) -> None:
        is_vector = value.type != getattr(buffer.type, "element_type", None)
        kind = vector.StoreOp if is_vector else memref.StoreOp
        self.e.effect(kind.create(operands=[value, buffer, at]))

    def _loop(self, start: SSAValue, stop: SSAValue, body: Body, step: int = 1) -> None:
        def inner(at: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
            body(at)
            return ()

        self.e.loop(start, stop, step, (), inner)
