"""Attributes of statements of the `tile` dialect: index spaces, accesses, aggregations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic

from typing_extensions import TypeVar
from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tessella.dialects.sizes import HoldsSizes, Sizes, parse_extent
from tessella.dialects.tile.access import (
    Access,
    Linear,
    parse_access,
    parse_linear,
    print_access,
)
from tessella.support.sizes import Size, product

PACKED = "tile.packed"
"""The name of the attribute of a kernel's argument that holds the place (element type and layout)
into which the argument is to be packed before the kernel's loops read it."""
AGGREGATIONS = ("+", "*", ">", "<", "=")
"""The names of the aggregations: sum, product, maximum, minimum, and assignment.

An assignment is an elementwise statement, which writes each output element once. In an indexed
write, it keeps the value of the last point.
"""


S_co = TypeVar("S_co", bound=Size, default=Size, covariant=True)
"""The type of an index space's sizes: numbers, if all of them are estimated."""
N = TypeVar("N", bound=Size)


@dataclass(frozen=True)
class Running:
    """The way in which a statement aggregates along a running index.

    Each value of the index has the aggregate of all values up to it, as in a cumulative sum.
    """

    reverse: bool = False
    """True if each value has the aggregate of all values from it on, instead of up to it."""
    exclusive: bool = False
    """True if the aggregate excludes the value itself."""

    def __str__(self) -> str:
        words = ("reverse" * self.reverse, "exclusive" * self.exclusive)
        return " ".join(("running", *filter(None, words)))


@dataclass(frozen=True)
class Index(Generic[S_co]):
    """A named index that runs over ``0 <= index < range``."""

    name: str
    range: S_co
    reduced: bool = False
    """True if the index is aggregated over. It does not occur in the output's access unless it is
    running."""
    digits: tuple[Index[S_co], ...] = ()
    """The indices that were merged into this index, the slowest first; empty for an index that is
    not merged. Accesses, bodies and constraints name the merged indices."""
    scattered: bool = False
    """True if the index is scattered: the body yields its value for each point.

    A scattered index occurs only in the output's access, and no loop runs over it.
    """
    running: Running | None = None
    """The direction and kind of a running index, which is reduced and occurs in the output's
    access; None for any other index."""

    @property
    def kind(self) -> int:
        """The kind of the index: 0 if it is free, 1 if it is reduced, 2 if it is scattered."""
        return 2 if self.scattered else int(self.reduced)

    @staticmethod
    def merged(name: str, digits: Sequence[Index]) -> Index:
        """Return an index that enumerates all combinations of values of the indices ``digits``, the
        slowest first. They may be merged indices."""
        parts = tuple(part for digit in digits for part in digit.parts)
        return Index(name, product(part.range for part in parts), parts[0].reduced, parts)

    def with_sizes(self, of: Callable[[Size], N]) -> Index[N]:
        """Return the index with the sizes in its range and digits replaced by the results of
        ``of``."""
        digits = tuple(digit.with_sizes(of) for digit in self.digits)
        return Index(self.name, of(self.range), self.reduced, digits, self.scattered, self.running)

    @property
    def parts(self) -> tuple[Index[S_co], ...]:
        """The indices that accesses name: the digits of a merged index, otherwise the index
        itself."""
        return self.digits or (self,)

    @property
    def written(self) -> bool:
        """True if the output has an element for each value of the index."""
        return not self.reduced or self.running is not None

    def __str__(self) -> str:
        if self.digits:
            return f"{self.name}({', '.join(map(str, self.digits))})"
        text = f"{self.name}: {self.range}"
        return text if self.running is None else f"{text} {self.running}"


@irdl_attr_definition
class IndicesAttr(Data[tuple[Index, ...]], HoldsSizes):
    """The indices of a statement: `[n: 1, y: 56, x: 56, co: 64 | ci: 64, i: 3, j: 3]`.

    Indices after the first bar are reduced, indices after a second bar are scattered: `[j: 64 | i:
    100 | r: 1000]`. `y_x(y: 56, x: 56)` is a merged index of 3136 values. The reduced index of `[n:
    8 | t: 16 running]` is a running index; `running` may be followed by `reverse` and `exclusive`.
    """

    name = "tile.indices"

    @cached_property
    def parts(self) -> tuple[Index, ...]:
        """The indices that accesses name. A merged index is replaced by its digits."""
        return tuple(part for index in self.data for part in index.parts)

    @cached_property
    def ranges(self) -> Mapping[str, Size]:
        """The ranges of the indices that accesses name, by name."""
        return {index.name: index.range for index in self.parts}

    @cached_property
    def scattered(self) -> tuple[Index, ...]:
        """The scattered indices. The body yields their values."""
        return tuple(index for index in self.parts if index.scattered)

    @cached_property
    def running(self) -> Index | None:
        """The running index, along which the aggregation is cumulative; None if there is none."""
        return next((index for index in self.parts if index.running is not None), None)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Index, ...]:
        parser.parse_punctuation("[")
        indices = [*_parse_indices(parser, 0)]
        found, kind = indices, 0
        while kind < 2 and parser.parse_optional_punctuation("|") is not None:
            kind += 1
            indices += (found := [*_parse_indices(parser, kind)])
        if kind and not found:
            parser.raise_error(f"expected a {'scattered' if kind == 2 else 'reduced'} index")
        parser.parse_punctuation("]")
        return tuple(indices)

    def print_parameter(self, printer: Printer) -> None:
        kinds = range(1 + max((index.kind for index in self.data), default=0))
        groups = (", ".join(str(x) for x in self.data if x.kind == kind) for kind in kinds)
        printer.print_string(f"[{' | '.join(groups).strip()}]")

    def with_sizes(self, of: Sizes) -> IndicesAttr:
        return IndicesAttr(tuple(index.with_sizes(of) for index in self.data))


def _parse_indices(parser: AttrParser, kind: int) -> Iterator[Index]:
    """Parse a possibly empty list of indices of one kind: `c: 64, y_x(y: 56, x: 56)`."""
    name = parser.parse_optional_identifier()
    while name is not None:
        if parser.parse_optional_punctuation("(") is not None:
            digits = [*_parse_indices(parser, kind)]
            parser.parse_punctuation(")")
            if not digits:
                parser.raise_error(f"expected the indices that {name} merges")
            yield Index.merged(name, digits)
        else:
            parser.parse_punctuation(":")
            extent = parse_extent(parser)
            running = _parse_running(parser) if kind == 1 else None
            yield Index(name, extent, kind == 1, scattered=kind == 2, running=running)
        more = parser.parse_optional_punctuation(",") is not None
        name = parser.parse_identifier(" an index") if more else None


def _parse_running(parser: AttrParser) -> Running | None:
    """Parse `running`, optionally followed by `reverse` and `exclusive`. None if the next word is
    not `running`."""
    if parser.parse_optional_keyword("running") is None:
        return None
    flags = (parser.parse_optional_keyword(word) for word in ("reverse", "exclusive"))
    return Running(*(flag is not None for flag in flags))


@irdl_attr_definition
class AccessAttr(Data[Access], HoldsSizes):
    """The element of a tensor that a point of the index space accesses: `[n, ci, y + i - 1]`."""

    name = "tile.access"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Access:
        with parser.in_angle_brackets():
            return parse_access(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{print_access(self.data)}>")

    def with_sizes(self, of: Sizes) -> AccessAttr:
        return AccessAttr(tuple(form.with_sizes(of) for form in self.data))


@irdl_attr_definition
class WhereAttr(Data[tuple[tuple[Linear, Size], ...]], HoldsSizes):
    """The constraints of a statement: `[x + i - 2 < 5]` stands for ``0 <= x + i - 2 < 5``."""

    name = "tile.where"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[Linear, Size], ...]:
        def constraint() -> tuple[Linear, Size]:
            form = parse_linear(parser)
            parser.parse_characters("<")
            return form, parse_extent(parser)

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, constraint))

    def print_parameter(self, printer: Printer) -> None:
        text = ", ".join(f"{form} < {extent}" for form, extent in self.data)
        printer.print_string(f"[{text}]")

    def with_sizes(self, of: Sizes) -> WhereAttr:
        return WhereAttr(tuple((form.with_sizes(of), of(extent)) for form, extent in self.data))
