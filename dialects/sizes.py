"""Sizes in the IR: the symbols of a module, and dimensions that depend on them.

    builtin.module attributes {symbols = [#nn.symbol<batch, 2 to 64>, #nn.symbol<seq, 16 to 512>]} {
      %y = nn.relu %x : tensor<[batch]x[2 * seq + 1]x64xf32>

A dimension that is an expression stands in brackets. ``SizeParser`` reads it; the symbols of the
module come first. The order of the symbols is that of the numbers that native code reads
(``rt.size``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from xdsl.dialects.builtin import I64, ArrayAttr, IntAttr, IntegerAttr, ModuleOp, i64
from xdsl.ir import Attribute, Data, Operation
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.mlir_lexer import MLIRTokenKind

from tessella.support.sizes import Size, Symbol, bounds_of, expression, symbols_of

SYMBOLS = "symbols"
"""The attribute of a module that lists its symbols."""


@irdl_attr_definition
class SymbolAttr(Data[Symbol]):
    """A dimension that the program leaves open: its name, its least and its greatest value."""

    name = "nn.symbol"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Symbol:
        with parser.in_angle_brackets():
            name = parser.parse_identifier()
            parser.parse_punctuation(",")
            low = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_characters("to")
            high = parser.parse_integer(allow_boolean=False, allow_negative=False)
        if low > high:
            parser.raise_error(f"the symbol {name} has no value from {low} to {high}")
        symbol = Symbol(name, low, high)
        if isinstance(parser, SizeParser):
            parser.symbols[name] = symbol
        return symbol

    def print_parameter(self, printer: Printer) -> None:
        symbol = self.data
        printer.print_string(f"<{symbol.name}, {symbol.low} to {symbol.high}>")


def symbols_in(module: ModuleOp) -> tuple[Symbol, ...]:
    """The symbols that a module declares, in the order of their numbers."""
    declared = module.attributes.get(SYMBOLS)
    if not isinstance(declared, ArrayAttr):
        return ()
    return tuple(each.data for each in declared if isinstance(each, SymbolAttr))


def declare_symbols(module: ModuleOp, symbols: Sequence[Symbol]) -> None:
    """Write the symbols on a module. One without symbols has no attribute for them."""
    module.attributes.pop(SYMBOLS, None)
    if symbols:
        module.attributes[SYMBOLS] = ArrayAttr([SymbolAttr(symbol) for symbol in symbols])


def symbols_around(op: Operation) -> tuple[Symbol, ...] | None:
    """The symbols that the op's module declares; None outside any module."""
    top = op
    while (parent := top.parent_op()) is not None:
        top = parent
    return symbols_in(top) if isinstance(top, ModuleOp) else None


def number_of(op: Operation, name: str) -> int | None:
    """The number of a symbol by name in the op's module; None if it declares no such symbol."""
    names = [symbol.name for symbol in symbols_around(op) or ()]
    return names.index(name) if name in names else None


def dims(shape: Iterable[float]) -> list[IntAttr]:
    """The dimensions of a type, which may be expressions."""
    return [IntAttr(cast(Size, size)) for size in shape]


def is_static(shape: Iterable[float]) -> bool:
    """Whether a shape, or other numbers, depend on no symbol."""
    return not symbols_of(shape)


@irdl_attr_definition
class SizeAttr(Data[Size]):
    """A size that is an expression: `#nn.size<64 * seq>`."""

    name = "nn.size"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Size:
        with parser.in_angle_brackets():
            return parse_size(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


def size_attribute(size: Size) -> IntegerAttr[I64] | SizeAttr:
    """A size as a property: a number of 64 bits, or an expression."""
    return IntegerAttr(size, i64) if expression(size) is None else SizeAttr(size)


def size_of(attribute: Attribute | None) -> Size:
    """The size that a property is; 0 of none."""
    match attribute:
        case IntegerAttr():
            return attribute.value.data
        case SizeAttr():
            return attribute.data
        case _:
            return 0


class SizeParser(Parser):
    """A parser of types whose dimensions may be expressions of the module's symbols."""

    symbols: dict[str, Symbol]

    def parse_shape_dimension(self, allow_dynamic: bool = True) -> int:
        """A number, or an expression in brackets, as types take it."""
        if self.parse_optional_punctuation("[") is None:
            return super().parse_shape_dimension(allow_dynamic)
        size = parse_size(self)
        self.parse_punctuation("]")
        return cast(int, IntAttr(size))

    def parse_dimension_list(self) -> list[int]:
        """Dimensions with an ``x`` between them; one after the last is left."""
        kinds = MLIRTokenKind.INTEGER_LIT, MLIRTokenKind.QUESTION, MLIRTokenKind.L_SQUARE
        found: list[int] = []
        while self._current_token.kind in kinds:
            found.append(self.parse_shape_dimension())
            if self._parse_optional_shape_delimiter() is None:
                break
            if self._current_token.kind not in kinds:
                self._resume_from(self._current_token.span.start - 1)
                break
        return found


def parse_size(parser: AttrParser) -> Size:
    """A size: ``2 * seq + 1``, ``(seq + 15) floordiv 16``, or a number."""
    size = _parse_product(parser)
    while True:
        if parser.parse_optional_characters("+") is not None:
            size = size + _parse_product(parser)
        elif parser.parse_optional_characters("-") is not None:
            size = size - _parse_product(parser)
        else:
            return size


def parse_extent(parser: AttrParser) -> Size:
    """A size that is not negative for any values of symbols."""
    size = parse_size(parser)
    if bounds_of(size)[0] < 0:
        parser.raise_error(f"expected a size of 0 or more, found {size}")
    return size


def parse_number(parser: AttrParser) -> Size:
    """A number, or an expression in brackets."""
    if parser.parse_optional_punctuation("[") is None:
        return parser.parse_integer(allow_boolean=False)
    size = parse_size(parser)
    parser.parse_punctuation("]")
    return size


def _parse_product(parser: AttrParser) -> Size:
    size = _parse_factor(parser)
    while True:
        if parser.parse_optional_characters("*") is not None:
            size = size * _parse_factor(parser)
        elif parser.parse_optional_keyword("floordiv") is not None:
            divisor = parser.parse_integer(allow_boolean=False, allow_negative=False)
            if divisor == 0:
                parser.raise_error("expected a divisor of at least 1")
            size = size // divisor
        else:
            return size


def _parse_factor(parser: AttrParser) -> Size:
    if parser.parse_optional_punctuation("(") is not None:
        size = parse_size(parser)
        parser.parse_punctuation(")")
        return size
    if parser.parse_optional_characters("-") is not None:
        return -_parse_factor(parser)
    number = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    if number is not None:
        return number
    name = parser.expect(parser.parse_optional_identifier, "expected a size")
    symbols = parser.symbols if isinstance(parser, SizeParser) else {}
    if name not in symbols:
        parser.raise_error(f"the module declares no symbol {name!r}: it has {list(symbols)}")
    return symbols[name].size
