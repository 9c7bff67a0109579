"""The phases of a segment: stretches that the threads of a run divide into shares.

rt.call @a(..)                          phase 0: @a
rt.barrier %threads
rt.call @b(..)                     ->   phase 1: @b, @c
rt.call @c(..)
rt.scan @step(..) steps 5               a loop whose steps have phases of their own
rt.call @d(..)                          phase 2: @d

A phase begins when all shares of the one before it are done. A loop whose segment has no barrier
runs within a phase, all of its steps in each share.
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
    """Operations between two barriers."""

    ops: Sequence[Operation]
    barrier: BarrierOp | None = None
    """The barrier that ends the phase; None at a loop or at the end of the segment."""

    def is_divided(self, divided: Collection[str]) -> bool:
        """Return whether several threads have work in the phase, given the divided kernels and
        segments."""
        return any(isinstance(op, BufferCall) and op.callee_name in divided for op in self.ops)


def phases(segment: SegmentOp) -> Iterator[Phase | ScanOp]:
    """Yield the phases of a segment and the loops between them, in order."""
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
            # memory that an op names belongs to the phases that touch it
            ops.append(op)
    if ops:
        yield Phase(ops)


def has_phases(op: ScanOp) -> bool:
    """Return whether the iterations of a loop have phases, as threads wait for each other in them.

    A condition that ends a loop of divided work also needs phases, as all threads must know it.
    """
    segment = callee_of(op, op.callee, SegmentOp)
    block = segment.parent_block()
    if op.loop.conditional and block is not None and op.callee_name in divided(block):
        return True
    return any(
        isinstance(inner, BarrierOp) or (isinstance(inner, ScanOp) and has_phases(inner))
        for inner in segment.body.block.ops
    )
