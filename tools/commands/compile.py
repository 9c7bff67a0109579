"""`tessella compile`: lower a model to a stage, and write that. Nothing is run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tessella.driver.build import StagedProgram, as_text, lower
from tessella.driver.stage_file import save_stage, weights_path
from tessella.driver.stages import IR_STAGES, STAGES
from tessella.frontends.compile import open_source
from tessella.support.errors import OptionError
from tessella.tools.commands.shared import (
    add_model,
    add_options,
    add_time_passes,
    add_values,
    check_stage_ahead,
    open_graph,
    options_of,
    print_times,
)
from tessella.tools.progress import shown

EPILOG = """\
  tessella compile model.onnx --to nn                 model.nn, and model.weights beside it
  tessella compile model.onnx --to asm --target avx2 -o -
  tessella compile model.onnx --to loops --time-passes -vv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_model(parser)
    add_values(parser)
    parser.add_argument("--to", choices=STAGES, default="tile", help="the stage (tile)")
    parser.add_argument(
        "-o",
        dest="output",
        metavar="FILE",
        help="where to write; - for standard output; MODEL's name with the stage as extension",
    )
    add_time_passes(parser)
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Write the stage: text, and the weights beside it where the stage can be loaded again."""
    output: str = args.output or f"{Path(args.model).stem}.{args.to}"
    if Path(output).resolve() == Path(args.model).resolve():
        raise OptionError("this would overwrite the model", where=output, hint="-o names the file")
    options = options_of(args)
    graph = open_graph(open_source(args.model), args)
    check_stage_ahead(graph, args.to)
    stop = min(args.to, IR_STAGES[-1], key=STAGES.index)
    with shown(wanted=not args.verbose) as progress:
        lowered = lower(graph, options, start=graph.stage, stop=stop, progress=progress)
    if args.time_passes:
        print_times(lowered.timings)
    if output == "-":
        sys.stdout.write(as_text(lowered, args.to))
    else:
        _write(lowered, args.to, Path(output))
    return 0


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
