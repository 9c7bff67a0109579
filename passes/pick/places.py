"""The places that a user asks for."""

from __future__ import annotations

from collections.abc import Sequence

from tessella.dialects.place import PlaceAttr


def requested(places: Sequence[PlaceAttr]) -> list[PlaceAttr]:
    """The places without those on the host, unless the host is what is asked for first."""
    if places and places[0].target.data == "host":
        return list(places)
    return [place for place in places if place.target.data != "host"]
