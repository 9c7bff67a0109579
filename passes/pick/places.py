"""The places that a user asks for."""

from __future__ import annotations

from collections.abc import Sequence

from tessella.dialects.place import PlaceAttr
from tessella.kernels.registry import CPUS, devices_with_kernels, has_precision
from tessella.support.elements import ELEMENTS
from tessella.support.errors import OptionError


def check_served(places: Sequence[PlaceAttr]) -> None:
    """Raise OptionError for a place at whose device no kernel of any op runs, and for a precision
    that generated kernels cannot compute with."""
    known = devices_with_kernels()
    for place in places:
        if place.device.data not in (*known, "any"):
            raise OptionError(
                f"no kernel runs on {place.device.data}",
                expected=f"places on {', '.join(known)}",
                found=str(place),
                hint="a plugin can register kernels for it",
            )
        _check_precision(place)


def _check_precision(place: PlaceAttr) -> None:
    element = ELEMENTS.get(place.precision.data)
    if element is None or element.is_native or has_precision(element.name):
        return
    if place.device.data in CPUS:
        raise OptionError(
            f"no kernel on {place.device.data} computes with {element.name}",
            expected=f"one of {', '.join(e.name for e in ELEMENTS.values() if e.is_native)}",
            found=str(place),
            hint="tensors of it can be stored and cast, on the host",
        )


def requested(places: Sequence[PlaceAttr]) -> list[PlaceAttr]:
    """The places without those on the host, unless the host is what is asked for first."""
    if places and places[0].device.data == "host":
        return list(places)
    return [place for place in places if place.device.data != "host"]
