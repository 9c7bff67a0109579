"""The places that a user requests."""

from __future__ import annotations

from collections.abc import Sequence

from tessella.dialects.place import PlaceAttr
from tessella.kernels.elements import Elements
from tessella.kernels.registry import CPUS, devices_with_kernels, readable_elements
from tessella.runtime.devices import kind_of
from tessella.support.elements import ELEMENTS
from tessella.support.errors import OptionError


def check_served(places: Sequence[PlaceAttr]) -> None:
    """Raise OptionError if a place names a device without kernels, or a precision that no CPU
    kernel reads."""
    known = devices_with_kernels()
    for place in places:
        if kind_of(place.device.data) not in (*known, "any"):
            raise OptionError(
                f"no kernel runs on {place.device.data}",
                expected=f"places on {', '.join(known)}",
                found=str(place),
                hint="a plugin can register kernels for it",
            )
        _check_precision(place)


def _check_precision(place: PlaceAttr) -> None:
    device, precision = place.device.data, place.precision.data
    known = readable_elements(device)
    if device in CPUS and precision not in (*known, "any"):
        raise OptionError(
            f"no kernel on {device} reads {precision}",
            expected=f"one of {', '.join(known)}",
            found=str(place),
            hint="tensors of it can be stored and cast, on the host",
        )


def check_elements(places: Sequence[PlaceAttr], found: Sequence[Elements]) -> None:
    """Raise OptionError if all places request integers that no op of a program has.

    Floats are never stored as integers.
    """
    asked = {place.precision.data: place for place in requested(places)}
    present = {name for each in found for name in (*each.reads, *each.writes)}
    integers = all(p in ELEMENTS and not ELEMENTS[p].is_float for p in asked)
    if asked and found and integers and not present.intersection(asked):
        listed = [name for name in ELEMENTS if name in present]
        raise OptionError(
            f"the model has nothing of {' or '.join(asked)}",
            expected=f"a place of one of its elements: {', '.join(listed)}",
            found=", ".join(map(str, asked.values())),
            hint="numbers of a float become integers where a model quantizes them itself",
        )


def requested(places: Sequence[PlaceAttr]) -> list[PlaceAttr]:
    """Return the places without those on the host, unless the host comes first."""
    if places and places[0].device.data == "host":
        return list(places)
    return [place for place in places if place.device.data != "host"]
