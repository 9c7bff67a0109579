"""IR as text, with places as aliases.

    #nhwc = #place.at<x86, f32, nhwc>
    builtin.module {
      %y = nn.relu %x {..} : tensor<1x8x5x5xf32, #nhwc>

xDSL reads aliases and never prints them. An alias is the layout's name, after the device and
the precision where places of that layout differ in them; a number tells packed layouts apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import StringIO

from xdsl.ir import Attribute, Operation
from xdsl.printer import Printer

from tessella.dialects.place import PlaceAttr

_MARK = "\0"
_MARKED = re.compile(f"{_MARK}(\\d+){_MARK}")


def to_text(op: Operation, *, generic: bool = False) -> str:
    """The text of an op, which is read again by the parser; it ends without a newline."""
    stream = StringIO()
    printer = _Printer(stream=stream, print_generic_format=generic)
    printer.print_op(op)
    names = _names(list(printer.places))
    text = _MARKED.sub(lambda mark: f"#{names[int(mark[1])]}", stream.getvalue())
    lines = (f"#{name} = {place}" for name, place in zip(names, printer.spelled(), strict=True))
    return "\n".join((*sorted(lines), text))


@dataclass(eq=False, repr=False)
class _Printer(Printer):
    """Prints numbers between marks for places, which get their names once all are known."""

    places: dict[PlaceAttr, int] = field(default_factory=dict[PlaceAttr, int], init=False)

    def print_attribute(self, attribute: Attribute) -> None:
        if isinstance(attribute, PlaceAttr):
            number = self.places.setdefault(attribute, len(self.places))
            self.print_string(f"{_MARK}{number}{_MARK}")
        else:
            super().print_attribute(attribute)

    def spelled(self) -> list[str]:
        """The places in full, in the order of their numbers."""
        return list(map(str_of, self.places))


def str_of(place: PlaceAttr) -> str:
    """The place as the IR spells it without aliases."""
    stream = StringIO()
    Printer(stream=stream).print_attribute(place)
    return stream.getvalue()


def _names(places: Sequence[PlaceAttr]) -> list[str]:
    """An alias for each place, all of them different."""
    names = [_name(place, [p for p in places if _kind(p) == _kind(place)]) for place in places]
    repeated = [names[:i].count(name) for i, name in enumerate(names)]
    return [f"{name}_{n}" if n else name for name, n in zip(names, repeated, strict=True)]


def _kind(place: PlaceAttr) -> str:
    return place.layout.name


def _name(place: PlaceAttr, alike: Sequence[PlaceAttr]) -> str:
    """The layout's name, after the parts in which places of the same name differ."""
    devices, precisions = {p.device for p in alike}, {p.precision for p in alike}
    parts = ((place.device, devices), (place.precision, precisions))
    differing = [part.data for part, others in parts if len(others) > 1]
    return "_".join((*differing, _kind(place)))
