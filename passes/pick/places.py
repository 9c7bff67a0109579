"""The places that a user asks for."""

from __future__ import annotations

from collections.abc import Sequence

from tessella.dialects.place import PlaceAttr
from tessella.kernels.registry import devices_with_kernels
from tessella.support.errors import OptionError


def check_served(places: Sequence[PlaceAttr]) -> None:
    """Raise OptionError for a place at whose device no kernel of any op runs."""
    known = devices_with_kernels()
    for place in places:
        if place.device.data not in (*known, "any"):
            raise OptionError(
                f"no kernel runs on {place.device.data}",
                expected=f"places on {', '.join(known)}",
                found=str(place),
                hint="a plugin can register kernels for it",
            )


def requested(places: Sequence[PlaceAttr]) -> list[PlaceAttr]:
    """The places without those on the host, unless the host is what is asked for first."""
    if places and places[0].device.data == "host":
        return list(places)
    return [place for place in places if place.device.data != "host"]
