"""The grade of a kernel at a list of places: Paddle Lite's static pick.

After "The kernel selection strategy of Paddle Lite's backends" (yuenshome.github.io, issue 104),
which shows ``KernelGrade``: for the i-th of n places

    score = (n - i) / n * (K [device] + K / 2 [precision] + K / 4 [layout]) * (2 [values])

where K is the largest 32-bit integer and divisions drop the remainder. A term counts if the part in
brackets is equal in place and kernel; `any` equals only itself. Layouts are equal only if the
fields of the places are, too. [values] doubles the score if the precisions of all operands and
results are those that the kernel is registered with. A kernel has the score of its best place, the
first of equal ones. As in the C++ code, the product with the place's weight is one of 32-bit
floats, and its fraction is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tessella.dialects.layout import NCHW, Layout
from tessella.dialects.place import PlaceAttr, parse_place
from tessella.runtime.devices import Fields

K_MAX = (1 << 31) - 1
"""The grade for an equal target, the greatest one, as in Paddle Lite's static kernel pick."""
TARGET_FIRST = 1
"""The divisor of the grade for an equal target, which weighs most."""
PRECISION_FIRST = 1 << 1
"""The divisor of the grade for an equal precision."""
LAYOUT_FIRST = 1 << 2
"""The divisor of the grade for an equal layout."""


@dataclass(frozen=True)
class Grade:
    """A kernel's score, and the place that gave it."""

    score: int
    place: PlaceAttr


def valid_place(text: str) -> PlaceAttr:
    """Parse a place of the user's list. If parts are omitted, the element type is f32, the layout
    is nchw, and what the device defines has its defaults."""
    given = parse_place(text)
    parts = len([part for part in text.split("/") if "=" not in part]) - 1
    return PlaceAttr.get(
        given.device.data,
        given.precision.data if parts >= 1 else "f32",
        given.layout if parts >= 2 else NCHW,
        given.with_defaults.fields,
    )


def place_score(kernel: PlaceAttr, place: PlaceAttr, *, values_match: bool) -> int:
    """Return the score of a kernel at one of the requested places, before it is multiplied by the
    weight of the place's position in the list."""
    score = (
        K_MAX // TARGET_FIRST * (place.device == kernel.device)
        + K_MAX // PRECISION_FIRST * (place.precision == kernel.precision)
        + K_MAX // LAYOUT_FIRST * (_order(place) == _order(kernel))
    )
    return score * 2 if values_match else score


def _order(place: PlaceAttr) -> tuple[Layout, Fields]:
    return place.layout, place.fields


def grade(kernel: PlaceAttr, places: Sequence[PlaceAttr], *, values_match: bool) -> Grade:
    """Return the score of a kernel at its best place.

    ``values_match``: the precisions of the op's operands and results are those that the kernel is
    registered with.
    """
    best, winner, count = np.float32(-1), places[0], len(places)
    for i, place in enumerate(places):
        weight = np.float32(count - i) / np.float32(count)
        score = weight * np.float32(place_score(kernel, place, values_match=values_match))
        if score > best:
            best, winner = score, place
    return Grade(int(best), winner)
