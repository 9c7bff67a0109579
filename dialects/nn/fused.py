"""Groups of ops that become one kernel."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, BlockArgument, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_op_definition,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.assembly import parse_operand, parse_types, print_types


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The terminator of a group's region: `nn.yield %r : tensor<4xf32>`. Its operands are the
    results of the group."""

    name = "nn.yield"
    values = var_operand_def(base(TensorType))
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "$values attr-dict `:` type($values)"

    def __init__(self, values: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(values)])


@irdl_op_definition
class FusedOp(IRDLOperation):
    """A group of ops that becomes one kernel. The arguments of the region stand for the operands.

    `%y = nn.fused(%a = %x, %b = %w) {.. nn.yield %r : tensor<4xf32>} : tensor<4xf32>`
    """

    name = "nn.fused"
    inputs = var_operand_def(base(TensorType))
    body = region_def("single_block")
    res = var_result_def(base(TensorType))
    traits = traits_def(IsolatedFromAbove(), Pure())

    def __init__(
        self, inputs: Sequence[SSAValue], types: Sequence[Attribute], body: Region
    ) -> None:
        super().__init__(operands=[list(inputs)], result_types=[list(types)], regions=[body])

    def print(self, printer: Printer) -> None:
        def binding(pair: tuple[SSAValue, SSAValue]) -> None:
            printer.print_operand(pair[0])
            printer.print_string(" = ")
            printer.print_operand(pair[1])

        printer.print_string("(")
        printer.print_list(zip(self.body.block.args, self.inputs, strict=False), binding)
        printer.print_string(") ")
        printer.print_region(self.body, print_entry_block_args=False)
        printer.print_op_attributes(self.attributes)
        print_types(printer, self.result_types)

    @classmethod
    def parse(cls, parser: Parser) -> FusedOp:
        def binding() -> tuple[Parser.Argument, SSAValue]:
            argument = parser.parse_argument(expect_type=False)
            parser.parse_punctuation("=")
            value = parse_operand(parser)
            return argument.resolve(value.type), value

        bindings = parser.parse_comma_separated_list(parser.Delimiter.PAREN, binding)
        body = parser.parse_region([argument for argument, _ in bindings])
        attributes = parser.parse_optional_attr_dict()
        op = cls([value for _, value in bindings], parse_types(parser), body)
        op.attributes.update(attributes)
        return op

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


def outside(value: SSAValue) -> SSAValue:
    """Return the operand of a group that an argument of its region stands for; any other value is
    returned unchanged."""
    block = value.owner
    if isinstance(value, BlockArgument) and isinstance(block, Block):
        group = block.parent_op()
        if isinstance(group, FusedOp):
            return outside(group.inputs[value.index])
    return value
