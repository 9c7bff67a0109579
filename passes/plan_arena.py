"""Put the intermediate buffers of a segment into one arena, by lifetime.

    %a = memref.alloc() : memref<1024xf32>
    func.call @relu_0(%x, %a)
    ->
    %a = rt.arena 0 : memref<1024xf32>
    func.call @relu_0(%x, %a)

Buffers are placed from the largest to the smallest, each at the lowest offset where no buffer
that lives at the same time is (greedy by size: Pisarchyk and Lee, "Efficient Memory Management
for Deep Neural Net Inference", 2020). The segment's attribute ``rt.arena_bytes`` is the size of
the arena.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from tessella.dialects.nn.core import dtype_of
from tessella.dialects.rt import ARENA_ALIGNMENT, ArenaOp
from tessella.passes.base import functions
from tessella.passes.outline_segments import SEGMENT

ARENA_BYTES = "rt.arena_bytes"


@dataclass
class _Lifetime:
    op: memref.AllocOp
    size: int
    first: int
    last: int
    offset: int = -1

    def overlaps(self, other: _Lifetime) -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class PlanArenaPass(ModulePass):
    """Replace the allocations of segments by places in an arena."""

    name = "plan-arena"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            if SEGMENT in function.attributes:
                _plan(function)


def _plan(function: FuncOp) -> None:
    position = {op: i for i, op in enumerate(function.body.block.ops)}
    lifetimes: list[_Lifetime] = []
    for op in position:
        if isinstance(op, memref.AllocOp):
            uses = [position[use.operation] for use in op.memref.uses]
            if uses:
                lifetimes.append(_Lifetime(op, _bytes(op), min(uses), max(uses)))
    placed: list[_Lifetime] = []
    for lifetime in sorted(lifetimes, key=lambda x: -x.size):
        lifetime.offset = _lowest_gap(lifetime, placed)
        placed.append(lifetime)
    for op in list(position):
        if isinstance(op, memref.AllocOp):
            offset = next((x.offset for x in placed if x.op is op), None)
            if offset is None:
                Rewriter.erase_op(op)
                continue
            assert isinstance(op.memref.type, MemRefType)
            arena = ArenaOp(offset, op.memref.type)
            arena.res.name_hint = op.memref.name_hint
            Rewriter.replace_op(op, arena)
    total = max((x.offset + x.size for x in placed), default=0)
    function.attributes[ARENA_BYTES] = IntegerAttr(total, i64)


def _bytes(op: memref.AllocOp) -> int:
    """Size of a buffer, rounded up to the arena's alignment."""
    assert isinstance(op.memref.type, MemRefType)
    size = op.memref.type.element_count() * dtype_of(op.memref.type.element_type).itemsize
    return -(-size // ARENA_ALIGNMENT) * ARENA_ALIGNMENT


def _lowest_gap(lifetime: _Lifetime, placed: list[_Lifetime]) -> int:
    taken = sorted(
        ((x.offset, x.offset + x.size) for x in placed if x.overlaps(lifetime)),
    )
    offset = 0
    for start, end in taken:
        if offset + lifetime.size <= start:
            break
        offset = max(offset, end)
    return offset
