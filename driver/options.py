"""What a program is compiled for: the options of users, checked and filled in once."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

from tessella import targets
from tessella.passes.pick.places import default_places
from tessella.support import disk
from tessella.support.errors import OptionError
from tessella.support.names import did_you_mean
from tessella.targets import database, threads


class CompileOptions(TypedDict, total=False):
    """The options that ``tessella.compile``, ``jit``, ``tile`` and ``ops`` share.

    An option that is None or not given has its default.
    """

    places: Sequence[str] | None
    """Where kernels may run; by default on the target, then in NumPy. Their order decides between
    similar costs."""
    target: str | None
    """The machine to compile for; by default ``native``, which is this machine."""
    threads: int | None
    """How many threads run a program, with the one that calls it; the default is that of
    ``targets.threads``."""
    pick: str | None
    """How kernels are picked: ``cost``, the default, ``grade``, or ``measure``: by cost, after
    kernels were measured on this machine."""
    database: str | None
    """The file of times that were measured, which count instead of estimates; by default that which
    TESSELLA_DB names."""
    budget: float | None
    """Seconds that ``pick="measure"`` may take at the most; 30 by default."""
    fallback: str | None
    """``allow``, the default; ``error`` refuses ops that no kernel at the places can run."""
    winograd: str | None
    """``allow``, the default; ``off`` refuses Winograd's method, whose rounding errors are up to
    four times those of direct convolutions."""
    timeout: float | None
    """Seconds that a compilation may take; None, the default, for any. A longer one is a
    CompileTimeoutError."""
    max_weight_growth: float | None
    """How many times as large as in the model weights may become in memory; the default is 2. Few
    weights count as many as the last level of cache holds."""


@dataclass(frozen=True)
class Options:
    """What the pipeline depends on; ``make_options`` checks what users ask for."""

    places: tuple[str, ...]
    target: str
    """The name of a machine in ``targets``."""
    arch: str
    """The target part of its places."""
    pick: str = "cost"
    """The strategy of the static pick: `cost`, `grade` or `measure`."""
    fallback: str = "allow"
    """`error` refuses ops that no kernel at the requested places can run."""
    winograd: str = "allow"
    """`off` refuses Winograd's method."""
    max_weight_growth: float = 2.0
    """How many times as large weights may become."""
    database: str = ""
    """The file of times that were measured, if there is one."""
    several: bool = False
    """Whether there are several programs for ranges of sizes, which share packed weights."""
    budget: float = field(default=30.0, repr=False, compare=False)
    """Seconds to measure kernels in, at the most."""
    timeout: float | None = field(default=None, repr=False, compare=False)
    """Seconds that a compilation may take."""
    threads: int = field(default=1, repr=False, compare=False)
    """How many threads run a program, which is the same for any number."""


_TYPES: Mapping[str, tuple[type[Any], ...]] = {
    **dict.fromkeys(("target", "pick", "fallback", "database", "winograd"), (str,)),
    "threads": (int,),
    "budget": (int, float),
    "timeout": (int, float),
    "max_weight_growth": (int, float),
}
_DEFAULTS: Mapping[str, Any] = {
    "target": "native",
    "pick": "cost",
    "fallback": "allow",
    "winograd": "allow",
    "max_weight_growth": 2.0,
    "budget": 30.0,
}
_CHECKED = ("pick", "fallback", "places", "winograd")
"""Options whose values the compiler knows."""


def make_options(**options: Unpack[CompileOptions]) -> Options:
    """Checked options. Raises OptionError."""
    _check_names(options)
    given: dict[str, Any] = {k: v for k, v in options.items() if v is not None}
    _check_types(given)
    values: dict[str, Any] = {**_DEFAULTS, **given}
    count = values.get("threads")
    count = threads.default() if count is None else threads.check(count, "the option 'threads'")
    arch = targets.resolve(values["target"]).arch
    places = values.get("places", default_places(arch))
    if not given.keys().isdisjoint(_CHECKED):
        _check_values(values, places)
    names = ("pick", "fallback", "winograd")
    return Options(
        tuple(places),
        values["target"],
        arch,
        **{name: values[name] for name in names},
        max_weight_growth=_checked_growth(values["max_weight_growth"]),
        database=values.get("database") or _database(values["pick"]),
        budget=_checked_budget(values["budget"]),
        timeout=_checked_timeout(values.get("timeout")),
        threads=count,
    )


def check_machine(options: Options) -> None:
    """Raise OptionError if this machine cannot run the code."""
    target = targets.resolve(options.target)
    if not targets.can_run(target):
        raise OptionError(
            f"this machine cannot run code for {target.name}",
            hint="inspect it with as_text(), or compile with target='native'; `tessella compile -o "
            "FILE.tsl` writes code for other machines",
        )


def _database(pick: str) -> str:
    """The file of times where no option names one. Raises OptionError if there must be one."""
    named = os.environ.get(database.KNOB, "")
    if named or pick != "measure":
        return named
    home = disk.home()
    if home is None:
        raise OptionError(
            "nothing says where measured times are kept",
            expected=f"the option 'database' or {database.KNOB}, as TESSELLA_CACHE is off",
        )
    return str(home / "times.json")


def _checked_budget(seconds: float) -> float:
    if not 0 <= seconds < math.inf:
        raise OptionError("a budget is a number of seconds", found=repr(seconds))
    return float(seconds)


def _checked_timeout(seconds: float | None) -> float | None:
    if seconds is not None and not 0 < seconds < math.inf:
        raise OptionError(
            "the option 'timeout' is out of range",
            expected="a number of seconds above 0, or None for no deadline",
            found=repr(seconds),
        )
    return seconds


def _check_names(options: Mapping[str, Any]) -> None:
    known = list(CompileOptions.__annotations__)
    for name in options:
        if name not in known:
            raise OptionError(
                f"there is no option {name!r}",
                expected=f"some of {', '.join(known)}",
                hint=did_you_mean(name, known),
            )


def _check_types(given: Mapping[str, Any]) -> None:
    for name, types in _TYPES.items():
        value = given.get(name)
        if value is not None and (not isinstance(value, types) or isinstance(value, bool)):
            raise OptionError(
                f"the option {name!r} has the wrong type",
                expected=f"{types[-1].__name__}, or None for the default",
                found=f"{value!r} of type {value.__class__.__name__}",
            )


def _checked_growth(growth: float) -> float:
    """How many times as large weights may become. Raises OptionError."""
    if not growth >= 1:
        raise OptionError(
            "the option 'max_weight_growth' is out of range",
            expected="a number of 1 or more",
            found=str(growth),
        )
    return float(growth)


def _check_values(values: Mapping[str, Any], places: Sequence[str]) -> None:
    """Raise OptionError for a value that is not known."""
    # here, as it is all that needs the compiler
    from tessella.dialects.place import parse_place
    from tessella.passes.pick_kernels import FALLBACKS, METHODS, STRATEGIES, check_choice

    known = {"pick": STRATEGIES, "fallback": FALLBACKS, "winograd": METHODS}
    for name, choices in known.items():
        check_choice(name, values[name], choices)
    is_list = isinstance(places, Sequence)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not is_list or isinstance(places, str | bytes) or not places:
        raise OptionError(
            "places must be given as a list",
            expected="at least one, such as ['x86/f32/nhwc', 'host']; None for the default",
            found=f"{places!r} of type {type(places).__name__}",
        )
    for text in places:
        parse_place(text)
