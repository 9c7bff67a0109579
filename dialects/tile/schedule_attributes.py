"""Attributes of the schedule of a statement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tessella.targets.instructions import INSTRUCTIONS, Instruction


@dataclass(frozen=True)
class Dot:
    """The use of a dot product instruction, which multiplies groups of values along a reduced index
    and adds the products."""

    index: str
    instruction: str
    """The instruction's name in ``targets.instructions``."""

    @property
    def row(self) -> Instruction:
        """The row of ``targets.instructions`` that describes the instruction."""
        return INSTRUCTIONS[self.instruction]


@dataclass(frozen=True)
class Schedule:
    """A schedule: the order and blocking of a statement's loops, over its indices with more than
    one value in an iteration.

    ``order`` lists the free indices, outermost loop first; ``rows`` is blocked by ``row_tile`` and
    ``vector`` by ``lanes * vectors``. If the vector index is a reduced one, each lane has its own
    partial sum, and the lanes are summed at the end. ``unroll`` points of the innermost reduction
    loop run in one iteration. ``blocks`` are free indices that run in blocks. The loops over blocks
    are outside all others, so that the data of a block stays in cache.
    """

    order: tuple[str, ...]
    reduction: tuple[str, ...]
    vector: str | None = None
    lanes: int = 1
    vectors: int = 1
    rows: str | None = None
    row_tile: int = 1
    unroll: int = 1
    blocks: tuple[tuple[str, int], ...] = ()
    partial: tuple[str, int] | None = None
    """The blocking of a sum into partial sums: a reduced index, and the number of its values in a
    partial sum, which includes all inner indices.

    The rounding error of a long sum then grows with the square root of its length instead of the
    length.
    """
    prefetch: bool = False
    """True if the generated code prefetches the next packed panels, and vectors that come from
    memory."""
    parallel: tuple[str, int] | None = None
    """The free index that threads divide, and the grain in whole tiles.

    None if one thread runs the statement, or threads divide a loop around it.
    """
    ends: tuple[int, ...] = ()
    """The possible heights of the tail tile, if the number of rows is symbolic.

    The tail tile overlaps its predecessor. It has the smallest sufficient height, or the height of
    a whole tile if no listed height is sufficient.
    """
    dot: Dot | None = None
    """The dot instruction; None for a multiply-add of single values."""

    def group(self, name: str) -> int:
        """Return the number of values of the reduced index ``name`` that one instruction sums."""
        return self.dot.row.k if self.dot is not None and self.dot.index == name else 1

    @property
    def height(self) -> int:
        """The number of rows that one instruction computes."""
        return self.dot.row.m if self.dot is not None else 1

    @property
    def width(self) -> int:
        """The number of values of the vector index in one register tile."""
        return self.lanes * self.vectors


@irdl_attr_definition
class ScheduleAttr(Data[Schedule]):
    """The attribute with the schedule of a statement: `#tile.schedule<[co, y, x] reduce [i, j, ci]
    vector co 16 by 2 rows x 14 unroll 4 blocks [y 8]>`."""

    name = "tile.schedule"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Schedule:
        def names() -> tuple[str, ...]:
            return tuple(
                parser.parse_comma_separated_list(
                    parser.Delimiter.SQUARE, lambda: parser.parse_identifier(" an index")
                )
            )

        def block() -> tuple[str, int]:
            return (
                parser.parse_identifier(" an index"),
                parser.parse_integer(allow_negative=False),
            )

        vector = rows = None
        lanes = vectors = row_tile = unroll = 1
        blocks: list[tuple[str, int]] = []
        ends: Sequence[int] = ()
        dot: Dot | None = None
        with parser.in_angle_brackets():
            order = names()
            parser.parse_keyword("reduce")
            reduction = names()
            if parser.parse_optional_keyword("vector"):
                vector = parser.parse_identifier(" an index")
                lanes = parser.parse_integer(allow_negative=False)
                parser.parse_keyword("by")
                vectors = parser.parse_integer(allow_negative=False)
            if parser.parse_optional_keyword("rows"):
                rows = parser.parse_identifier(" an index")
                row_tile = parser.parse_integer(allow_negative=False)
                if parser.parse_optional_keyword("ends"):
                    ends = parser.parse_comma_separated_list(
                        parser.Delimiter.SQUARE,
                        lambda: parser.parse_integer(allow_negative=False),
                    )
            if parser.parse_optional_keyword("unroll"):
                unroll = parser.parse_integer(allow_negative=False)
            if parser.parse_optional_keyword("dot"):
                dot = Dot(parser.parse_identifier(" an index"), parser.parse_identifier())
            partial = block() if parser.parse_optional_keyword("partial") else None
            if parser.parse_optional_keyword("blocks"):
                blocks = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, block)
            prefetch = parser.parse_optional_keyword("prefetch") is not None
            parallel = block() if parser.parse_optional_keyword("parallel") else None
        return Schedule(
            *(order, reduction, vector, lanes, vectors, rows, row_tile, unroll, tuple(blocks)),
            *(partial, prefetch, parallel, tuple(ends), dot),
        )

    def print_parameter(self, printer: Printer) -> None:
        s = self.data
        text = f"[{', '.join(s.order)}] reduce [{', '.join(s.reduction)}]"
        if s.vector is not None:
            text += f" vector {s.vector} {s.lanes} by {s.vectors}"
        if s.rows is not None:
            text += f" rows {s.rows} {s.row_tile}"
        if s.ends:
            text += f" ends [{', '.join(map(str, s.ends))}]"
        if s.unroll > 1:
            text += f" unroll {s.unroll}"
        if s.dot is not None:
            text += f" dot {s.dot.index} {s.dot.instruction}"
        if s.partial is not None:
            text += f" partial {s.partial[0]} {s.partial[1]}"
        if s.blocks:
            text += f" blocks [{', '.join(f'{name} {size}' for name, size in s.blocks)}]"
        if s.prefetch:
            text += " prefetch"
        if s.parallel is not None:
            text += f" parallel {s.parallel[0]} {s.parallel[1]}"
        printer.print_string(f"<{text}>")
