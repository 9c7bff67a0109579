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
_MARKED = re.compile(f"{_MARK}(\\d+){_MARK}")


def to_text(op: Operation, *, generic: bool = False, wrap: bool = True) -> str:
    """Return the text of an op, which the parser reads back. The text has no final newline.

    Lines are at most ``WIDTH`` columns wide if possible. If ``wrap`` is False, each op is one line,
    as FileCheck needs it.
    """
    stream = StringIO()
    printer = _Printer(stream=stream, print_generic_format=generic)
    printer.print_op(op)
    names = _names(list(printer.places))
    text = _MARKED.sub(lambda mark: f"#{names[int(mark[1])]}", stream.getvalue())
    lines = (f"#{name} = {place}" for name, place in zip(names, printer.spelled(), strict=True))
    body = map(wrapped, text.split("\n")) if wrap else [text]
    return "\n".join((*sorted(lines), *body))


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

    def spelled(self) -> list[str]:
        """Return the places in full, without aliases, in the order of their numbers."""
        return list(map(str_of, self.places))


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
    return "_".join((*differing, _kind(place)))
