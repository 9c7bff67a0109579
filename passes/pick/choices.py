"""The values of the options that say how kernels are picked."""

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
"""How many times as large kernels may make a program's weights, by default."""


def check_choice(option: str, value: object, known: Sequence[str]) -> None:
    """Raise OptionError for an unknown value."""
    if value not in known:
        raise OptionError(f"there is no {option} {value!r}", expected=f"one of {', '.join(known)}")
