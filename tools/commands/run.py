"""`tessella run`: compile a model, run it once, and show or check its outputs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from tessella.dialects.graph import Graph, Source
from tessella.dialects.interpret import interpret
from tessella.dialects.nn.core import Array
from tessella.driver.build.build import lower
from tessella.driver.build.compiling import Progress
from tessella.driver.model.model import Model
from tessella.driver.model.subprograms import whole
from tessella.driver.specialise.by_value import specialised
from tessella.driver.stages.stages import ARTIFACT, IR_STAGES
from tessella.frontends.compile import open_source
from tessella.runtime.loaded import LoadedModel, load
from tessella.support import disk
from tessella.support.errors import OptionError
from tessella.tools.commands.arrays import (
    read_array,
    summary,
    write_array,
)
from tessella.tools.commands.compare import add_tolerance, beyond_rounding
from tessella.tools.commands.dims import check_one_size, openness_of
from tessella.tools.commands.inputs import add_inputs, feeds_of
from tessella.tools.commands.shared import (
    add_model,
    add_options,
    add_time_passes,
    assignments,
    check_stage_ahead,
    options_of,
    print_times,
)
from tessella.tools.commands.useless import COMPILED, Useless
from tessella.tools.progress import shown

EPILOG = """\
  tessella run model.onnx --shape x=1x3x224x224
  tessella run model.onnx --input x=@x.npy --output y=@y.npy
  tessella run model.onnx --expected y=@y.npy        exit code 1 where it differs
  tessella run model.onnx --interpret tile           NumPy runs the statements
  tessella run model.onnx --time-passes              where the time of compiling goes
"""

INTERPRETED = IR_STAGES[:3]
"""The stages that NumPy can run."""


USELESS = (
    COMPILED,
    Useless(
        ("tolerance",),
        lambda args: not args.expected,
        "nothing is compared",
        "--expected NAME=@FILE.npy says what an output must be",
    ),
    Useless(
        ("threads",),
        lambda args: args.interpret is not None,
        "NumPy runs the stage, on one thread",
        "leave --interpret out to run native code on threads",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_model(parser)
    add_inputs(parser)
    parser.add_argument(
        "--output",
        action="append",
        default=[],
        metavar="NAME=@FILE.npy",
        help="write an output to a file",
    )
    parser.add_argument(
        "--expected",
        action="append",
        default=[],
        metavar="NAME=@FILE.npy",
        help="the expected value of an output; if it differs, the exit code is 1",
    )
    add_tolerance(parser)
    parser.add_argument(
        "--interpret",
        choices=INTERPRETED,
        metavar="STAGE",
        help=f"lower no further than to this stage ({', '.join(INTERPRETED)}), and run that in "
        "NumPy: ops by their NumPy kernels, statements point by point",
    )
    add_time_passes(parser)
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Return 0, or 1 if an output differs from the expected one."""
    with disk.off() if args.time_passes else nullcontext():
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    source = _opened(args)
    names = [info.name for info in source.outputs]
    files = _files("--output", args.output, names)
    wanted = {n: read_array(f) for n, f in _files("--expected", args.expected, names).items()}
    feeds = feeds_of(source.inputs, args)
    outputs = dict(zip(names, _outputs(source, feeds, args), strict=True))
    for name, array in outputs.items():
        print(f"{name}: {summary(array)}")
    for name, file in files.items():
        write_array(file, outputs[name])
    differences = {
        name: beyond_rounding(outputs[name], expected, args.tolerance)
        for name, expected in wanted.items()
    }
    for name, text in differences.items():
        print(f"{name}: as expected" if text is None else f"{name}: {text}")
    return int(any(text is not None for text in differences.values()))


def _opened(args: argparse.Namespace) -> Source | LoadedModel:
    if Path(args.model).suffix != ARTIFACT:
        return open_source(args.model)
    return load(args.model, threads=args.threads)


def _outputs(
    source: Source | LoadedModel, feeds: Mapping[str, Array], args: argparse.Namespace
) -> Sequence[Array]:
    with shown(wanted=not args.verbose) as progress:
        if isinstance(source, LoadedModel):
            outputs, timings = source.run(None, feeds), dict[str, float]()
        elif args.interpret is None:
            model = Model(source, options_of(args), progress, openness_of(args))
            outputs, timings = model.run(None, feeds), model.timings
        else:
            outputs, timings = _interpreted(source, feeds, args, progress)
    if args.time_passes:
        print_times(timings)
    return outputs


def _interpreted(
    source: Source, feeds: Mapping[str, Array], args: argparse.Namespace, progress: Progress
) -> tuple[Sequence[Array], Mapping[str, float]]:
    """Lower the source to the stage of ``--interpret``, and interpret it in NumPy. Returns the
    outputs, and the seconds of the passes."""
    check_one_size(args)
    graph, taken = specialised(source, feeds)
    whole(graph)
    stage: str = args.interpret
    check_stage_ahead(graph.stage, stage)
    lowered = lower(graph, options_of(args), start=graph.stage, stop=stage, progress=progress)
    return interpret(Graph(lowered.stages[stage], lowered.weights, stage), taken), lowered.timings


def _files(option: str, texts: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Return the files that ``option`` names, by output name. Raises OptionError."""
    given = assignments(option, texts, names)
    for name, value in given.items():
        if not value.startswith("@"):
            raise OptionError(
                f"cannot read {option} {name}={value}", expected=f"{option} {name}=@FILE.npy"
            )
    return {name: value[1:] for name, value in given.items()}
