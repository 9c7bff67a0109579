"""The phases of a segment: sequences of operations, separated by barriers. In each phase, every
thread computes a share of the work.

    rt.call @a(..)                          phase 0: @a
    rt.barrier %threads
    rt.call @b(..)                     ->   phase 1: @b, @c
    rt.call @c(..)
    rt.scan @step(..) steps 5               a loop with iterations that have their own phases
    rt.call @d(..)                          phase 2: @d

A phase begins when all shares of the previous phase are done. A loop without phases of its own
(``has_phases``) runs within a phase: each share runs all of its iterations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation

from tessella.dialects.rt.functions import BufferCall, ReturnOp, SegmentOp, divided
from tessella.dialects.rt.ops import ArenaOp, WeightOp
from tessella.dialects.rt.scan import ScanOp
from tessella.dialects.rt.threads import BarrierOp
from tessella.dialects.symbols import callee_of


@dataclass(frozen=True)
class Phase:
    """A phase: operations between two barriers, without loops that have their own phases."""

    ops: Sequence[Operation]
    barrier: BarrierOp | None = None
    """The barrier that ends the phase; None if a loop or the end of the segment ends it."""

    def is_divided(self, divided: Collection[str]) -> bool:
        """Return whether several threads have work in the phase: it calls one of the kernels and
        segments in ``divided``."""
        return any(isinstance(op, BufferCall) and op.callee_name in divided for op in self.ops)


def phases(segment: SegmentOp) -> Iterator[Phase | ScanOp]:
    """Yield the phases of a segment and the loops between them that have their own phases, in
    order."""
    ops: list[Operation] = []
    for op in segment.body.block.ops:
        if isinstance(op, ScanOp) and has_phases(op):
            if ops:
                yield Phase(ops)
            yield op
            ops = []
        elif isinstance(op, BarrierOp):
            if ops:
                yield Phase(ops, op)
            ops = []
        elif not isinstance(op, ArenaOp | WeightOp | ReturnOp):
            # an op that only names memory is not work: the memory belongs to the phases that access
            # it
            ops.append(op)
    if ops:
        yield Phase(ops)


def has_phases(op: ScanOp) -> bool:
    """Return whether the iterations of a loop consist of phases, because threads wait for each
    other within an iteration.

    A conditional loop around divided work also has phases, as all threads must know the condition.
    """
    segment = callee_of(op, op.callee, SegmentOp)
    block = segment.parent_block()
    if op.loop.conditional and block is not None and op.callee_name in divided(block):
        return True
    return any(
        isinstance(inner, BarrierOp) or (isinstance(inner, ScanOp) and has_phases(inner))
        for inner in segment.body.block.ops
    )
