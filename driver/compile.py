"""The entry point of the driver: from a source to a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Unpack

from tessella.driver.build.compiling import Progress, quiet
from tessella.driver.model.in_calls import CompilesInCalls
from tessella.driver.model.model import Model
from tessella.driver.options import CompileOptions, make_options
from tessella.driver.specialise.open_sizes import Dims, check_dims
from tessella.support import deadline
from tessella.support.errors import OptionError

if TYPE_CHECKING:
    from tessella.dialects.graph import Source


def compile_source(
    source: Source,
    *,
    dims: Dims | Literal["auto", "fixed"] = "auto",
    prepare: bool = False,
    progress: Progress | None = None,
    **options: Unpack[CompileOptions],
) -> Model:
    """Compile a frontend's source to a model. ``prepare`` compiles the programs for all size ranges
    ahead of calls.

    Raises TessellaError if an option is invalid, or the source cannot be compiled.
    """
    checked = make_options(**options)
    if progress is not None and not callable(progress):
        raise OptionError(
            "the option 'progress' cannot be called",
            expected="a function of a text, or None",
            found=repr(progress),
        )
    in_calls = CompilesInCalls(expected=0, tells_numpy=True)
    with deadline.within(checked.timeout):
        model = Model(source, checked, progress or quiet, check_dims(dims), in_calls=in_calls)
        if prepare:
            model.prepare()
    return model
