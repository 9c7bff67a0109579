"""Put the intermediate buffers of a segment into one arena, by lifetime.

    %a = memref.alloc() : memref<1024xf32>
    rt.call @relu_0(%x) outs(%a) ..
    ->
    %a = rt.arena 0 : memref<1024xf32>
    rt.call @relu_0(%x) outs(%a) ..

Buffers are placed from the largest to the smallest, each at the lowest offset that is free during
its lifetime (greedy by size: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
Inference", 2020). The segment's property ``arena_bytes`` is the size of the arena. A segment that
another one runs in a loop has its arena in the other's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp, i8, i64
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.rt import ArenaOp, ScanOp, SegmentOp, aligned, buffer_bytes
from tessella.dialects.symbols import callee_of
from tessella.passes.kinds import ProgramPass


@dataclass(frozen=True)
class _Lifetime:
    op: memref.AllocOp
    size: int
    first: int
    last: int


class _Arena:
    """The offsets and lifetimes of buffers. They are arrays, as there may be as many buffers as
    nodes in a model."""

    def __init__(self, most: int) -> None:
        self.count = 0
        self._first, self._last, self._start, self._end = np.zeros((4, most), np.int64)

    @property
    def size(self) -> int:
        return int(self._end[: self.count].max(initial=0))

    def place(self, lifetime: _Lifetime) -> int:
        """Place a buffer at the lowest offset that is free during its lifetime. Returns the
        offset."""
        n = self.count
        taken = (self._first[:n] <= lifetime.last) & (self._last[:n] >= lifetime.first)
        starts, ends = self._start[:n][taken], self._end[:n][taken]
        order = np.argsort(starts)
        starts = starts[order]
        # how far everything that starts before reaches
        reach = np.maximum.accumulate(np.concatenate([[0], ends[order]]))
        gaps = np.flatnonzero(starts - reach[:-1] >= lifetime.size)
        offset = int(reach[gaps[0]] if gaps.size else reach[-1])
        self._first[n], self._last[n] = lifetime.first, lifetime.last
        self._start[n], self._end[n] = offset, offset + lifetime.size
        self.count += 1
        return offset


def _make_room(op: ScanOp) -> None:
    """Allocate the arena of the segment in a loop, which stands above and is planned."""
    size = callee_of(op, op.callee, SegmentOp).arena_size
    if size and op.arena is None:
        alloc = memref.AllocOp.get(i8, None, [size])
        Rewriter.insert_op(alloc, InsertPoint.before(op))
        op.add_scratch(alloc.memref)


@dataclass(frozen=True)
class PlanArenaPass(ProgramPass):
    """Replace the allocations of segments by places in an arena."""

    name = "plan-arena"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for segment in op.body.block.ops:
            if isinstance(segment, SegmentOp):
                _plan(segment)


def _plan(segment: SegmentOp) -> None:
    for op in segment.body.block.ops:
        if isinstance(op, ScanOp):
            _make_room(op)
    position = {op: i for i, op in enumerate(segment.body.block.ops)}
    lifetimes: list[_Lifetime] = []
    for op in position:
        if isinstance(op, memref.AllocOp):
            uses = [position[use.operation] for use in op.memref.uses]
            if uses:
                size = aligned(buffer_bytes(op.memref.type))
                lifetimes.append(_Lifetime(op, size, min(uses), max(uses)))
    arena = _Arena(len(lifetimes))
    offsets = {x.op: arena.place(x) for x in sorted(lifetimes, key=lambda x: -x.size)}
    for op in list(position):
        if isinstance(op, memref.AllocOp):
            offset = offsets.get(op)
            if offset is None:
                Rewriter.erase_op(op)
                continue
            assert isinstance(op.memref.type, MemRefType)
            place = ArenaOp(offset, op.memref.type)
            place.res.name_hint = op.memref.name_hint
            Rewriter.replace_op(op, place)
    segment.arena_bytes = IntegerAttr(arena.size, i64)
