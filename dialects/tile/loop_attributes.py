"""Attributes of the shared loops of a kernel: nests, windows, and the storage of results within an
iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from tessella.dialects.sizes import HoldsSizes, Sizes, parse_extent, parse_number
from tessella.dialects.tile.access import (
    Linear,
    parse_linear,
)
from tessella.support.decisions import at_most, is_multiple
from tessella.support.sizes import Expr, Size, ceil_div


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
        """Return whether an index of ``range`` values enumerates the values of the loop, or equal
        blocks of them, so that each iteration runs whole blocks."""
        if at_most(range, 0) or not is_multiple(self.extent, range):
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
        """Return the attribute of a statement whose indices with these names run over the values of
        its kernel's shared loops, without windows."""
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
    """Parse the text of a storage, an index and a shape, such as ``m: 4 x 1024``."""
    step = parser.parse_identifier(" an index")
    parser.parse_punctuation(":")
    shape = [parse_number(parser)]
    while parser.parse_optional_keyword("x") is not None:
        shape.append(parse_number(parser))
    return Storage(step, tuple(shape))


@irdl_attr_definition
class StorageAttr(Data[Storage], HoldsSizes):
    """The storage of a statement's result within an iteration of shared loops: `in a step of m: 4 x
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
