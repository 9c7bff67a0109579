"""Assembly forms that the ops of several dialects share.

    %y = nn.conv %x, %w pads [1, 1, 1, 1] groups 2 {node = "conv"} : tensor<1x8x6x6xf32>

Operands are printed without types: a value's type is printed where the value is defined. A setting
is a property, printed by name. A property without a short form is printed in the attribute
dictionary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    FloatAttr,
    IntAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    f64,
    i64,
)
from xdsl.ir import Attribute, SSAValue, TypeAttribute
from xdsl.irdl import PropertyDef
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from tessella.dialects.sizes import (
    SIZE,
    SizeAttr,
    parse_number,
    parse_size,
    size_attribute,
    sizes_attribute,
)
from tessella.support.sizes import Expr, Size

# ** operands and types **


def parse_operand(parser: Parser) -> SSAValue:
    """Parse an operand: a value that is already defined. Raises ParseError for any other value."""
    return _resolved(parser, parser.parse_unresolved_operand())


def parse_operands(parser: Parser) -> list[SSAValue]:
    """Parse zero or more operands, separated by commas. They are values that are already
    defined."""
    unresolved = parser.parse_optional_undelimited_comma_separated_list(
        parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
    )
    return [_resolved(parser, operand) for operand in unresolved or ()]


def _resolved(parser: Parser, operand: UnresolvedOperand) -> SSAValue:
    values = parser.ssa_values.get(operand.operand_name, ())
    if operand.index >= len(values):
        parser.raise_error(f"{operand.span.text} is used before it is defined", operand.span)
    return values[operand.index]


def print_operands(printer: Printer, operands: Sequence[SSAValue]) -> None:
    """Print a space, then the operands, separated by commas."""
    if operands:
        printer.print_string(" ")
        printer.print_list(operands, printer.print_operand)


def parse_types(parser: Parser) -> list[Attribute]:
    """Parse a colon, then the types of results."""
    parser.parse_punctuation(":")
    return parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)


def print_types(printer: Printer, types: Sequence[Attribute]) -> None:
    """Print a colon, then the types of results."""
    printer.print_string(" : ")
    printer.print_list(types, printer.print_attribute)


# ** settings **


def parse_settings(parser: Parser, known: Mapping[str, PropertyDef]) -> dict[str, Attribute]:
    """Parse properties by name, each at most once. Stops at the first word that is not a name in
    ``known``."""
    found: dict[str, Attribute] = {}
    while name := parser.parse_optional_keyword_in(known.keys() - found.keys()):
        is_size = known[name].constr == SIZE
        found[name] = size_attribute(parse_number(parser)) if is_size else _parse_value(parser)
    return found


def print_settings(printer: Printer, settings: Mapping[str, Attribute]) -> dict[str, Attribute]:
    """Print properties by name. Returns the properties that have no short form, which are not
    printed."""
    rest: dict[str, Attribute] = {}
    for name, value in settings.items():
        text = _text(value)
        if text is None and not isinstance(value, StringAttr | TypeAttribute):
            rest[name] = value
            continue
        printer.print_string(f" {name} ")
        if text is None:
            printer.print_attribute(value)
        else:
            printer.print_string(text)
    return rest


def _text(value: Attribute) -> str | None:
    """Return the short form of an attribute that is a number, a size, a boolean or a list of
    numbers; None if it has no short form."""
    match value:
        case ArrayAttr() if value.data and all(isinstance(each, IntAttr) for each in value):
            return f"[{', '.join(f'{cast(IntAttr, each).data:d}' for each in value)}]"
        case SizeAttr():
            return f"{value.data:d}"
        case DenseArrayBase():
            numbers = cast(Sequence[float], cast(Any, value).get_values())
            return f"[{', '.join(map(_number_text, numbers))}]" if _list(numbers) == value else None
        case FloatAttr() if value.type == f64 and not math.isnan(value.value.data):
            return _number_text(value.value.data)
        case IntegerAttr() if value.type == IntegerType(1):
            return "true" if value.value.data else "false"
        case IntegerAttr() if value.type == i64:
            return str(value.value.data)
        case _:
            return None


def _number_text(number: float) -> str:
    """Format a number in the parser's syntax: a float has a decimal point."""
    if isinstance(number, int) or math.isinf(number):
        return str(number)
    text = repr(number)
    return text if "." in text else text.replace("e", ".0e")


def _list(numbers: Sequence[float]) -> DenseArrayBase[Any]:
    """Return a list of numbers as an array attribute: of f64 if any of the numbers is a float, else
    of i64."""
    if any(isinstance(number, float) for number in numbers):
        return DenseArrayBase.from_list(f64, list(numbers))
    return DenseArrayBase.from_list(i64, cast(list[int], list(numbers)))


def _parse_value(parser: Parser) -> Attribute:
    numbers = parser.parse_optional_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: _parse_item(parser)
    )
    if numbers is not None:
        plain = [each for each in numbers if not isinstance(each, Expr)]
        if len(plain) == len(numbers):
            return _list(plain)
        return sizes_attribute([each for each in numbers if not isinstance(each, float)])
    if (boolean := parser.parse_optional_boolean()) is not None:
        return BoolAttr.from_bool(boolean)
    if (text := parser.parse_optional_str_literal()) is not None:
        return StringAttr(text)
    number = _parse_optional_number(parser)
    if number is None:
        return parser.parse_type()
    return FloatAttr(number, f64) if isinstance(number, float) else IntegerAttr(number, i64)


def _parse_item(parser: Parser) -> Size | float:
    """Parse an item of a list: a number, or in brackets a size that is an expression."""
    if parser.parse_optional_punctuation("[") is None:
        return _parse_number(parser)
    size = parse_size(parser)
    parser.parse_punctuation("]")
    return size


def _parse_number(parser: Parser) -> float:
    return parser.expect(lambda: _parse_optional_number(parser), "expected a number")


def _parse_optional_number(parser: Parser) -> float | None:
    sign = -1 if parser.parse_optional_punctuation("-") is not None else 1
    if parser.parse_optional_keyword("inf") is not None:
        return sign * math.inf
    number = parser.parse_optional_number()
    if number is None and sign < 0:
        parser.raise_error("expected a number after '-'")
    if number is None or isinstance(number, float):
        return None if number is None else sign * number
    if not -(1 << 63) <= sign * number < 1 << 64:
        parser.raise_error("expected an integer of 64 bits")
    return sign * number
