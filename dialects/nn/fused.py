"""Groups of ops that become one kernel."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_op_definition,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The results of a group."""

    name = "nn.yield"
    values = var_operand_def(base(TensorType))
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "$values attr-dict `:` type($values)"

    def __init__(self, values: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(values)])


@irdl_op_definition
class FusedOp(IRDLOperation):
    """Ops that become one kernel; the region's arguments stand for the operands.

    ``%y = nn.fused %x, %w {^bb0(%a: .., %b: ..): .. nn.yield %r : ..} : (..) -> ..``
    """

    name = "nn.fused"
    inputs = var_operand_def(base(TensorType))
    body = region_def("single_block")
    res = var_result_def(base(TensorType))
    traits = traits_def(IsolatedFromAbove(), Pure())
    assembly_format = "$inputs $body attr-dict `:` functional-type($inputs, $res)"

    def __init__(
        self, inputs: Sequence[SSAValue], types: Sequence[Attribute], body: Region
    ) -> None:
        super().__init__(operands=[list(inputs)], result_types=[list(types)], regions=[body])

    @property
    def yielded(self) -> YieldOp:
        """The region's terminator."""
        last = self.body.block.last_op
        assert isinstance(last, YieldOp)
        return last

    def verify_(self) -> None:
        if not isinstance(self.body.block.last_op, YieldOp):
            raise VerifyException("nn.fused: the region ends in nn.yield")
        for what, values, inner in (
            ("operand", self.inputs, self.body.block.args),
            ("result", self.res, self.yielded.values),
        ):
            found = [v.type for v in inner]
            if [v.type for v in values] != found:
                raise VerifyException(f"nn.fused: the {what} types differ from those in the region")
