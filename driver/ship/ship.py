"""Compiled programs as artifacts, which run without the compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from tessella import targets
from tessella.driver.build.compiling import Progress, memory_to_compile, quiet
from tessella.driver.cache.stored import compiled, parts
from tessella.driver.model.compilation import subprograms_of
from tessella.driver.model.executable import compile_ahead, compiled_rest, with_subprograms
from tessella.driver.model.model import part_of_model
from tessella.driver.model.subprograms import interfaces, sources, whole
from tessella.driver.options import CheckedOptions
from tessella.driver.specialise.open_sizes import OpenSizes
from tessella.runtime.artifact import Buffer, CompiledModel, CompiledProgram
from tessella.support.conditions import UndecidedSizeError
from tessella.support.errors import OptionError, UnsupportedError
from tessella.support.sizes import Size
from tessella.support.versions import versions
from tessella.targets.table import family_of

if TYPE_CHECKING:
    from tessella.dialects.graph import Source
    from tessella.driver.ship.emit_c import CProgram

Shapes = Mapping[str, tuple[Size, ...]]
"""The shapes of all inputs, by name."""


def ship(
    source: Source,
    choices: Sequence[CheckedOptions],
    shapes: Sequence[Shapes],
    progress: Progress = quiet,
) -> Sequence[Buffer]:
    """Return an artifact with a program for each combination of ``choices``, options that differ by
    target, and ``shapes``.

    Any machine can generate code for any other. Raises TessellaError if a program cannot be
    compiled or stored.
    """
    pairs = product(choices, shapes)
    programs = [_program(source, options, each, progress) for options, each in pairs]
    return parts(CompiledModel(source.inputs, source.outputs, programs))


def ship_ranges(
    source: Source,
    choices: Sequence[CheckedOptions],
    sizes: OpenSizes,
    progress: Progress = quiet,
) -> Sequence[Buffer]:
    """Return an artifact with programs for all sizes within the bounds of dynamic dimensions.

    Raises OptionError if a program cannot leave them symbolic.
    """
    programs = [each for o in choices for each in _ranges(source, o, sizes, progress)]
    return parts(CompiledModel(source.inputs, source.outputs, programs))


def _ranges(
    source: Source,
    options: CheckedOptions,
    sizes: OpenSizes,
    progress: Progress,
) -> Sequence[CompiledProgram]:
    names = [info.name for info in source.inputs]
    made: dict[Sequence[tuple[Size, ...]], CompiledProgram] = {}
    while missing := [each for each in sizes.versions() if each not in made]:
        own = replace(options, several=sizes.is_one_of_several(missing[0]))
        shapes = dict(zip(names, missing[0], strict=True))
        try:
            made[missing[0]] = _program(source, own, shapes, progress)
        except (UndecidedSizeError, UnsupportedError) as error:
            if not sizes.narrow(missing[0], error) or sizes.closed():
                raise OptionError(
                    "some sizes cannot stay open in programs",
                    found="; ".join(sizes.closed()) or error.what,
                    hint="--shape, once for each shape, compiles them as numbers",
                ) from error
    found = [made[each] for each in sizes.versions()]
    if not found:
        raise OptionError("no sizes are within all bounds of the open dimensions")
    return found


def ship_c(
    name: str,
    source: Source,
    options: CheckedOptions,
    shapes: Mapping[str, tuple[int, ...]],
    progress: Progress = quiet,
    weights: str = "object",
) -> CProgram:
    """Return a C header and an object. The names of their functions begin with ``name``.

    ``weights`` is ``object`` to store weights in the object, or ``file`` to store them in a
    separate file. Raises TessellaError if the program cannot be compiled, or has steps that are not
    native.
    """
    from tessella.driver.build.build import build
    from tessella.driver.ship.emit_c import emit_c

    with memory_to_compile():
        graph = whole(source.graph(shapes))
        program = build(graph, options, progress, bare=True).program
    sizes = [shapes[info.name] for info in source.inputs]
    target = targets.resolve(options.target)
    machine = " ".join([target.name, *target.features])
    made = {"target": machine, "versions": versions(), "weights": weights}
    return emit_c(
        name, program, source.inputs, source.outputs, sizes, family=family_of(target), **made
    )


def _program(
    source: Source,
    options: CheckedOptions,
    shapes: Shapes,
    progress: Progress,
) -> CompiledProgram:
    from tessella.driver.build.build import build
    from tessella.driver.explain.explain import explain
    from tessella.driver.explain.work import work_of

    with memory_to_compile():
        graph = source.graph(shapes)
        built = build(graph, options, progress)
        built.lowered.weights.keep(set())
        explanation = explain(built.lowered.stages)
        work = work_of(built.lowered.stages, built.lowered.target)
    rest = None
    running = subprograms_of(interfaces(graph), sources(graph), options, part_of_model)
    if running is not None:
        missing = compile_ahead(running)
        if missing:
            raise OptionError(
                "the model's program is cut, and not all of it can be compiled ahead of a call",
                found="; ".join(missing),
                hint="compile it in Python, call it with such inputs, and then `model.save`",
            )
        explanation = with_subprograms(explanation, running)
        rest = compiled_rest(running)
    made = [shapes[info.name] for info in source.inputs]
    return compiled(made, {}, built.program, options, explanation, work, rest)
