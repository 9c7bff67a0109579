"""The options of the pick: their values and defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from tessella.support.errors import OptionError

Strategy = Literal["cost", "grade", "measure"]
Fallback = Literal["allow", "error"]
Winograd = Literal["allow", "off"]

STRATEGIES: Sequence[str] = get_args(Strategy)
FALLBACKS: Sequence[str] = get_args(Fallback)
METHODS: Sequence[str] = get_args(Winograd)

WEIGHT_GROWTH = 2.0
"""The default limit on the growth of a program's weights, as a factor."""


def default_places(device: str) -> tuple[str, ...]:
    """Return a CPU's places by default: channels-last f32 first, then any layout, then NumPy."""
    return f"{device}/f32/nhwc", f"{device}/f32", device, "host"


def check_choice(option: str, value: object, known: Sequence[str]) -> None:
    """Raise OptionError for an unknown value."""
    if value not in known:
        raise OptionError(f"unknown {option} {value!r}", expected=f"one of {', '.join(known)}")
