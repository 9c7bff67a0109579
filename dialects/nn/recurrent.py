"""Recurrences and loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import FlatSymbolRefAttr, FunctionType, SymbolRefAttr, TensorType, i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    base,
    irdl_op_definition,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import SymbolUserOpInterface

from tessella.dialects.loop import LoopOp, loop_properties, why_invalid
from tessella.dialects.nn.core import Defaults, NnOp, Tensor, shape_of, tensor, tensor_type
from tessella.dialects.nn.traits import RunsFunction
from tessella.dialects.symbols import body_above, find_symbol
from tessella.runtime.scan import Loop
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size

CONDITION = tensor(i1, ())
"""The type of a loop's condition."""


class _RunsBody(SymbolUserOpInterface):
    def verify(self, op: Operation) -> None:
        assert isinstance(op, ScanOp)
        body_above(op, op.body, Operation)


@irdl_op_definition
class ScanOp(NnOp, LoopOp):
    """A loop that calls `body`, a function of the module, in each iteration. The module defines
    `body` before the function that contains the loop.

    `%h, %ys = nn.scan @step %h0, %xs, %r carried 1 scanned 1 : tensor<8xf32>, tensor<5x8xf32>`

    `%c, %h = nn.scan @step %go, %h0 carried 2 scanned 0 conditional true : tensor<i1>, ..`
    """

    name = "nn.scan"
    body = prop_def(FlatSymbolRefAttr)
    inputs = var_operand_def(base(TensorType))
    res = var_result_def(base(TensorType))
    traits = traits_def(RunsFunction(), _RunsBody())
    DEFAULTS: ClassVar[Defaults] = {"backward": ()}
    LEADING: ClassVar[str | None] = "body"

    def __init__(
        self, body: str, operands: Sequence[SSAValue], types: Sequence[Attribute], loop: Loop
    ) -> None:
        super().__init__(
            operands=[list(operands)],
            result_types=[list(types)],
            properties={"body": SymbolRefAttr(body), **loop_properties(loop)},
        )

    @property
    def body_name(self) -> str:
        """The symbol of the function, without the `@`."""
        return self.body.root_reference.data

    @property
    def steps(self) -> Size | None:
        loop = self.loop
        return shape_of(self.inputs[loop.carried])[0] if loop.scanned else None

    @property
    def function(self) -> Operation | None:
        """The function that the loop runs, or the segment to which the function was lowered; None
        if the op is not in a module."""
        return find_symbol(self, self.body)

    @property
    def operations(self) -> Size:
        """The number of scalar operations that the function executes over all iterations, for cost
        estimates."""
        function = self.function
        ops = () if function is None else function.walk()
        return self.usual_steps * sum(op.operations for op in ops if isinstance(op, NnOp))

    def infer(self) -> Sequence[Tensor]:
        """Return the types of the results: each carried value keeps its type, and the function
        determines the element types of the output sequences. Raises ShapeError if operands and
        function do not match."""
        self._check()
        loop, function = self.loop, self.function
        if function is None:
            return [_plain(result.type) for result in self.res]
        type = function.properties.get("function_type")
        if not isinstance(type, FunctionType):
            raise ShapeError(f"nn.scan: @{self.body_name} is not a function")
        taken = [
            _element(value.type) if 0 <= i - loop.carried < loop.scanned else _plain(value.type)
            for i, value in enumerate(self.inputs)
        ]
        takes, gives = list(map(_plain, type.inputs)), list(map(_plain, type.outputs))
        if taken != takes or gives[: loop.carried] != taken[: loop.carried]:
            raise ShapeError(
                f"nn.scan: @{self.body_name} does not fit the operands",
                expected=f"({_listed(taken)}) -> ({_listed([*taken[: loop.carried], '..'])})",
                found=f"({_listed(takes)}) -> ({_listed(gives)})",
            )
        elements = ((t.element_type, shape_of(t)) for t in gives[loop.carried :])
        length = () if self.steps is None else (self.steps,)
        stacked = (tensor(element, (*length, *shape)) for element, shape in elements)
        return [*taken[: loop.carried], *stacked]

    def _check(self) -> None:
        loop = self.loop
        reason = why_invalid(loop, len(self.inputs), len(self.res))
        if reason is not None:
            raise ShapeError(f"nn.scan: {reason}")
        sequences = self.inputs[loop.carried :][: loop.scanned]
        lengths = {shape_of(value)[:1] for value in sequences}
        if len(lengths) > 1 or lengths & {(), (0,)}:
            raise ShapeError(
                "nn.scan: the sequences differ in length, or have no elements",
                found=" and ".join(str(value.type) for value in sequences),
            )
        if loop.conditional and _plain(self.inputs[0].type) != CONDITION:
            raise ShapeError(
                "nn.scan: the first carried value is not a condition",
                expected=str(CONDITION),
                found=str(self.inputs[0].type),
            )


def _plain(type: Attribute) -> Tensor:
    """Return a tensor type without its place."""
    found = tensor_type(type)
    return tensor(found.element_type, shape_of(found))


def _element(type: Attribute) -> Tensor:
    """Return the type of a sequence's element."""
    return tensor(tensor_type(type).element_type, shape_of(type)[1:])


def _listed(types: Sequence[object]) -> str:
    return ", ".join(map(str, types))
