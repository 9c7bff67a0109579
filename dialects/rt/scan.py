"""Loops around a segment, on buffers.

rt.scan @step(%h0, %xs, %b) outs(%h, %ys) scratch(%spare, %arena) threads(%thread, %threads)
    steps 5 carried 1 scanned 1 backward []
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, MemRefType, i32
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.traits import SymbolUserOpInterface
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.elements import elements_in
from tessella.dialects.loop import LoopOp, loop_properties, why_invalid
from tessella.dialects.rt.functions import BufferCall, SegmentOp, flat_buffer
from tessella.dialects.rt.ops import CONDITION, PRIVATE, ArenaOp, buffer_bytes
from tessella.dialects.sizes import opt_size_def, size_attribute, size_of
from tessella.dialects.symbols import body_above, check_types
from tessella.runtime.scan import Loop
from tessella.support.conditions import decided
from tessella.support.sizes import Size


class _RunsBufferSegment(SymbolUserOpInterface):
    def verify(self, op: Operation) -> None:
        assert isinstance(op, ScanOp)
        op.check_counts()
        segment, loop = body_above(op, op.callee, SegmentOp), op.loop
        taken = [
            op.element(value) if 0 <= i - loop.carried < loop.scanned else value.type
            for i, value in enumerate(op.inputs)
        ]
        given = [
            op.element(value) if i >= loop.carried else value.type
            for i, value in enumerate(op.outputs)
        ]
        check_types(op, "inputs, step by step,", [a.type for a in segment.inputs], taken)
        check_types(op, "outputs, step by step,", [a.type for a in segment.outputs], given)
        check_types(op, "carried values", taken[: loop.carried], given[: loop.carried])
        check_types(op, "spare buffers", given[: loop.carried], [value.type for value in op.spare])
        if any(segment.inputs[i].first_use is not None for i in op.in_place):
            raise VerifyException(
                f"rt.scan: @{op.callee_name} reads a carried value that it writes over"
            )
        for what, memory, needed in (
            ("the arena", op.arena, segment.arena_size),
            ("each thread's own memory", op.private, segment.private_size),
        ):
            room = 0 if memory is None else buffer_bytes(memory.type)
            if decided(room < needed):
                raise VerifyException(
                    f"rt.scan: {what} of @{op.callee_name} has {needed} bytes, and there is room "
                    f"for {room}"
                )


@irdl_op_definition
class ScanOp(BufferCall, LoopOp):
    """A loop that runs a segment for each element of sequences, or while a condition is true: see
    ``LoopOp``.

    Carried values alternate between the outputs and spare buffers, and end in the outputs; after a
    conditional loop, the first thread copies them there if necessary. A value that the iterations
    overwrite has the same buffer as input, output and spare buffer. The spare buffers are followed
    by the segment's arena, if it has one, and by the memory that each thread has for itself in the
    segment.
    """

    name = "rt.scan"
    most = opt_size_def("steps")
    """The maximum number of iterations; absent if only the loop's condition limits it."""
    traits = traits_def(_RunsBufferSegment())

    def __init__(
        self,
        callee: str,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        scratch: Sequence[SSAValue],
        threads: tuple[SSAValue, SSAValue],
        loop: Loop,
        steps: Size | None,
    ) -> None:
        super().__init__(callee, inputs, outputs, scratch, threads)
        most = {} if steps is None else {"steps": size_attribute(steps)}
        self.properties.update({**most, **loop_properties(loop)})

    @property
    def steps(self) -> Size | None:
        return None if self.most is None else size_of(self.most)

    @property
    def sequences(self) -> Sequence[SSAValue]:
        """The buffers of the input sequences, followed by those of the output sequences."""
        loop = self.loop
        return (*self.inputs[loop.carried :][: loop.scanned], *self.outputs[loop.carried :])

    @property
    def spare(self) -> Sequence[SSAValue]:
        """The spare buffers, one for each carried value."""
        return self.scratch[: self.loop.carried]

    @property
    def arena(self) -> SSAValue | None:
        """The buffer of the segment's arena; None if it has none."""
        memory = self.scratch[self.loop.carried :]
        return next((value for value in memory if not _is_private(value)), None)

    @property
    def private(self) -> SSAValue | None:
        """The buffer for the private memory of a thread in the segment; None if it has none."""
        return next(filter(_is_private, self.scratch[self.loop.carried :]), None)

    def add_scratch(self, buffer: SSAValue) -> None:
        """Append a buffer to the scratch buffers."""
        *buffers, thread, threads = self.operands
        self.operands = [*buffers, buffer, thread, threads]
        sizes = [*map(len, (self.inputs, self.outputs))]
        scratch = len(buffers) + 1 - sum(sizes)
        self.properties["operandSegmentSizes"] = DenseArrayBase.from_list(
            i32, [*sizes, scratch, 1, 1]
        )

    def element(self, sequence: SSAValue) -> Attribute:
        """Return the buffer type of one element of a sequence."""
        type = sequence.type
        assert isinstance(type, MemRefType)
        assert self.steps is not None
        return flat_buffer(type.element_type, elements_in(type) // self.steps)

    def check_counts(self) -> None:
        """Raise VerifyException unless each sequence has one element for each iteration, and the
        operands fit the loop's carried values and scratch buffers."""
        loop, count = self.loop, self.steps
        reason = why_invalid(loop, len(self.inputs), len(self.outputs))
        if reason is not None:
            raise VerifyException(f"rt.scan: {reason}")
        memory = [value for value in (self.arena, self.private) if value is not None]
        if list(self.scratch[loop.carried :]) != memory:
            raise VerifyException(
                "rt.scan: expected spare buffers, an arena, and memory of each thread as scratch"
            )
        types = (value.type for value in self.sequences)
        sizes = [elements_in(type) for type in types if isinstance(type, MemRefType)]
        if (count is None) == bool(loop.scanned):
            raise VerifyException("rt.scan: there are steps where there are sequences")
        if count is not None and not (
            decided(count >= 1) and all(size % count == 0 for size in sizes)
        ):
            raise VerifyException(f"rt.scan: the sequences do not have {count} elements each")
        if loop.conditional and self.inputs[0].type != CONDITION:
            raise VerifyException(f"rt.scan: expected a condition, found {self.inputs[0].type}")

    @property
    def in_place(self) -> frozenset[int]:
        """The numbers of the carried values that the iterations overwrite: one buffer is their
        input, output and spare buffer."""
        buffers = zip(self.inputs, self.outputs, self.spare, strict=False)
        return frozenset(i for i, (a, b, c) in enumerate(buffers) if a is b and b is c)

    def verify_(self) -> None:
        one, carried = self.in_place, self.loop.carried
        read = [value for i, value in enumerate(self.inputs) if i not in one]
        spare = [value for i, value in enumerate(self.spare) if i not in one]
        self.check_apart(read, (*self.outputs, *spare, *self.scratch[carried:]))


def _is_private(buffer: SSAValue) -> bool:
    """Return whether a buffer is private: each thread has its own copy."""
    match buffer.owner:
        case ArenaOp() as op:
            return op.private is not None
        case AllocOp() as op:
            return PRIVATE in op.attributes
        case _:
            return False
