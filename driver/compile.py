"""The entry of the driver: a source in, a model out."""

from __future__ import annotations

from collections.abc import Sequence

from tessella import targets
from tessella.dialects.graph import Source
from tessella.dialects.place import parse_place
from tessella.driver.build import Progress, quiet
from tessella.driver.model import Model
from tessella.driver.pipeline import Options
from tessella.passes.pick_kernels import FALLBACKS, STRATEGIES, check_choice
from tessella.support.errors import OptionError


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
    if threads not in (None, 1):
        raise OptionError(
            "programs run on one thread so far", expected="threads=1", found=f"threads={threads}"
        )
    machine = targets.host() if target in (None, "host") else targets.get(target)
    arch = machine.arch
    chosen = tuple(places or (f"{arch}/f32/nhwc", f"{arch}/f32", arch, "host"))
    for text in chosen:
        parse_place(text)
    options = Options(chosen, target or "host", arch, pick or "cost", fallback or "allow")
    check_choice("pick", options.pick, STRATEGIES)
    check_choice("fallback", options.fallback, FALLBACKS)
    return options


def compile_source(
    source: Source,
    *,
    places: Sequence[str] | None = None,
    target: str | None = None,
    threads: int | None = None,
    pick: str | None = None,
    fallback: str | None = None,
    progress: Progress = quiet,
) -> Model:
    """Compile what a frontend gives. Raises TessellaError."""
    options = make_options(places, target, threads, pick=pick, fallback=fallback)
    return Model(source, options, progress)
