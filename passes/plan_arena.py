"""Put the intermediate buffers of a segment into one arena, by lifetime.

    %a = memref.alloc() : memref<1024xf32>
    rt.call @relu_0(%x) outs(%a) ..
    ->
    %a = rt.arena 0 : memref<1024xf32>
    rt.call @relu_0(%x) outs(%a) ..

Buffers are placed from the largest to the smallest, each at the lowest offset that is free during
its lifetime (greedy by size: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
Inference", 2020). A buffer that several threads touch lives until the next barrier, as one of them
may be late; unless the next buffer at its place is as large, and each thread touches the same part
of both. In a segment that runs in a loop, it lives until the first barrier of the next step. The
segment's property ``arena_bytes`` is the size of the arena. Memory that each thread has for itself
lies after it, ``private_bytes`` for each thread. A segment that another one runs in a loop has
both in the other's.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp, UnitAttr, i8, i64
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.rt import (
    ALONE,
    ANY,
    PRIVATE,
    ArenaOp,
    BarrierOp,
    Part,
    ScanOp,
    SegmentOp,
    aligned,
    buffer_bytes,
)
from tessella.dialects.symbols import callee_of
from tessella.passes.base import buffer_segments
from tessella.passes.kinds import ProgramPass
from tessella.passes.tile.parts import joined
from tessella.passes.touched import Touched, loops_of


@dataclass(frozen=True)
class _Lifetime:
    """Of buffers that have one place, one after the other."""

    ops: tuple[memref.AllocOp, ...]
    size: int
    first: int
    last: int
    until: int
    """The next barrier, perhaps of the next step."""
    part: Part
    """What each thread touches of it."""

    @property
    def is_alone(self) -> bool:
        """Whether one thread touches it, in the order of the ops."""
        return self.part == ALONE


class _Arena:
    """The offsets and lifetimes of buffers. They are arrays, as there may be as many buffers as
    nodes in a model."""

    def __init__(self, most: int, step: int | None) -> None:
        """``step`` is the time from one step to the next in a segment that runs in a loop."""
        self.count = 0
        self._step = step
        self._first, self._last, self._until, self._start, self._end = np.zeros((5, most), np.int64)
        self._alone = np.zeros(most, np.bool_)

    @property
    def size(self) -> int:
        return int(self._end[: self.count].max(initial=0))

    def place(self, lifetime: _Lifetime) -> int:
        """Place a buffer at the lowest offset that is free during its lifetime. Returns the
        offset."""
        n = self.count
        taken = self._taken(lifetime)
        starts, ends = self._start[:n][taken], self._end[:n][taken]
        order = np.argsort(starts)
        starts = starts[order]
        # how far everything that starts before reaches
        reach = np.maximum.accumulate(np.concatenate([[0], ends[order]]))
        gaps = np.flatnonzero(starts - reach[:-1] >= lifetime.size)
        offset = int(reach[gaps[0]] if gaps.size else reach[-1])
        self._first[n], self._last[n] = lifetime.first, lifetime.last
        self._until[n], self._alone[n] = lifetime.until, lifetime.is_alone
        self._start[n], self._end[n] = offset, offset + lifetime.size
        self.count += 1
        return offset

    def _taken(self, x: _Lifetime) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """The buffers that may be in use when this one is."""
        first, last, until = (a[: self.count] for a in (self._first, self._last, self._until))
        taken = (first <= x.until) & (until >= x.first)
        if self._step is not None:
            taken |= (first + self._step <= x.until) | (until >= x.first + self._step)
        if x.is_alone:
            taken &= ~self._alone[: self.count] | ((first <= x.last) & (last >= x.first))
        return taken


def _make_room(op: ScanOp) -> None:
    """Allocate the memory of the segment in a loop, which stands above and is planned."""
    segment = callee_of(op, op.callee, SegmentOp)
    if op.arena is None and segment.arena_size:
        _add_memory(op, segment.arena_size)
    if op.private is None and segment.private_size:
        _add_memory(op, segment.private_size).attributes[PRIVATE] = UnitAttr()


def _add_memory(op: ScanOp, size: int) -> memref.AllocOp:
    alloc = memref.AllocOp.get(i8, None, [size])
    Rewriter.insert_op(alloc, InsertPoint.before(op))
    op.add_scratch(alloc.memref)
    return alloc


@dataclass(frozen=True)
class PlanArenaPass(ProgramPass):
    """Replace the allocations of segments by places in an arena."""

    name = "plan-arena"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        touched, loops = Touched.by(op), loops_of(op)
        for segment in buffer_segments(op):
            _plan(segment, touched, repeats=segment.sym_name.data in loops)


def _plan(segment: SegmentOp, touched: Touched, *, repeats: bool) -> None:
    for op in segment.body.block.ops:
        if isinstance(op, ScanOp):
            _make_room(op)
    ops = list(segment.body.block.ops)
    step = len(ops) if repeats else None
    lifetimes = list(_lifetimes(ops, touched, step))
    private = [x for x in lifetimes if PRIVATE in x.ops[0].attributes]
    common = [x for x in lifetimes if PRIVATE not in x.ops[0].attributes]
    segment.arena_bytes = IntegerAttr(_place(_joined(common), step), i64)
    size = _place([replace(x, part=ALONE) for x in private], step)
    segment.private_bytes = IntegerAttr(size, i64) if size else None
    for op in list(segment.body.block.ops):
        if isinstance(op, memref.AllocOp):
            Rewriter.erase_op(op)  # nothing uses it


def _lifetimes(ops: Sequence[Operation], touched: Touched, step: int | None) -> Iterator[_Lifetime]:
    position = {op: i for i, op in enumerate(ops)}
    barriers = [i for i, op in enumerate(ops) if isinstance(op, BarrierOp)]
    # no barrier: until the end, or over all of the next step
    barriers += [len(ops)] if step is None else [step + i for i in (*barriers, len(ops))]
    parts = joined(use for op in ops for use in touched.uses_of(op))
    for op in ops:
        if isinstance(op, memref.AllocOp) and op.memref.uses:
            uses = [position[use.operation] for use in op.memref.uses]
            last = max(uses)
            until = barriers[bisect(barriers, last)]
            size = aligned(buffer_bytes(op.memref.type))
            yield _Lifetime((op,), size, min(uses), last, until, parts[op.memref])


def _joined(lifetimes: Sequence[_Lifetime]) -> list[_Lifetime]:
    """The lifetimes, with those that follow each other joined where no barrier is between them, and
    each thread touches the same part of both."""
    joined: dict[_Lifetime, None] = {}
    open_: dict[tuple[int, Part], list[_Lifetime]] = {}
    for x in sorted(lifetimes, key=lambda x: x.first):
        alike = open_.setdefault((x.size, x.part), [])
        free = (y for y in alike if y.last < x.first <= y.until)
        before = next(free, None) if x.part not in (ALONE, ANY) else None
        if before is not None:
            alike.remove(before)
            del joined[before]
            x = replace(x, ops=(*before.ops, *x.ops), first=before.first)
        alike.append(x)
        joined[x] = None
    return [*joined]


def _place(lifetimes: Sequence[_Lifetime], step: int | None) -> int:
    """Replace allocations by places in one arena. Returns its size."""
    arena = _Arena(len(lifetimes), step)
    for x in sorted(lifetimes, key=lambda x: -x.size):
        offset = arena.place(x)
        for op in x.ops:
            assert isinstance(op.memref.type, MemRefType)
            place = ArenaOp(offset, op.memref.type, private=PRIVATE in op.attributes)
            place.res.name_hint = op.memref.name_hint
            Rewriter.replace_op(op, place)
    return arena.size
