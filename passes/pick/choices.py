"""The options of the pick: their values and defaults."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, get_args

from tessella.support.errors import OptionError

Strategy = Literal["cost", "grade", "measure"]
Fallback = Literal["allow", "error"]

STRATEGIES: Sequence[str] = get_args(Strategy)
FALLBACKS: Sequence[str] = get_args(Fallback)

WEIGHT_GROWTH = 2.0
"""The default limit on the growth of a program's weights, as a factor."""


PLACES: Mapping[str, Sequence[str]] = {
    "default": ("cpu/f32/nhwc", "cpu/f32", "cpu", "host"),
    "mixed": ("cpu/bf16/nhwc", "cpu/bf16", "cpu/f32/nhwc", "cpu/f32", "cpu", "host"),
    "mobile": ("cpu/f16/nhwc", "cpu/f16", "cpu/f32/nhwc", "cpu/f32", "cpu", "host"),
    "numpy": ("host",),
}
"""Lists of places by name; `cpu` stands for the target's CPU.

`default` has channels-last f32 first, then any layout, then NumPy. `mixed` and `mobile` prefer a
narrow float to that.
"""


def at_cpu(places: Iterable[str], arch: str) -> tuple[str, ...]:
    """Return the places of a list, such as `cpu/f32/nhwc`, with the architecture ``arch`` in place
    of the device `cpu`."""
    return tuple(re.sub(r"^cpu\b", arch, place) for place in places)


def default_places(arch: str) -> tuple[str, ...]:
    """Return the places of a CPU by default."""
    return at_cpu(PLACES["default"], arch)


KERNELS_KNOB = "TESSELLA_KERNELS"
"""The environment variable with the default of the option ``kernels``."""
_PLACE = r"[^=]+?(?:/\w+=\w+)*"
"""The syntax of a place: its parts, divided by `/`, and its device-defined fields, as
`name=value`."""
_PIN = re.compile(rf"(?P<name>.+?)=(?P<pin>(?:{_PLACE},)?kernel=[^=]+|{_PLACE})", re.DOTALL)


def split_pin(text: str) -> tuple[str, str]:
    """Return the name and the pin of a text such as `Conv_12=x86/f32/nchw,kernel=conv`. Raises
    OptionError for a text of another form."""
    found = _PIN.fullmatch(text)
    if found is None:
        raise OptionError(
            "cannot read a pin",
            expected="NAME=PLACE, NAME=kernel=KERNEL, or NAME=PLACE,kernel=KERNEL",
            found=repr(text),
        )
    return found["name"], found["pin"]


def autocast_rows(lists: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return lists of names by precision as pins: `nn.exp=any/f32`."""
    return tuple(f"{name}=any/{precision}" for precision in lists for name in lists[precision])


def split_list(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the precision and the names of a text such as `f32=nn.exp,nn.log`. Raises OptionError
    for a text of another form."""
    precision, equals, names = text.partition("=")
    if not (precision and equals and all(names.split(","))):
        raise OptionError(
            "cannot read a list for autocast", expected="PRECISION=NAME,NAME", found=repr(text)
        )
    return precision, tuple(names.split(","))


def check_choice(option: str, value: object, known: Sequence[str]) -> None:
    """Raise OptionError for an unknown value."""
    if value not in known:
        raise OptionError(f"unknown {option} {value!r}", expected=f"one of {', '.join(known)}")
