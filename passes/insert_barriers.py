"""Let threads wait for each other where one reads data that another has written.

    rt.call @fc(%x) outs(%a) .. // parts [#rt.part<any>, #rt.part<shared 3072 by 256>]
    rt.call @norm(%a) outs(%b) .. // parts [#rt.part<shared 12288 by 3072>, ..]
    ->
    rt.call @fc(%x) outs(%a) ..
    rt.barrier %threads
    rt.call @norm(%a) outs(%b) ..

Kernels that divide a buffer equally need no barrier in between, nor do kernels that the first
thread runs alone. The end of a segment needs none either, as the caller waits for all threads. In a
segment that runs in a loop, kernels of an iteration may have to wait for those of the previous one.
If threads run a loop with a condition together, each iteration ends with a barrier, as all threads
read the condition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.rt import BarrierOp, SegmentOp
from tessella.passes.base import buffer_segments
from tessella.passes.hazards import Hazards
from tessella.passes.kinds import ProgramPass
from tessella.passes.touched import Touched, loops_of
from tessella.runtime.scan import Loop

STEPS = 3
"""Unrolled iterations that expose every hazard: carried buffers alternate with period 2."""


@dataclass(frozen=True)
class InsertBarriersPass(ProgramPass):
    """Insert barriers into segments."""

    name = "insert-barriers"
    stages = ("loops",)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        touched, loops = Touched.by(op), loops_of(op)
        for segment in buffer_segments(op):
            _insert(segment, touched, Hazards(), {})
            for loop in loops.get(segment.sym_name.data, ()):
                _insert_in_loop(segment, touched, loop)


def _insert_in_loop(segment: SegmentOp, touched: Touched, loop: Loop) -> None:
    hazards = Hazards()
    if loop.conditional and segment.sym_name.data in touched.divided:
        _end_with_barrier(segment)
    for step in range(STEPS):
        _insert(segment, touched, hazards, _memory(segment, loop, step))


def _end_with_barrier(segment: SegmentOp) -> None:
    last = segment.body.block.last_op
    if last is not None and not isinstance(last.prev_op, BarrierOp):
        Rewriter.insert_op(BarrierOp(segment.threads), InsertPoint.before(last))


def _memory(segment: SegmentOp, loop: Loop, step: int) -> Mapping[SSAValue, SSAValue | None]:
    """Return, for each argument of a loop's segment in iteration ``step``, the argument that uses
    the same memory in the first iteration: the buffers of a carried value alternate.

    Elements of sequences map to None, as no other iteration touches them.
    """
    elements = (*segment.inputs[loop.carried :][: loop.scanned], *segment.outputs[loop.carried :])
    memory: dict[SSAValue, SSAValue | None] = dict.fromkeys(elements)
    for read, written in zip(segment.inputs, segment.outputs[: loop.carried], strict=False):
        alternates = read.first_use is not None and step % 2 == 1  # otherwise it may be overwritten
        memory[read], memory[written] = (written, read) if alternates else (read, written)
    return memory


def _insert(
    segment: SegmentOp,
    touched: Touched,
    hazards: Hazards,
    memory: Mapping[SSAValue, SSAValue | None],
) -> None:
    for op in list(segment.body.block.ops):
        if isinstance(op, BarrierOp):
            hazards.clear()
        places = ((use, memory.get(use.buffer, use.buffer)) for use in touched.uses_of(op))
        uses = [use._replace(buffer=place) for use, place in places if place is not None]
        if hazards.conflict(uses) is not None:
            Rewriter.insert_op(BarrierOp(segment.threads), InsertPoint.before(op))
            hazards.clear()
        hazards.add(uses)
