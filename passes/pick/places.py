"""The places that a user asks for."""

from __future__ import annotations

from collections.abc import Sequence

from tessella.dialects.place import PlaceAttr
from tessella.kernels.registry import CPUS, devices_with_kernels, readable_elements
from tessella.support.errors import OptionError


def check_served(places: Sequence[PlaceAttr]) -> None:
    """Raise OptionError for a place at whose device no kernel of any op runs, and for a precision
    that none at a CPU reads."""
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
    device, precision = place.device.data, place.precision.data
    known = readable_elements(device)
    if device in CPUS and precision not in (*known, "any"):
        raise OptionError(
            f"no kernel on {device} reads {precision}",
            expected=f"one of {', '.join(known)}",
            found=str(place),
            hint="tensors of it can be stored and cast, on the host",
        )


def requested(places: Sequence[PlaceAttr]) -> list[PlaceAttr]:
    """The places without those on the host, unless the host is what is asked for first."""
    if places and places[0].device.data == "host":
        return list(places)
    return [place for place in places if place.device.data != "host"]
