"""The options of the pick: their values and defaults."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, get_args

from tessella.support.errors import OptionError

Strategy = Literal["cost", "grade", "measure"]
Fallback = Literal["allow", "error"]

STRATEGIES: Sequence[str] = get_args(Strategy)
FALLBACKS: Sequence[str] = get_args(Fallback)

WEIGHT_GROWTH = 2.0
"""The default limit on the growth of a program's weights, as a factor."""


def default_places(device: str) -> tuple[str, ...]:
    """Return a CPU's places by default: channels-last f32 first, then any layout, then NumPy."""
    return f"{device}/f32/nhwc", f"{device}/f32", device, "host"


KERNELS_KNOB = "TESSELLA_KERNELS"
"""The environment variable with the default of the option ``kernels``."""
_PIN = re.compile(r"(?P<name>.+?)=(?P<pin>(?:[^=]*,)?kernel=[^=]+|[^=]+)", re.DOTALL)


def split_pin(text: str) -> tuple[str, str]:
    """Return the name and the pin of a text such as `Conv_12=x86/f32/nchw,kernel=conv`. Raises
    OptionError."""
    found = _PIN.fullmatch(text)
    if found is None:
        raise OptionError(
            "cannot read a pin",
            expected="NAME=PLACE, NAME=kernel=KERNEL, or NAME=PLACE,kernel=KERNEL",
            found=repr(text),
        )
    return found["name"], found["pin"]


def check_choice(option: str, value: object, known: Sequence[str]) -> None:
    """Raise OptionError for an unknown value."""
    if value not in known:
        raise OptionError(f"unknown {option} {value!r}", expected=f"one of {', '.join(known)}")
