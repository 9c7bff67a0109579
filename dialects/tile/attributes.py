"""Attributes of the `tile` dialect: index spaces, accesses, aggregations, schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic

from typing_extensions import TypeVar
from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tessella.dialects.sizes import HoldsSizes, Sizes, parse_extent, parse_number
from tessella.dialects.tile.access import (
    Access,
    Linear,
    parse_access,
    parse_linear,
    print_access,
)
from tessella.support.conditions import decided
from tessella.support.decisions import is_multiple
from tessella.support.sizes import Expr, Size, ceil_div, product
from tessella.targets.instructions import INSTRUCTIONS, Instruction

PACKED = "tile.packed"
"""The name of the attribute of a kernel's argument that holds the place in which the kernel's
schedules read the argument."""
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
    """Whether each value has the aggregate of all values from it on, instead of up to it."""
    exclusive: bool = False
    """Whether the aggregate excludes the value itself."""

    def __str__(self) -> str:
        words = ("reverse" * self.reverse, "exclusive" * self.exclusive)
        return " ".join(("running", *filter(None, words)))


@dataclass(frozen=True)
class Index(Generic[S_co]):
    """A named index that runs over ``0 <= index < range``."""

    name: str
    range: S_co
    reduced: bool = False
    """Whether the index is aggregated over. It does not occur in the output's access unless it is
    running."""
    digits: tuple[Index[S_co], ...] = ()
    """The indices that were merged into this index, the slowest first; empty for an index that is
    not merged. Accesses, bodies and constraints name the merged indices."""
    scattered: bool = False
    """Whether the index is scattered: the body yields its value for each point.

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
        """Whether the output has an element for each value of the index."""
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


@dataclass(frozen=True)
class SharedLoop:
    """A loop that the statements of a kernel share: its extent and its step.

    If the step does not divide the extent, the last iteration overlaps its predecessor and
    recomputes a part of it.
    """

    extent: Size
    step: int
    parallel: int = 0
    """The grain by which threads divide the extent, in whole steps; 0 for a loop that each thread
    runs completely.

    Threads may divide the iterations of two loops together: a thread's share may then begin at any
    iteration of the inner loop.
    """

    @property
    def trips(self) -> Size:
        return ceil_div(self.extent, self.step)

    def counts(self, range: Size) -> bool:
        """Return whether an index of ``range`` values enumerates the values of the loop, or blocks
        of them with whole blocks in each step."""
        if not (decided(range > 0) and is_multiple(self.extent, range)):
            return False
        return is_multiple(self.step, self.extent // range)


@dataclass(frozen=True)
class Nest:
    """The loops that the statements of a kernel share, outermost first."""

    loops: tuple[SharedLoop, ...]
    prefetch: int = 0
    """The cache line size for prefetches of a later iteration's data; 0 for no prefetches."""
    ahead: int = 1
    """The prefetch distance in iterations."""

    @property
    def divided(self) -> tuple[int, ...]:
        """The numbers of the loops that threads divide: one loop, two loops that are divided as
        one, or none."""
        return tuple(i for i, loop in enumerate(self.loops) if loop.parallel)

    def dividing(self, number: int, grain: int) -> Nest:
        """Return the nest with the loop ``number`` divided among threads by ``grain``."""
        loop = replace(self.loops[number], parallel=grain)
        return replace(self, loops=(*self.loops[:number], loop, *self.loops[number + 1 :]))


@irdl_attr_definition
class NestAttr(Data[Nest], HoldsSizes):
    """The attribute with the shared loops of a kernel: `#tile.nest<[12 by 1 parallel 1, 128 by 32]
    prefetch 64>`, or `.. prefetch 64 ahead 2>`. Threads divide two loops as one in
    `#tile.nest<[12 by 1 parallel 1, 128 by 32 parallel 32]>`."""

    name = "tile.nest"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Nest:
        def loop() -> SharedLoop:
            extent = parse_extent(parser)
            parser.parse_keyword("by")
            step = parser.parse_integer(allow_negative=False)
            parallel = parser.parse_optional_keyword("parallel") is not None
            return SharedLoop(
                extent, step, parser.parse_integer(allow_negative=False) if parallel else 0
            )

        with parser.in_angle_brackets():
            loops = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, loop)
            prefetch, ahead = (
                parser.parse_integer(allow_negative=False)
                if parser.parse_optional_keyword(word) is not None
                else default
                for word, default in (("prefetch", 0), ("ahead", 1))
            )
            return Nest(tuple(loops), prefetch, ahead)

    def print_parameter(self, printer: Printer) -> None:
        text = ", ".join(map(_loop, self.data.loops))
        prefetch = f" prefetch {self.data.prefetch}" if self.data.prefetch else ""
        ahead = f" ahead {self.data.ahead}" if self.data.ahead != 1 else ""
        printer.print_string(f"<[{text}]{prefetch}{ahead}>")

    def with_sizes(self, of: Sizes) -> NestAttr:
        loops = tuple(replace(loop, extent=of(loop.extent)) for loop in self.data.loops)
        return NestAttr(replace(self.data, loops=loops))


def _loop(loop: SharedLoop) -> str:
    parallel = f" parallel {loop.parallel}" if loop.parallel else ""
    return f"{loop.extent} by {loop.step}{parallel}"


@dataclass(frozen=True)
class Window:
    """The values of an index of a statement that an iteration of a shared loop computes, because
    other statements read them in that iteration.

    There are ``size`` values, from ``scale * step + offset`` on, where ``step`` is the loop's first
    value in the iteration. The window is moved into the range of the index if necessary.
    """

    scale: int
    offset: int
    size: int

    def __str__(self) -> str:
        return f"{Linear.of('step', self.scale) + self.offset} by {self.size}"


@dataclass(frozen=True)
class At:
    """An index of a statement over which a shared loop runs.

    Without a window, the index enumerates the values of the loop, or blocks of them.
    """

    name: str
    window: Window | None = None

    def __str__(self) -> str:
        return self.name if self.window is None else f"{self.name}: {self.window}"


@irdl_attr_definition
class AtAttr(Data[tuple[At, ...]]):
    """The indices of a statement that its kernel's shared loops run over: `[b, m]`, or with windows
    `[b, y: 2*step - 1 by 5]`."""

    name = "tile.at"

    @staticmethod
    def of(*names: str) -> AtAttr:
        """Return the attribute for indices without windows, which enumerate the values of the
        shared loops."""
        return AtAttr(tuple(map(At, names)))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[At, ...]:
        def at() -> At:
            name = parser.parse_identifier(" an index")
            if parser.parse_optional_punctuation(":") is None:
                return At(name)
            form = parse_linear(parser)
            if any(n != "step" for n, _ in form.terms) or isinstance(form.constant, Expr):
                parser.raise_error(f"expected a form of the step, found {form}")
            parser.parse_keyword("by")
            size = parser.parse_integer(allow_negative=False)
            return At(name, Window(form.coefficient("step"), form.constant, size))

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, at))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"[{', '.join(map(str, self.data))}]")


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
class Storage:
    """The memory for the part of a tensor that one iteration of shared loops writes."""

    step: str
    """The index of the statement over which the innermost of these loops runs. All statements that
    read the tensor run in the same iteration."""
    shape: tuple[Size, ...]

    def __str__(self) -> str:
        return f"{self.step}: {shape_text(self.shape)}"


def shape_text(shape: Sequence[Size]) -> str:
    """Format a shape: `4 x [seq]`."""
    return " x ".join(f"{size:d}" for size in shape)


def parse_storage(parser: AttrParser) -> Storage:
    """Parse a storage: the index and the shape in ``m: 4 x 1024``."""
    step = parser.parse_identifier(" an index")
    parser.parse_punctuation(":")
    shape = [parse_number(parser)]
    while parser.parse_optional_keyword("x") is not None:
        shape.append(parse_number(parser))
    return Storage(step, tuple(shape))


@irdl_attr_definition
class StorageAttr(Data[Storage], HoldsSizes):
    """The storage of a statement's result within a step of shared loops: `in a step of m: 4 x
    1024`.

    Without this attribute, the whole result is in memory. With it, each iteration writes its part
    of the tensor to the same memory, which no statement outside the iteration reads.
    """

    name = "tile.storage"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Storage:
        with parser.in_angle_brackets():
            return parse_storage(parser)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")

    def with_sizes(self, of: Sizes) -> StorageAttr:
        return StorageAttr(replace(self.data, shape=tuple(map(of, self.data.shape))))


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
    """Whether the generated code prefetches the next packed panels, and vectors that come from
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
