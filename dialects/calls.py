"""Calls on tensors: the common parts of `tile.call`, `tile.scan` and `rt.launch`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from xdsl.dialects.builtin import (
    ArrayAttr,
    FlatSymbolRefAttr,
    StringAttr,
    SymbolRefAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, base, prop_def, var_operand_def, var_result_def
from xdsl.parser import Parser
from xdsl.printer import Printer

from tessella.dialects.assembly import (
    parse_operand,
    parse_settings,
    print_settings,
    print_types,
)

NODES = "nodes"
"""The name of the attribute that lists the nodes of the model's graph that a call computes. Only a
call of a kernel that is called several times has the attribute."""


def nodes_of(call: Operation, nodes: Iterable[StringAttr] | None) -> Sequence[StringAttr]:
    """Return the names of the nodes that a call computes. ``nodes`` are the nodes of the called
    kernel, which apply if the call lists none."""
    own = call.attributes.get(NODES)
    listed = own.data if isinstance(own, ArrayAttr) else nodes or ()
    return [node for node in listed if isinstance(node, StringAttr)]


class TensorCall(IRDLOperation):
    """A call of an op by its symbol: `%y = tile.call @conv(%x, %w) : tensor<1x8xf32>`."""

    callee = prop_def(FlatSymbolRefAttr)
    arguments = var_operand_def(base(TensorType))
    res = var_result_def(base(TensorType))

    def __init__(
        self, callee: str, arguments: Sequence[SSAValue | Operation], types: Sequence[Attribute]
    ) -> None:
        super().__init__(
            operands=[list(arguments)],
            properties={"callee": SymbolRefAttr(callee)},
            result_types=[list(types)],
        )

    @property
    def callee_name(self) -> str:
        """The callee's symbol, without the `@`."""
        return self.callee.root_reference.data

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.callee_name)
        printer.print_operands(self.arguments)
        settings = {k: v for k, v in self.properties.items() if k != "callee"}
        print_settings(printer, settings)
        printer.print_op_attributes(self.attributes)
        if self.res:
            print_types(printer, self.result_types)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        name = parser.parse_symbol_name()
        operands = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parse_operand(parser)
        )
        defined = cls.get_irdl_definition().properties
        known = {name: defined[name] for name in defined.keys() - {"callee"}}
        settings = parse_settings(parser, known)
        attributes = parser.parse_optional_attr_dict()
        types = parser.parse_optional_punctuation(":") and parser.parse_comma_separated_list(
            parser.Delimiter.NONE, parser.parse_type
        )
        return cls.create(
            operands=operands,
            result_types=types or [],
            properties={"callee": SymbolRefAttr(name.data), **settings},
            attributes=attributes,
        )
