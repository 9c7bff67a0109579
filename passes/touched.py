"""A summary of the bytes that each thread accesses, per kernel and segment, and of the ops'
accesses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation

from tessella.dialects import device
from tessella.dialects.rt import (
    ALONE,
    ANY,
    OWN,
    BufferCall,
    KernelOp,
    Kind,
    Part,
    ScanOp,
    SegmentOp,
    StopOp,
    WatchOp,
    buffer_bytes,
    divided,
)
from tessella.passes.base import buffer_segments
from tessella.passes.hazards import Use
from tessella.passes.tile.parts import joined
from tessella.runtime.scan import Loop

Parts = Mapping[str, Sequence[Part]]
"""For each kernel or segment, by name, how threads divide the elements of its buffers."""


@dataclass(frozen=True)
class Touched:
    """The accesses of kernels, segments, and the ops that run them."""

    parts: Parts
    divided: frozenset[str]
    """The kernels and segments that threads run together."""

    @staticmethod
    def by(module: ModuleOp) -> Touched:
        """Summarise the kernels and segments of a module."""
        block = module.body.block
        parts: dict[str, Sequence[Part]] = {}
        touched = Touched(parts, divided(block))
        for kernel in (op for op in block.ops if isinstance(op, KernelOp)):
            parts[kernel.sym_name.data] = [kernel.part(i) for i in range(len(kernel.buffers))]
        for kernel in (op for op in block.ops if isinstance(op, device.KernelOp)):
            parts[kernel.sym_name.data] = [ALONE] * len((*kernel.inputs, *kernel.outputs))
        # callees come before their callers
        for segment in buffer_segments(module):
            ops = segment.body.block.ops
            known = joined(use for op in ops for use in touched.uses_of(op))
            found = [known.get(buffer, ALONE) for buffer in segment.buffers]
            parts[segment.sym_name.data] = found
        return touched

    def uses_of(self, op: Operation) -> Iterator[Use]:
        """Yield the reads and writes of buffers by an op of a segment, each with the elements that
        one thread touches."""
        match op:
            case ScanOp():
                parts = self._parts_of_loop(op)
            case BufferCall():
                parts = self.parts[op.callee_name]
            case memref.CopyOp():
                yield Use(op.source, ALONE, written=False)
                yield Use(op.destination, ALONE, written=True)
                return
            case StopOp():
                yield Use(op.condition, self._part_of_condition(op), written=True)
                return
            case WatchOp():
                yield Use(op.condition, ALONE, written=True)
                return
            case _:
                return
        for number, (buffer, part) in enumerate(zip(op.buffers, parts, strict=True)):
            yield Use(buffer, part, written=number >= len(op.inputs))

    def _part_of_condition(self, op: StopOp) -> Part:
        """Return how threads share the condition of a loop that ``op`` can end: ``ANY`` if several
        threads run the segment, otherwise ``ALONE``."""
        segment = op.parent_op()
        assert isinstance(segment, SegmentOp)
        return ANY if segment.sym_name.data in self.divided else ALONE

    def _parts_of_loop(self, op: ScanOp) -> Iterator[Part]:
        """Yield, for each operand of a loop, the elements that one thread touches in all iterations
        together."""
        loop, parts = op.loop, self.parts[op.callee_name]
        if loop.conditional and op.callee_name in self.divided:
            # The first thread copies carried values, and all threads read the condition.
            parts = [ANY] * len(parts)
        taken, given = parts[: len(op.inputs)], parts[len(op.inputs) :]
        elements = range(loop.carried, loop.carried + loop.scanned)
        for number, (value, part) in enumerate(zip(op.inputs, taken, strict=True)):
            yield _of_all(part, op.element(value)) if number in elements else part
        # An iteration's writes are the next iteration's reads.
        state = [
            a if a.agrees(b) else ANY for a, b in zip(taken, given[: loop.carried], strict=False)
        ]
        yield from state
        for value, part in zip(op.outputs[loop.carried :], given[loop.carried :], strict=True):
            yield _of_all(part, op.element(value))
        yield from state
        if op.arena is not None:
            yield ANY if op.callee_name in self.divided else ALONE
        if op.private is not None:
            yield OWN


def loops_of(module: ModuleOp) -> Mapping[str, Sequence[Loop]]:
    """Return, for each segment that loops run, the signatures of these loops, by the segment's
    name."""
    loops: defaultdict[str, list[Loop]] = defaultdict(list)
    for segment in buffer_segments(module):
        for op in segment.body.block.ops:
            if isinstance(op, ScanOp):
                loops[op.callee_name].append(op.loop)
    return loops


def _of_all(part: Part, element: Attribute) -> Part:
    """Return the bytes that one thread touches in a whole sequence, given ``part``, those that it
    touches in the element of one iteration; ``ANY`` if they are unknown."""
    fits = part.kind is not Kind.SHARED or buffer_bytes(element) % part.period == 0
    return part if fits else ANY
