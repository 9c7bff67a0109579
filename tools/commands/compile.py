"""`tessella compile`: write a model as an artifact, or at a stage. Nothing is run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

from xdsl.passes import ModulePass

from tessella.codegen.semtree.languages import LANGUAGES
from tessella.dialects.graph import Source
from tessella.driver.build.build import StagedProgram, as_text, lower
from tessella.driver.build.pipeline import pipeline
from tessella.driver.build.pipeline_text import pipeline_text
from tessella.driver.ship.c_header import WEIGHTS
from tessella.driver.ship.kernels import emit_kernels
from tessella.driver.ship.ship import ship, ship_c, ship_ranges
from tessella.driver.stages.stage_file import save_stage, weights_path
from tessella.driver.stages.stages import ARTIFACT, IR_STAGES, STAGES, stage_of
from tessella.runtime import loaded
from tessella.support import deadline
from tessella.support.errors import OptionError
from tessella.tools.commands.dims import open_graph, open_sizes
from tessella.tools.commands.shared import (
    add_model,
    add_options,
    add_time_passes,
    add_values,
    check_stage_ahead,
    missing_shape,
    opened,
    options_of,
    print_times,
    shapes_of,
)
from tessella.tools.commands.useless import SAME_CODE, Useless
from tessella.tools.print_ir import PRINT_IR, IrPrinter, add_print_ir
from tessella.tools.progress import shown

EPILOG = """\
  tessella compile model.onnx -o model.tsl --target avx512,avx2,neon --shape x=1x3x224x224
                                                       an artifact for three machines
  tessella compile model.onnx -o model.tsl --dim batch=1..64 --dim seq=1..512
                                                       programs for ranges of sizes
  tessella compile model.onnx --emit c -o model.o      model.o, and model.h beside it
  tessella compile model.onnx --emit opencl            the kernels of opencl/f32 in OpenCL C
  tessella compile model.onnx --emit spirv -o model.spv
                                                       the same kernels as a binary module
  tessella compile model.onnx --to nn                 model.nn, and model.weights beside it
  tessella compile model.onnx --to asm --target avx2 -o -
  tessella compile model.onnx --to loops --time-passes -vv
"""

_KERNELS_OF = "opencl"
"""The device that these kernels are for, unless --places names another one."""

USELESS = (
    SAME_CODE,
    Useless(
        ("to", "time_passes", "print_pipeline", *PRINT_IR),
        lambda args: args.emit is not None or Path(args.output or "").suffix == ARTIFACT,
        "neither an artifact nor code for C or a device is at a stage",
        "-o FILE.STAGE writes a stage",
    ),
    Useless(
        ("weights",),
        lambda args: args.emit != "c",
        "only code for C has its weights in an object or in a file",
        "add --emit c",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_model(parser)
    add_values(parser)
    parser.add_argument(
        "--to", choices=STAGES, help="the stage (that of -o's extension; without -o, tile)"
    )
    parser.add_argument(
        "-o",
        dest="output",
        metavar="FILE",
        help="where to write; - for standard output; MODEL's name with the stage as extension. One "
        "that ends in .tsl is an artifact: it has code for all targets of --target A,B, and a "
        "program for each shape where --shape gives several of an input",
    )
    parser.add_argument(
        "--emit",
        choices=("c", *LANGUAGES),
        help="c: write an object file, which -o names, and a header for C; others: write the "
        "kernels at places on opencl in OpenCL C, CUDA C or SPIR-V, or as a tree for readers, to "
        "standard output or to -o",
    )
    parser.add_argument(
        "--weights",
        choices=WEIGHTS,
        default="object",
        help="where the weights are for C: in the object, or in a file beside it (object)",
    )
    parser.add_argument(
        "--print-pipeline",
        action="store_true",
        help="print the passes that lead to the stage, as `tessella-opt -p` takes them, and stop",
    )
    add_print_ir(parser)
    add_time_passes(parser)
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Write an artifact, a program for C, or a stage: its text, and the weights beside it if the
    stage can be loaded again. Returns 0."""
    with deadline.within(args.timeout):
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    if args.emit == "c":
        return _emit_c(args, Path(args.output or f"{Path(args.model).stem}.o"))
    if args.emit is not None:
        return _emit_kernels(args, args.emit)
    if Path(args.output or "").suffix == ARTIFACT:
        return _ship(args, Path(args.output))
    stage = _stage(args)
    if args.print_pipeline:
        print(pipeline_text(_steps(args, stage_of(args.model) or IR_STAGES[0], stage)))
        return 0
    output: str = args.output or f"{Path(args.model).stem}.{stage}"
    if Path(output).resolve() == Path(args.model).resolve():
        raise OptionError("this would overwrite the model", where=output, hint="-o names the file")
    options = options_of(args)
    graph = open_graph(opened(args), args)
    check_stage_ahead(graph.stage, stage)
    stop = min(stage, IR_STAGES[-1], key=STAGES.index)
    printer = IrPrinter(args, _steps(args, graph.stage, stage))
    with shown(wanted=not args.verbose) as progress:
        lowered = lower(
            graph, options, start=graph.stage, stop=stop, progress=progress, observer=printer
        )
    if args.time_passes:
        print_times(lowered.timings)
    if output == "-":
        sys.stdout.write(as_text(lowered, stage))
    else:
        _write(lowered, stage, Path(output))
    return 0


def _stage(args: argparse.Namespace) -> str:
    """Return the stage to write: --to, or the extension of -o."""
    named = Path(args.output or "").suffix[1:]
    if args.to is not None:
        if named in STAGES and named != args.to:
            raise OptionError(f"--to {args.to} does not fit the extension", where=args.output)
        return args.to
    if args.output in (None, "-"):
        return "tile"
    if named not in STAGES:
        raise OptionError(
            "the extension does not say what to write",
            where=args.output,
            expected=", ".join((ARTIFACT, *(f".{each}" for each in STAGES))),
            hint="--to names a stage",
        )
    return named


def _steps(args: argparse.Namespace, start: str, stop: str) -> Sequence[ModulePass]:
    """Return the passes that lead from one stage to another."""
    check_stage_ahead(start, stop)
    leading = IR_STAGES[IR_STAGES.index(start) + 1 : STAGES.index(stop) + 1]
    stages = pipeline(options_of(args))
    return [step for stage, steps in stages if stage in leading for step in steps]


def _emit_c(args: argparse.Namespace, path: Path) -> int:
    """Write a program for C: an object, a header and, if requested, a file of weights. Returns
    0."""
    if path.suffix != ".o":
        raise OptionError(
            "-o names the object for C", where=str(path), expected="a name that ends in .o"
        )
    source = opened(args)
    if args.dim:
        raise OptionError("code for C has one size of each dimension", hint="--shape gives it")
    shapes, *others = _made_for(args, source)
    if others:
        raise OptionError("code for C has one program", found=f"{1 + len(others)} sets of shapes")
    with shown(wanted=not args.verbose) as progress:
        made = ship_c(path.stem, source, options_of(args), shapes, progress, args.weights)
    written = {".o": made.object, ".h": made.header.encode(), ".weights": made.weights}
    paths = {path.with_suffix(kind): data for kind, data in written.items() if data is not None}
    for each, data in paths.items():
        loaded.write(each, [data])
    print("wrote", " and ".join(map(str, paths)))
    return 0


def _emit_kernels(args: argparse.Namespace, language: str) -> int:
    """Write the kernels of a device in a language. Returns 0."""
    args.places = args.places or [f"{_KERNELS_OF}/f32", "host"]
    graph, options = open_graph(opened(args), args), options_of(args)
    with shown(wanted=not args.verbose) as progress:
        made = emit_kernels(graph, options, language, progress)
    if args.output in (None, "-"):
        sys.stdout.write(made.text())
    else:
        loaded.write(Path(args.output), [made.file()])
        print(f"wrote {args.output}")
    return 0


def _made_for(args: argparse.Namespace, source: Source) -> Sequence[Mapping[str, tuple[int, ...]]]:
    """Return the shapes of all inputs for each program that the command line requests. Raises
    InputError if a shape is missing."""
    shapes = [shapes_of(source.inputs, each) for each in _sets(args.shape)]
    for info, known in product(source.inputs, shapes):
        if info.name not in known:
            raise missing_shape(info)
    return shapes


def _ship(args: argparse.Namespace, path: Path) -> int:
    """Write an artifact to ``path``, with programs for all targets and sizes on the command line.
    Returns 0."""
    source = opened(args)
    names: Sequence[str | None] = args.target.split(",") if args.target else [None]
    choices = [options_of(args, target=name) for name in names]
    with shown(wanted=not args.verbose) as progress:
        if args.dim:
            sizes = open_sizes(args, source)
            parts = ship_ranges(source, choices, sizes, progress)
        else:
            parts = ship(source, choices, _made_for(args, source), progress)
    loaded.write(path, parts)
    print(f"wrote {path}")
    return 0


def _sets(options: Sequence[str]) -> Sequence[Sequence[str]]:
    """Return the options ``--shape`` of each program.

    The first program takes the first option of each input, the second program the second, and so
    on; an input's last option is repeated.
    """
    by_input: dict[str, list[str]] = {}
    for option in options:
        by_input.setdefault(option.partition("=")[0], []).append(option)
    count = max(map(len, by_input.values()), default=1)
    return [[each[min(i, len(each) - 1)] for each in by_input.values()] for i in range(count)]


def _write(lowered: StagedProgram, stage: str, path: Path) -> None:
    if stage not in IR_STAGES:
        try:
            path.write_text(as_text(lowered, stage), encoding="utf-8")
        except OSError as error:
            raise OptionError(f"cannot write: {error}", where=str(path)) from error
        print(f"wrote {path}")
        return
    save_stage(path, lowered.stages[stage], lowered.weights)
    weights = f" and {weights_path(path)}" if weights_path(path).exists() else ""
    print(f"wrote {path}{weights}")
