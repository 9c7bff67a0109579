"""Sizes in the IR: the symbols of a module, and dimensions that depend on them.

    builtin.module attributes {symbols = [#nn.symbol<batch, 2 to 64>, #nn.symbol<seq, 16 to 512>]} {
      %y = nn.relu %x : tensor<[batch]x[2 * seq + 1]x64xf32>

A dimension that is an expression stands in brackets. ``SizeParser`` parses it, after the symbols of
the module. Native code reads the values of the symbols from an array in the order of their
declaration (``rt.size``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, cast

from xdsl.dialects.builtin import (
    I64,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    ModuleOp,
    ShapedType,
    i64,
)
from xdsl.ir import Attribute, Data, Operation, ParametrizedAttribute
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.rewriter import Rewriter
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.mlir_lexer import MLIRTokenKind

from tessella.support.sizes import Expr, Size, Symbol, bounds_of, symbols_of

SYMBOLS = "symbols"
"""The name of the attribute in which a module lists its symbols."""


@irdl_attr_definition
class SymbolAttr(Data[Symbol]):
    """A dynamic dimension of the program: its name, its least and its greatest value."""

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
    """Return the symbols that a module declares, in the order of their numbers."""
    declared = module.attributes.get(SYMBOLS)
    if not isinstance(declared, ArrayAttr):
        return ()
    return tuple(each.data for each in declared if isinstance(each, SymbolAttr))


def declare_symbols(module: ModuleOp, symbols: Sequence[Symbol]) -> None:
    """Declare symbols in an attribute of a module. The attribute is removed if there are no
    symbols."""
    module.attributes.pop(SYMBOLS, None)
    if symbols:
        module.attributes[SYMBOLS] = ArrayAttr([SymbolAttr(symbol) for symbol in symbols])


def symbols_around(op: Operation) -> tuple[Symbol, ...] | None:
    """Return the symbols that the op's module declares; None outside any module."""
    top = op
    while (parent := top.parent_op()) is not None:
        top = parent
    return symbols_in(top) if isinstance(top, ModuleOp) else None


def number_of(op: Operation, name: str) -> int | None:
    """Return the number of the symbol ``name`` in the op's module; None if the module does not
    declare it."""
    names = [symbol.name for symbol in symbols_around(op) or ()]
    return names.index(name) if name in names else None


def dims(shape: Iterable[Size]) -> list[IntAttr]:
    """Return a shape as the dimensions of a type; sizes may be expressions."""
    return [dim(size) for size in shape]


def dim(size: Size) -> IntAttr:
    """Return a size as a dimension of a type. An expression is wrapped in an `IntAttr` as a number
    is; xDSL passes it through."""
    return IntAttr(cast(int, size))


def is_static(shape: Iterable[object]) -> bool:
    """Return whether none of the sizes in ``shape`` depends on a symbol. Other objects than sizes
    are ignored."""
    return not symbols_of(shape)


@irdl_attr_definition
class SizeAttr(Data[Size]):
    """A property that is an expression: `#nn.size<64 * seq>`, or `[64 * seq]` in the text of ops.

    Dimensions of types, and lists of sizes, have an `IntAttr` for each size instead, as xDSL's
    shapes accept nothing else.
    """

    name = "nn.size"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Size:
        with parser.in_angle_brackets():
            return parse_size(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


SIZE = base(IntegerAttr[I64]) | base(SizeAttr)
"""The constraint of a property that is a size: a 64-bit number, or an expression."""


def size_def() -> Any:
    """Return the definition of an op's property that is a size."""
    return prop_def(SIZE)


def opt_size_def(prop_name: str | None = None) -> Any:
    """Return the definition of an op's property that is a size and may be absent."""
    return opt_prop_def(SIZE, prop_name=prop_name)


SIZES = base(DenseArrayBase[I64]) | base(ArrayAttr[IntAttr])
"""The constraint of a property that lists sizes: 64-bit numbers, or dimensions with expressions
among them."""


def sizes_def() -> Any:
    """Return the definition of an op's property that lists sizes."""
    return prop_def(SIZES)


def opt_sizes_def() -> Any:
    """Return the definition of an op's property that lists sizes and may be absent."""
    return opt_prop_def(SIZES)


def size_attribute(size: Size) -> IntegerAttr[I64] | SizeAttr:
    """Return a size as a property."""
    return SizeAttr(size) if isinstance(size, Expr) else IntegerAttr(size, i64)


def sizes_attribute(sizes: Sequence[Size]) -> DenseArrayBase[I64] | ArrayAttr[IntAttr]:
    """Return a list of sizes as a property."""
    numbers = [size for size in sizes if not isinstance(size, Expr)]
    if len(numbers) == len(sizes):
        return DenseArrayBase.from_list(i64, numbers)
    return ArrayAttr(dims(sizes))


def size_of(attribute: Attribute | None) -> Size:
    """Decode a size attribute; 0 if absent."""
    match attribute:
        case IntegerAttr():
            return attribute.value.data
        case SizeAttr():
            return attribute.data
        case _:
            return 0


def listed_sizes(attribute: Attribute | None) -> tuple[Size, ...]:
    """Decode an attribute that lists sizes; empty if absent."""
    match attribute:
        case DenseArrayBase():
            return tuple(cast(DenseArrayBase[I64], attribute).get_values())
        case ArrayAttr():
            return tuple(cast(IntAttr, each).data for each in attribute)
        case _:
            return ()


# ** substitution of sizes in attributes and ops **

Sizes = Callable[[Size], Size]
"""A function from sizes to sizes, which for example replaces symbols by their values."""


class HoldsSizes(Attribute, ABC):
    """An attribute whose data contain sizes."""

    @abstractmethod
    def with_sizes(self, of: Sizes) -> Attribute:
        """Return the attribute with each size replaced by the result of ``of``."""


def with_sizes(attribute: Attribute, of: Sizes) -> Attribute:
    """Return an attribute or a type in which each size is replaced by the result of ``of``.
    Expressions may become numbers."""
    match attribute:
        case SizeAttr():
            return size_attribute(of(attribute.data))
        case HoldsSizes():
            return attribute.with_sizes(of)
        case ArrayAttr():
            sizes = _listed(attribute)
            return (
                ArrayAttr(with_sizes(each, of) for each in attribute)
                if sizes is None
                else sizes_attribute(list(map(of, sizes)))
            )
        case DictionaryAttr():
            return DictionaryAttr({k: with_sizes(x, of) for k, x in attribute.data.items()})
        case ParametrizedAttribute() if attribute.parameters:
            parameter = _with_dims if isinstance(attribute, ShapedType) else with_sizes
            return attribute.new([parameter(each, of) for each in attribute.parameters])
        case _:
            return attribute


def _listed(attribute: Attribute) -> list[Size] | None:
    """Return the sizes of an attribute that lists sizes with expressions among them; None for any
    other attribute."""
    if not isinstance(attribute, ArrayAttr):
        return None
    found: list[Size] = [each.data for each in attribute if isinstance(each, IntAttr)]
    return found if len(found) == len(attribute) and not is_static(found) else None


def _with_dims(attribute: Attribute, of: Sizes) -> Attribute:
    """Return a parameter of a shaped type with sizes replaced. A list of sizes stays a list of
    dimensions."""
    sizes = _listed(attribute)
    return with_sizes(attribute, of) if sizes is None else ArrayAttr(dims(map(of, sizes)))


def replace_sizes(op: Operation, of: Sizes) -> None:
    """Replace the sizes in an op and in the ops inside it: in the types of results and block
    arguments, and in attributes."""
    for inner in op.walk():
        arguments = (x for region in inner.regions for b in region.blocks for x in b.args)
        for value in (*inner.results, *arguments):
            type = with_sizes(value.type, of)
            if type != value.type:
                Rewriter.replace_value_with_new_type(value, type)
        for attributes in (inner.properties, inner.attributes):
            attributes.update({name: with_sizes(x, of) for name, x in attributes.items()})


def sizes_in(op: Operation) -> frozenset[Symbol]:
    """Return the symbols in the types and the attributes of an op and of the ops inside it."""
    found: set[Symbol] = set()

    def seen(size: Size) -> Size:
        found.update(symbols_of([size]))
        return size

    for inner in op.walk():
        arguments = (x for region in inner.regions for b in region.blocks for x in b.args)
        for value in (*inner.results, *arguments):
            with_sizes(value.type, seen)
        for attribute in (*inner.properties.values(), *inner.attributes.values()):
            if attribute is not inner.attributes.get(SYMBOLS):
                with_sizes(attribute, seen)
    return frozenset(found)


class SizeParser(Parser):
    """A parser of types whose dimensions may be expressions of the module's symbols."""

    symbols: dict[str, Symbol]

    def parse_shape_dimension(self, allow_dynamic: bool = True) -> int:
        """Parse a number, or an expression in brackets, as a dimension of a type."""
        if self.parse_optional_punctuation("[") is None:
            return super().parse_shape_dimension(allow_dynamic)
        size = parse_size(self)
        self.parse_punctuation("]")
        return cast(int, dim(size))

    def parse_dimension_list(self) -> list[int]:
        """Parse dimensions separated by ``x``, leaving an ``x`` after the last one."""
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
    """Parse a size: ``2 * seq + 1``, ``(seq + 15) floordiv 16``, or a number."""
    size = _parse_product(parser)
    while True:
        if parser.parse_optional_characters("+") is not None:
            size = size + _parse_product(parser)
        elif parser.parse_optional_characters("-") is not None:
            size = size - _parse_product(parser)
        else:
            return size


def parse_extent(parser: AttrParser) -> Size:
    """Parse a size, and report an error if it can be negative for some values of symbols."""
    size = parse_size(parser)
    if bounds_of(size)[0] < 0:
        parser.raise_error(f"expected a size of 0 or more, found {size}")
    return size


def parse_number(parser: AttrParser) -> Size:
    """Parse a number, or an expression in brackets."""
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


@irdl_op_definition
class SizeOp(IRDLOperation):
    """A size that depends on the module's symbols: `%n = rt.size [64 * seq]` is an `index`.

    Native code reads the values of the symbols from an array, whose address is in the call's
    context. Bodies of statements may contain this op too.
    """

    name = "rt.size"
    size = size_def()
    res = result_def(IndexType)
    traits = traits_def(Pure())

    def __init__(self, size: Size) -> None:
        super().__init__(properties={"size": size_attribute(size)}, result_types=[IndexType()])

    @property
    def value(self) -> Size:
        return size_of(self.size)

    def verify_(self) -> None:
        if symbols_around(self) is None:
            return
        for symbol in symbols_of([self.value]):
            if number_of(self, symbol.name) is None:
                raise VerifyException(f"rt.size: the module declares no symbol {symbol.name!r}")

    def print(self, printer: Printer) -> None:
        printer.print_string(f" [{self.value}]")
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        parser.parse_punctuation("[")
        size = parse_size(parser)
        parser.parse_punctuation("]")
        op = cls(size)
        op.attributes.update(parser.parse_optional_attr_dict())
        return op
