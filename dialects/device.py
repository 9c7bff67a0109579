"""The `device` dialect: kernels in the language of a device other than the CPU.

device.kernel @relu_0(tensor<4xf32, #p>) -> (tensor<4xf32, #p>) device "acme" text "relu 4"

At the stage `tile`, the operands are tensors; at the stage `loops`, they are buffers. A `tile.call`
or an `rt.call` calls the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    DenseArrayBase,
    FunctionType,
    IntegerAttr,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, Dialect
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import SymbolOpInterface

from tessella.dialects.assembly import parse_settings, print_settings
from tessella.dialects.sizes import listed_sizes, opt_sizes_def, sizes_attribute
from tessella.runtime.devices import Source
from tessella.support.decisions import known_all
from tessella.support.sizes import Size


@irdl_op_definition
class KernelOp(IRDLOperation):
    """A kernel as source text, which the device builds."""

    name = "device.kernel"
    sym_name = prop_def(StringAttr)
    function_type = prop_def(FunctionType)
    device = prop_def(StringAttr)
    text = prop_def(StringAttr)
    entry = opt_prop_def(StringAttr)
    """The name of the kernel within the text."""
    groups = opt_sizes_def()
    """The number of work-groups along each dimension."""
    items = opt_prop_def(DenseArrayBase[I64])
    """The number of work-items of a work-group along each dimension."""
    checks = opt_prop_def(UnitAttr)
    """Present if the kernel takes an error word as an argument after its outputs, and sets the word
    when an index is out of range."""
    sizes = opt_sizes_def()
    """The symbolic sizes that the kernel takes as arguments after its tensors and its error
    word."""
    code = opt_prop_def(IntegerAttr[I64])
    nodes = opt_prop_def(ArrayAttr[StringAttr])
    """The names of the nodes of the model's graph that the kernel computes."""
    traits = traits_def(SymbolOpInterface())

    def __init__(
        self,
        name: str,
        type: FunctionType,
        device: str,
        source: Source,
        nodes: ArrayAttr[StringAttr] | None = None,
        code: IntegerAttr[I64] | None = None,
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "function_type": type,
                "device": StringAttr(device),
                "text": StringAttr(source.text),
                "entry": StringAttr(source.entry) if source.entry else None,
                "groups": _listed(source.groups),
                "items": _listed(source.items),
                "checks": UnitAttr() if source.checks else None,
                "sizes": _listed(source.sizes),
                "code": code,
                "nodes": nodes,
            }
        )

    @property
    def source(self) -> Source:
        """The source text of the kernel and the sizes of its launch."""
        groups, items, sizes = map(listed_sizes, (self.groups, self.items, self.sizes))
        entry = self.entry.data if self.entry else ""
        checks = self.checks is not None
        return Source(self.text.data, entry, groups, known_all(items), checks, sizes)

    @property
    def inputs(self) -> Sequence[Attribute]:
        """The types of the operands that the kernel reads."""
        return self.function_type.inputs.data

    @property
    def outputs(self) -> Sequence[Attribute]:
        """The types of the results."""
        return self.function_type.outputs.data

    def with_type(self, type: FunctionType) -> KernelOp:
        """Return a copy of the kernel with other types of operands and results."""
        return KernelOp(
            self.sym_name.data, type, self.device.data, self.source, self.nodes, self.code
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        for word, types in (("", self.inputs), (" -> ", self.outputs)):
            printer.print_string(f"{word}(")
            printer.print_list(types, printer.print_attribute)
            printer.print_string(")")
        listed = {"sym_name", "function_type"}
        settings = {k: v for k, v in self.properties.items() if k not in listed}
        rest = print_settings(printer, settings)
        printer.print_op_attributes(rest | self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        name = parser.parse_symbol_name()
        inputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        parser.parse_punctuation("->")
        outputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        defined = cls.get_irdl_definition().properties
        known = {k: defined[k] for k in defined.keys() - {"sym_name", "function_type"}}
        properties = parse_settings(parser, known)
        attributes = dict(parser.parse_optional_attr_dict())
        properties |= {k: attributes.pop(k) for k in list(attributes) if k in known}
        type = FunctionType.from_lists(inputs, outputs)
        return cls.create(
            properties={"sym_name": name, "function_type": type, **properties},
            attributes=attributes,
        )


def _listed(sizes: Sequence[Size]) -> Attribute | None:
    return sizes_attribute(sizes) if sizes else None


Device = Dialect("device", [KernelOp])
