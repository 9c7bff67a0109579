"""Put the intermediate buffers of a segment into one arena, by lifetime.

    %a = memref.alloc() : memref<1024xf32>
    rt.call @relu_0(%x) outs(%a) ..
    ->
    %a = rt.arena 0 : memref<1024xf32>
    rt.call @relu_0(%x) outs(%a) ..

Buffers are placed from the largest to the smallest, each at the lowest offset that is free during
its lifetime (greedy by size: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
Inference", 2020). A buffer that several threads touch lives until the next barrier, as a thread may
be late; in a segment that runs in a loop, this may be the first barrier of the next iteration. Two
buffers of equal size may share their bytes without a barrier in between if each thread touches the
same part of both.

The segment's property ``arena_bytes`` is the size of the arena. The private memory of the threads
lies after the arena, ``private_bytes`` for each thread. If a segment runs another one in a loop,
its own memories contain the arena and the private memory of the other one. Sizes and offsets may
depend on symbols; the places are valid for all values of the symbols.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, ModuleOp, UnitAttr, i8
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
from tessella.dialects.sizes import dims, size_attribute
from tessella.dialects.symbols import callee_of
from tessella.passes.arena import Lifetime, arena_for
from tessella.passes.base import buffer_segments
from tessella.passes.kinds import ProgramPass
from tessella.passes.tile.parts import joined
from tessella.passes.touched import Touched, loops_of
from tessella.support.sizes import Size, estimated


def _make_room(op: ScanOp) -> None:
    """Allocate, in the segment with a loop, the arena and the private memory of the segment that
    the loop runs. That segment precedes this one in the module, so its memory is planned
    already."""
    segment = callee_of(op, op.callee, SegmentOp)
    if op.arena is None and segment.arena_size != 0:
        _add_memory(op, segment.arena_size)
    if op.private is None and segment.private_size != 0:
        _add_memory(op, segment.private_size).attributes[PRIVATE] = UnitAttr()


def _add_memory(op: ScanOp, size: Size) -> memref.AllocOp:
    alloc = memref.AllocOp.get(i8, None, dims([size]))
    Rewriter.insert_op(alloc, InsertPoint.before(op))
    op.add_scratch(alloc.memref)
    return alloc


@dataclass(frozen=True)
class PlanArenaPass(ProgramPass):
    """Replace the allocations of segments by places in an arena."""

    name = "plan-arena"
    stages = ("loops",)

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
    segment.arena_bytes = size_attribute(_place(_joined(common), step))
    size = _place([replace(x, part=ALONE) for x in private], step)
    segment.private_bytes = size_attribute(size) if size != 0 else None
    for op in list(segment.body.block.ops):
        if isinstance(op, memref.AllocOp):
            Rewriter.erase_op(op)  # nothing uses it


def _lifetimes(ops: Sequence[Operation], touched: Touched, step: int | None) -> Iterator[Lifetime]:
    position = {op: i for i, op in enumerate(ops)}
    barriers = [i for i, op in enumerate(ops) if isinstance(op, BarrierOp)]
    # A buffer without a later barrier lives until the end, or over all of the next iteration.
    barriers += [len(ops)] if step is None else [step + i for i in (*barriers, len(ops))]
    parts = joined(use for op in ops for use in touched.uses_of(op))
    for op in ops:
        if isinstance(op, memref.AllocOp) and op.memref.uses:
            uses = [position[use.operation] for use in op.memref.uses]
            last = max(uses)
            until = barriers[bisect(barriers, last)]
            size = aligned(buffer_bytes(op.memref.type))
            yield Lifetime((op,), size, min(uses), last, until, parts[op.memref])


def _joined(lifetimes: Sequence[Lifetime]) -> list[Lifetime]:
    """Join adjacent live ranges without a barrier in between into one, if each thread touches the
    same bytes in both."""
    joined: dict[Lifetime, None] = {}
    open_: dict[tuple[Size, Part], list[Lifetime]] = {}
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


def _place(lifetimes: Sequence[Lifetime], step: int | None) -> Size:
    """Replace the allocations of buffers by offsets in one arena. Returns the size of the arena."""
    arena = arena_for(lifetimes, step)
    for x in sorted(lifetimes, key=lambda x: -estimated(x.size)):
        offset = arena.place(x)
        for op in x.ops:
            assert isinstance(op.memref.type, MemRefType)
            place = ArenaOp(offset, op.memref.type, private=PRIVATE in op.attributes)
            place.res.name_hint = op.memref.name_hint
            Rewriter.replace_op(op, place)
    return arena.size
