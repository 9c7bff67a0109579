"""Pins: a user's requirements for single ops.

    %y = nn.conv %x, %w {node = "Conv_12", pin = "x86/f32/nchw,kernel=conv"} : ..

A pin is a place, a kernel, or both. If the place has no device, as in `any/f32`, its `any` parts
come from the requested places. A pin applies to the ops with a name: the name of a node or an op
(`nn.softmax`), or a pattern of node names (`Conv_*`). The attribute ``pin`` of an op records its
pin.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from xdsl.dialects.builtin import StringAttr

from tessella.dialects.nn.core import PIN, NnOp
from tessella.dialects.place import PlaceAttr, parse_place
from tessella.kernels.registry import kernels_of
from tessella.passes.pick.choices import split_pin
from tessella.support.errors import OptionError
from tessella.support.names import did_you_mean


@dataclass(frozen=True)
class Pin:
    """A requirement of an op."""

    place: PlaceAttr | None = None
    """The place that the op has to run at; parts may be `any`."""
    kernel: str | None = None
    """The name of the kernel that has to run the op."""

    def __str__(self) -> str:
        kernel = () if self.kernel is None else (f"kernel={self.kernel}",)
        return ",".join([*(() if self.place is None else (str(self.place),)), *kernel])


def ops_named(ops: Iterable[NnOp], name: str) -> list[NnOp]:
    """Return the ops to which a name applies: the name of a node or an op, or a pattern of node
    names."""
    return [op for op in ops if name in (op.name, op.node) or fnmatchcase(op.node, name)]


def no_such_name(
    ops: Iterable[NnOp], name: str, where: str, further: Iterable[str] = ()
) -> OptionError:
    """Return the error for a name that neither an op nor a node has. ``further`` lists other valid
    names, which the hint may suggest."""
    known = dict.fromkeys(each for op in ops for each in (op.node, op.name))
    return OptionError(
        f"no op has the name {name!r}",
        where=where,
        expected="the name of a node or an op after the fusions, as explain() shows them",
        hint=did_you_mean(name, [*known, *further]),
    )


def parse_pin(text: str) -> Pin:
    """Return the pin of a text such as `x86/f32/nchw,kernel=conv`. Raises OptionError if the text
    names neither a place nor a kernel, or has another form."""
    place, kernel, name = text.rpartition("kernel=")
    if not kernel:
        place, name = name, ""
    if not (place or name) or (kernel and not name) or "kernel=" in place:
        raise OptionError(
            "cannot read a pin",
            expected="a place, kernel=NAME, or both with a comma between them",
            found=repr(text),
        )
    place = place.removesuffix(",")
    return Pin(parse_place(place) if place else None, name or None)


def pin_of(op: NnOp) -> Pin | None:
    """Return the pin that an op records; None if it has none. Raises OptionError if the record
    cannot be read."""
    text = op.attributes.get(PIN)
    if text is None:
        return None
    where = f"the pin of node {op.node!r}"
    if not isinstance(text, StringAttr):
        raise OptionError("a pin is a text", where=where, found=str(text))
    return _parsed(text.data, where)


def _parsed(text: str, where: str) -> Pin:
    """Return the pin of a text. Raises OptionError, which says where the text is."""
    try:
        return parse_pin(text)
    except OptionError as error:
        raise error.at(where) from None


def set_pins(ops: Sequence[NnOp], texts: Iterable[str]) -> None:
    """Record the pins of texts such as `Conv_12=x86/f32/nchw` in the ops that they name.

    The last pin of an op counts. A kernel that an op names already is a part of its pin. Raises
    OptionError for a pin that names no op, and for a kernel that an op does not have.
    """
    for op in ops:
        if op.kernel is not None and op.places is None:
            _pin_to_kernel(op, op.kernel)
    for text in texts:
        name, text_of_pin = split_pin(text)
        pin = _parsed(text_of_pin, f"the pin {text!r}")
        found = ops_named(ops, name)
        if not found:
            raise no_such_name(ops, name, f"the pin {text!r}")
        for op in found:
            op.attributes[PIN] = StringAttr(str(pin))
    for op in ops:
        _check_kernel(op)


def _pin_to_kernel(op: NnOp, kernel: str) -> None:
    pin = pin_of(op) or Pin()
    if pin.kernel not in (None, kernel):
        raise OptionError(
            f"{op.name} names a kernel and is pinned to another one",
            where=f"the pin of node {op.node!r}",
            expected=f"the kernel {kernel}",
            found=f"the kernel {pin.kernel}",
        )
    op.attributes[PIN] = StringAttr(str(Pin(pin.place, kernel)))


def _check_kernel(op: NnOp) -> None:
    pin = pin_of(op)
    if pin is None or pin.kernel is None:
        return
    known = [kernel.name for kernel in kernels_of(op)]
    if pin.kernel not in known:
        raise OptionError(
            f"{op.name} has no kernel {pin.kernel!r}",
            where=f"the pin of node {op.node!r}",
            expected=f"one of {', '.join(known)}",
            hint=did_you_mean(pin.kernel, known),
        )
