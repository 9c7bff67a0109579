"""Operands of statements, with the accesses that read them.

The module prints, parses and verifies what all kinds of statements share.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from xdsl.ir import Attribute, Block, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.assembly import parse_operand
from tessella.dialects.nn.core import shape_of
from tessella.dialects.place import place_of, verify_place
from tessella.dialects.tile.access import Access, parse_access, print_access


def print_operands(
    printer: Printer, values: Sequence[SSAValue], accesses: Sequence[Access]
) -> None:
    """Print operands with their accesses: `(%x[n, k], %w[k, m])`."""
    printer.print_string("(")
    for i, (value, forms) in enumerate(zip(values, accesses, strict=True)):
        printer.print_string(", " if i else "")
        printer.print_ssa_value(value)
        printer.print_string(print_access(forms))
    printer.print_string(")")


def parse_operands(parser: Parser) -> list[tuple[SSAValue, Access]]:
    """Parse operands with their accesses, as ``print_operands`` prints them."""
    return parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, lambda: (parse_operand(parser), parse_access(parser))
    )


def verify_operand(statement: str, value: SSAValue, forms: Access, known: Container[str]) -> None:
    """Raise VerifyException unless an access has one affine expression for each dimension of its
    tensor, uses only the indices in ``known``, and the tensor's layout is a memory order."""
    verify_place(value.type)
    text, rank, place = print_access(forms), len(shape_of(value)), place_of(value.type)
    if len(forms) != rank:
        raise VerifyException(
            f"{statement}: the access {text} has {len(forms)} dimensions, the tensor {rank}"
        )
    if place is not None and place.layout.pieces and not place.layout.is_order(rank):
        raise VerifyException(f"{statement}: {place.layout} is not an order of {rank} dimensions")
    unknown = next((n for form in forms for n, _ in form.terms if n not in known), None)
    if unknown is not None:
        raise VerifyException(f"{statement}: the index {unknown} of {text} is not declared")


def verify_arguments(statement: str, block: Block, expected: Sequence[Attribute]) -> None:
    """Raise VerifyException unless a body has arguments of these types."""
    found = [argument.type for argument in block.args]
    if found != list(expected):
        raise VerifyException(
            f"{statement}: expected a body over ({', '.join(map(str, expected))}), found "
            f"({', '.join(map(str, found))})"
        )
