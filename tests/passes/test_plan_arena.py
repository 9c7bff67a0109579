"""Places of buffers in the arena, for random lifetimes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp, f32
from xdsl.ir import Operation

from tessella.dialects.rt import ArenaOp, CallOp, KernelOp, ReturnOp, SegmentOp
from tessella.passes.plan_arena import PlanArenaPass
from tessella.support.decisions import known
from tests.sampling import sampled

Calls = list[list[int]]


@dataclass(frozen=True)
class Buffer:
    """A buffer's place, and the calls that use it first and last."""

    start: int
    stop: int
    first: int
    last: int


def plan(sizes: list[int], calls: Calls) -> tuple[list[Buffer], int]:
    """The buffers that are used, after the pass, and the size of the arena."""
    segment = SegmentOp("segment_0", [], [])
    threads = segment.thread, segment.threads
    block = segment.body.block
    allocations = [memref.AllocOp.get(f32, None, [size]) for size in sizes]
    block.add_ops(allocations)
    kernels: list[Operation] = []
    for number, call in enumerate(calls):
        buffers = [allocations[i].memref for i in call]
        kernels.append(KernelOp(f"k{number}", [buffer.type for buffer in buffers], []))
        block.add_op(CallOp(f"k{number}", buffers, [], [], threads))
    block.add_op(ReturnOp())
    PlanArenaPass().apply(Context(), ModuleOp([*kernels, segment]))
    steps: dict[Operation, int] = {}
    for op in block.ops:
        if isinstance(op, CallOp):
            steps[op] = len(steps)
    found: list[Buffer] = []
    for op in block.ops:
        assert not isinstance(op, memref.AllocOp)
        if isinstance(op, ArenaOp):
            used = sorted(steps[use.operation] for use in op.res.uses if use.operation in steps)
            type = op.res.type
            assert isinstance(type, MemRefType)
            assert isinstance(op.offset, IntegerAttr)
            start = op.offset.value.data
            found.append(Buffer(start, start + 4 * type.element_count(), used[0], used[-1]))
    return found, known(segment.arena_size)


def up(size: int) -> int:
    return -(-size // 64) * 64


@settings(max_examples=sampled(400))
@given(data=st.data())
def test_lifetimes(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 200), min_size=1, max_size=12))
    some = st.lists(st.integers(0, len(sizes) - 1), max_size=4)
    calls = data.draw(st.lists(some, max_size=12))
    buffers, total = plan(sizes, calls)
    assert len(buffers) == len(set(itertools.chain(*calls)))
    for a, b in itertools.combinations(buffers, 2):
        apart = a.stop <= b.start or b.stop <= a.start
        assert apart or a.last < b.first or b.last < a.first
    assert all(b.start % 64 == 0 for b in buffers)
    assert total == max((up(b.stop) for b in buffers), default=0)
    # no more than all of them side by side, which is what those of one call need
    needed = [
        sum(up(b.stop - b.start) for b in buffers if b.first <= i <= b.last)
        for i in range(len(calls))
    ]
    assert max(needed, default=0) <= total <= sum(up(b.stop - b.start) for b in buffers)


def test_a_chain_takes_two_buffers() -> None:
    """Each call reads what the one before it wrote."""
    _, total = plan([16] * 10, [[i, i + 1] for i in range(9)])
    assert total == 2 * 64
