"""The entry of the driver: a source in, a model out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tessella import targets
from tessella.dialects.graph import Source
from tessella.dialects.place import parse_place
from tessella.driver.build import Progress, quiet
from tessella.driver.model import Model
from tessella.driver.pipeline import Options
from tessella.passes.pick_kernels import FALLBACKS, STRATEGIES, check_choice
from tessella.support.errors import OptionError

_TYPES: Mapping[str, type[Any]] = {"target": str, "threads": int, "pick": str, "fallback": str}


def make_options(
    places: Sequence[str] | None = None,
    target: str | None = None,
    threads: int | None = None,
    *,
    pick: str | None = None,
    fallback: str | None = None,
) -> Options:
    """Checked options. Raises OptionError.

    The default places are those of the machine: channels-last f32 first, then any, then NumPy. The
    default pick is `cost`, and fallbacks are allowed.
    """
    given = {"target": target, "threads": threads, "pick": pick, "fallback": fallback}
    _check_types({name: value for name, value in given.items() if value is not None})
    if threads not in (None, 1):
        raise OptionError(
            "programs run on one thread so far", expected="threads=1", found=f"threads={threads}"
        )
    machine = targets.host() if target in (None, "host") else targets.get(target)
    arch = machine.arch
    default = (f"{arch}/f32/nhwc", f"{arch}/f32", arch, "host")
    options = Options(
        default if places is None else _checked_places(places),
        "host" if target is None else target,
        arch,
        "cost" if pick is None else pick,
        "allow" if fallback is None else fallback,
    )
    check_choice("pick", options.pick, STRATEGIES)
    check_choice("fallback", options.fallback, FALLBACKS)
    return options


def _check_types(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if not isinstance(value, _TYPES[name]) or isinstance(value, bool):
            raise OptionError(
                f"the option {name!r} has the wrong type",
                expected=f"{_TYPES[name].__name__}, or None for the default",
                found=f"{value!r} of type {type(value).__name__}",
            )


def _checked_places(places: Sequence[str]) -> tuple[str, ...]:
    """The places, each of which there is. Raises OptionError."""
    is_list = isinstance(places, Sequence)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not is_list or isinstance(places, str | bytes) or not places:
        raise OptionError(
            "the places are given as a list, preferred first",
            expected="at least one, such as ['x86/f32/nhwc', 'host']; None for the default",
            found=f"{places!r} of type {type(places).__name__}",
        )
    for text in places:
        parse_place(text)
    return tuple(places)


def compile_source(
    source: Source,
    *,
    places: Sequence[str] | None = None,
    target: str | None = None,
    threads: int | None = None,
    pick: str | None = None,
    fallback: str | None = None,
    progress: Progress | None = None,
) -> Model:
    """Compile what a frontend gives. Raises TessellaError."""
    options = make_options(places, target, threads, pick=pick, fallback=fallback)
    if progress is not None and not callable(progress):
        raise OptionError(
            "the option 'progress' cannot be called",
            expected="a function of a text, or None",
            found=repr(progress),
        )
    return Model(source, options, progress or quiet)
