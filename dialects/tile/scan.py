"""Loops around a segment.

%h, %ys = tile.scan @step(%h0, %xs, %b) carried 1 scanned 1 backward [] : tensor<8xf32>, ...
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.traits import Pure, SymbolUserOpInterface
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.calls import TensorCall
from tessella.dialects.layout import NCHW
from tessella.dialects.loop import LoopOp, loop_properties, why_invalid
from tessella.dialects.nn.core import Tensor, shape_of, tensor_type
from tessella.dialects.place import place_of
from tessella.dialects.sizes import dims
from tessella.dialects.symbols import body_above, check_types
from tessella.dialects.tile.functions import SegmentOp, taken_arguments
from tessella.runtime.scan import Loop
from tessella.support.sizes import Size


class _RunsSegment(SymbolUserOpInterface):
    def verify(self, op: Operation) -> None:
        assert isinstance(op, ScanOp)
        op.check_counts()
        segment, loop = body_above(op, op.callee, SegmentOp), op.loop
        type = segment.function_type
        if any(i >= loop.carried for i in taken_arguments(segment)):
            raise VerifyException(
                f"tile.scan: @{op.callee_name} writes over an argument that is not carried"
            )
        taken = [
            _element(value) if 0 <= i - loop.carried < loop.scanned else value.type
            for i, value in enumerate(op.arguments)
        ]
        given = [
            _element(value) if i >= loop.carried else value.type for i, value in enumerate(op.res)
        ]
        check_types(op, "operands, step by step,", type.inputs.data, taken)
        check_types(op, "results, step by step,", type.outputs.data, given)
        check_types(op, "carried values", taken[: loop.carried], given[: loop.carried])


@irdl_op_definition
class ScanOp(TensorCall, LoopOp):
    """A loop that runs a segment for each element of row-major sequences, or while a condition is
    true: see ``LoopOp``."""

    name = "tile.scan"
    traits = traits_def(Pure(), _RunsSegment())

    def __init__(
        self, callee: str, arguments: Sequence[SSAValue], types: Sequence[Attribute], loop: Loop
    ) -> None:
        super().__init__(callee, arguments, types)
        self.properties.update(loop_properties(loop))

    @property
    def sequences(self) -> Sequence[SSAValue]:
        """The input sequences, followed by the output sequences."""
        loop = self.loop
        return (*self.arguments[loop.carried :][: loop.scanned], *self.res[loop.carried :])

    @property
    def steps(self) -> Size | None:
        return shape_of(self.sequences[0])[0] if self.loop.scanned else None

    def check_counts(self) -> None:
        """Raise VerifyException unless all sequences have the same nonzero length and are
        row-major, and the operands and results fit the loop signature."""
        reason = why_invalid(self.loop, len(self.arguments), len(self.res))
        if reason is not None:
            raise VerifyException(f"tile.scan: {reason}")
        lengths = {shape_of(value)[:1] for value in self.sequences}
        if len(lengths) > 1 or lengths & {(), (0,)}:
            raise VerifyException("tile.scan: the sequences differ in length, or have no elements")
        first = tensor_type(self.arguments[0]) if self.loop.conditional else None
        if first is not None and (first.element_type, shape_of(first)) != (i1, ()):
            raise VerifyException(f"tile.scan: expected a condition, found {first}")
        for value in self.sequences:
            place, shape = place_of(value.type), shape_of(value)
            if place is not None and not place.layout.same_memory(NCHW, shape):
                raise VerifyException(f"tile.scan: a sequence is not row-major: {value.type}")


def _element(value: SSAValue) -> Tensor:
    """Return the tensor type of one element of a sequence."""
    type = tensor_type(value)
    return Tensor(type.element_type, dims(shape_of(type)[1:]), type.encoding)
