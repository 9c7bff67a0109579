"""Mixed precision by lists of the names of ops whose floats are stored in a precision.

    autocast={"f32": ["nn.exp"]}  ->  the pin `any/f32` of each nn.exp without a pin

A device has default lists (``kernels/devices.py``), which apply if its requested places name both a
narrow and a wide float. The user's lists follow them; the last list that names an op applies. Ops
are skipped if the arithmetic of their floats is not that of the precision, such as ops on f64.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xdsl.dialects.builtin import StringAttr

from tessella.dialects.nn import Nn
from tessella.dialects.nn.core import PIN, NnOp
from tessella.dialects.nn.traits import RunsFunction
from tessella.dialects.place import PlaceAttr
from tessella.kernels.devices import rules_of
from tessella.kernels.elements import elements_of
from tessella.passes.pick.choices import autocast_rows, split_pin
from tessella.passes.pick.pins import Pin, no_such_name, ops_named, parse_pin, pin_of
from tessella.passes.pick.places import requested
from tessella.support.elements import ELEMENTS


def set_autocast(ops: Sequence[NnOp], places: Sequence[PlaceAttr], rows: Sequence[str]) -> None:
    """Pin ops without pins to the precisions in the lists: first the lists of the devices of
    ``places``, then ``rows`` such as `nn.exp=any/f32`.

    Raises OptionError for a row that names neither an op of the dialect nor a node.
    """
    _check_names(ops, rows)
    for text in reversed([*_rows_of_devices(places), *rows]):
        name, pin = split_pin(text)
        place = parse_pin(pin).place
        for op in ops_named(ops, name):
            if place is not None and _has_arithmetic(op, place.precision.data):
                _give_precision(op, place)


def _give_precision(op: NnOp, place: PlaceAttr) -> None:
    """Pin an op to a place with a precision alone, unless it has a pin. A pin to a layout alone
    gets the precision."""
    at = (pin_of(op) or Pin(place)).place
    if at is not None and at == PlaceAttr.get("any", "any", at.layout):
        op.attributes[PIN] = StringAttr(str(at.resolved(place)))
    elif PIN not in op.attributes:
        op.attributes[PIN] = StringAttr(str(place))


def _check_names(ops: Sequence[NnOp], rows: Iterable[str]) -> None:
    known = {op.name for op in Nn.operations}
    for text in rows:
        name, _ = split_pin(text)
        if name not in known and not ops_named(ops, name):
            raise no_such_name(ops, name, f"the list for autocast: {text!r}", known)


def _has_arithmetic(op: NnOp, precision: str) -> bool:
    """Return whether an op reads floats, and all of them are computed in the arithmetic of
    ``precision``."""
    found = elements_of(op)
    if found is None or not found.floats_read or op.has_trait(RunsFunction):
        return False
    arithmetic = ELEMENTS[precision].arithmetic
    return all(ELEMENTS[name].arithmetic == arithmetic for name in found.floats_read)


def _rows_of_devices(places: Sequence[PlaceAttr]) -> Iterator[str]:
    """Yield the default rows, such as `nn.exp=any/f32`, of each device whose places name both a
    narrow and a wide float."""
    named: dict[str, list[str]] = {}
    for place in requested(places):
        named.setdefault(place.device.data, []).append(place.precision.data)
    for device, precisions in named.items():
        narrow = any(p in ELEMENTS and ELEMENTS[p].narrow for p in precisions)
        wide = any(p == "any" or not ELEMENTS[p].narrow for p in precisions)
        if narrow and wide:
            yield from autocast_rows(rules_of(device).autocast)
