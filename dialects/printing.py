"""IR as text, with aliases for places and wrapped lines.

    #nhwc = #place.at<x86, f32, nhwc>
    builtin.module {
      %y = nn.relu %x {..} : tensor<1x8x5x5xf32, #nhwc>

xDSL parses aliases but does not print them. An alias is the layout's name. The device and the
precision precede it if places of that layout differ in them. A number distinguishes packed layouts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import StringIO

from xdsl.ir import Attribute, Operation
from xdsl.printer import Printer

from tessella.dialects.place import PlaceAttr

WIDTH = 120
"""The maximum number of columns of a line."""
_CONTINUED = 4
"""The indentation of the continuation lines of a wrapped line, in columns, relative to its first
line."""
_OPENING, _CLOSING = "([{<", ")]}>"
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|(?<=,) |(?<![:=,]) (?=->|:|[a-z])|->|[\[\](){}<>]')
"""Strings, brackets, and the spaces where a line may break: after commas, before words."""

_MARK = "\0"
_OP_MARK = "\1"
_MARKED = re.compile(f"{_MARK}(\\d+){_MARK}")
_OP_MARKED = re.compile(f"{_OP_MARK}(\\d+){_OP_MARK}")


def to_text(op: Operation, *, generic: bool = False, wrap: bool = True) -> str:
    """Return the text of an op, which the parser reads back. The text has no final newline.

    Lines are at most ``WIDTH`` columns wide if possible. If ``wrap`` is False, each op is one line,
    as FileCheck needs it.
    """
    printer = _Printer(stream=StringIO(), print_generic_format=generic)
    printer.print_op(op)
    lines, text = printer.finished()
    body = map(wrapped, text.split("\n")) if wrap else [text]
    return "\n".join((*lines, *body))


def lines_of(op: Operation) -> Iterator[tuple[str, Operation | None]]:
    """Yield the lines of `to_text`, each with the op that it shows, which is ``op`` itself or
    inside it; None for a line that shows no op, such as a closing bracket."""
    printer = _OpPrinter(stream=StringIO())
    printer.print_op(op)
    lines, text = printer.finished()
    yield from ((line, None) for line in lines)
    for line in text.split("\n"):
        mark = _OP_MARKED.search(line)
        shown = printer.ops[int(mark[1])] if mark is not None else None
        yield from ((each, shown) for each in wrapped(_OP_MARKED.sub("", line)).split("\n"))


def wrapped(line: str) -> str:
    """Wrap a line of IR at ``WIDTH`` columns."""
    indent = " " * (len(line) - len(line.lstrip()) + _CONTINUED)
    lines: list[str] = []
    while len(line) > WIDTH and (at := _break(line, len(indent))) is not None:
        lines.append(line[:at])
        line = indent + line[at + 1 :]
    return "\n".join((*lines, line))


def _break(line: str, start: int) -> int | None:
    """Return the position of the space at which to break a line: the last one with the fewest open
    brackets. None if the line cannot be broken."""
    earliest = (start + WIDTH) // 2
    spaces = [(at, depth) for at, depth in _breaks(line, start) if at >= earliest]
    fitting = [(depth, -at) for at, depth in spaces if at <= WIDTH]
    if fitting:
        return -min(fitting)[1]
    return spaces[0][0] if spaces else None


def _breaks(line: str, start: int) -> Iterator[tuple[int, int]]:
    """Yield the positions at which a line may break, each with the number of brackets that are open
    there."""
    depth = 0
    for match in _TOKEN.finditer(line, start):
        if match[0] == " ":
            yield match.start(), depth
        else:
            depth += (match[0] in _OPENING) - (match[0] in _CLOSING)


@dataclass(eq=False, repr=False)
class _Printer(Printer):
    """A printer that prints a numbered mark for each place. ``to_text`` replaces the marks by
    aliases once all places are known."""

    places: dict[PlaceAttr, int] = field(default_factory=dict[PlaceAttr, int], init=False)

    def print_attribute(self, attribute: Attribute) -> None:
        if isinstance(attribute, PlaceAttr):
            number = self.places.setdefault(attribute, len(self.places))
            self.print_string(f"{_MARK}{number}{_MARK}")
        else:
            super().print_attribute(attribute)

    def finished(self) -> tuple[list[str], str]:
        """Return the lines that define aliases, and the printed text with aliases for places."""
        names = _names(list(self.places))
        assert isinstance(self.stream, StringIO)
        text = _MARKED.sub(lambda mark: f"#{names[int(mark[1])]}", self.stream.getvalue())
        places = map(str_of, self.places)
        return sorted(f"#{n} = {place}" for n, place in zip(names, places, strict=True)), text


@dataclass(eq=False, repr=False)
class _OpPrinter(_Printer):
    """A printer that also prints a numbered mark before each op."""

    ops: list[Operation] = field(default_factory=list[Operation], init=False)

    def print_op(self, op: Operation) -> None:
        self.print_string(f"{_OP_MARK}{len(self.ops)}{_OP_MARK}")
        self.ops.append(op)
        super().print_op(op)


def str_of(place: PlaceAttr) -> str:
    """Return the text of a place in the IR, without an alias."""
    stream = StringIO()
    Printer(stream=stream).print_attribute(place)
    return stream.getvalue()


def _names(places: Sequence[PlaceAttr]) -> list[str]:
    """Return a unique alias for each place."""
    names = [_name(place, [p for p in places if _kind(p) == _kind(place)]) for place in places]
    repeated = [names[:i].count(name) for i, name in enumerate(names)]
    return [f"{name}_{n}" if n else name for name, n in zip(names, repeated, strict=True)]


def _kind(place: PlaceAttr) -> str:
    return place.layout.name


def _name(place: PlaceAttr, alike: Sequence[PlaceAttr]) -> str:
    """Return an alias of a place: its layout's name, after its device if the places in ``alike``
    have several devices, and after its precision if they have several precisions.

    ``alike`` has all places whose layouts have that name.
    """
    devices, precisions = {p.device for p in alike}, {p.precision for p in alike}
    parts = ((place.device, devices), (place.precision, precisions))
    differing = [part.data for part, others in parts if len(others) > 1]
    return "_".join((*differing, _kind(place))).replace(":", "_")  # the device may have a number
