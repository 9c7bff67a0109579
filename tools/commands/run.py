"""`tessella run`: compile a model, run it once, and show or check its outputs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from tessella.dialects.graph import Graph, Source, ValueInfo
from tessella.dialects.interpret import interpret
from tessella.dialects.nn.core import Array
from tessella.driver.build import lower
from tessella.driver.model import Model
from tessella.driver.stages import IR_STAGES
from tessella.frontends.compile import open_source
from tessella.support.errors import OptionError
from tessella.tools.commands.arrays import (
    difference,
    make_array,
    read_array,
    summary,
    write_array,
)
from tessella.tools.commands.shared import (
    add_model,
    add_options,
    assignments,
    check_stage_ahead,
    missing_shape,
    options_of,
    shapes_of,
)

INTERPRETED = IR_STAGES[:3]
"""The stages that NumPy can run."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_model(parser)
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=@FILE.npy|randn|zeros|ones",
        help="an input; randn where not given",
    )
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
        help="what an output must be; the exit code is 1 where it is not",
    )
    parser.add_argument("--rtol", type=float, default=1e-4, help="relative tolerance (1e-4)")
    parser.add_argument("--atol", type=float, default=1e-5, help="absolute tolerance (1e-5)")
    parser.add_argument("--seed", type=int, default=0, help="of random inputs (0)")
    parser.add_argument(
        "--interpret",
        choices=INTERPRETED,
        metavar="STAGE",
        help=f"lower no further than to this stage ({', '.join(INTERPRETED)}), and run that in "
        "NumPy: ops by their NumPy kernels, statements point by point",
    )
    add_options(parser)


def run(args: argparse.Namespace) -> int:
    """0, or 1 where an output is not what was expected."""
    source = open_source(args.model)
    names = [info.name for info in source.outputs]
    files = _files("--output", args.output, names)
    wanted = {n: read_array(f) for n, f in _files("--expected", args.expected, names).items()}
    feeds = _feeds(source.inputs, args)
    outputs = dict(zip(names, _outputs(source, feeds, args), strict=True))
    for name, array in outputs.items():
        print(f"{name}: {summary(array)}")
    for name, file in files.items():
        write_array(file, outputs[name])
    differences = {
        name: difference(outputs[name], expected, args.rtol, args.atol)
        for name, expected in wanted.items()
    }
    for name, text in differences.items():
        print(f"{name}: as expected" if text is None else f"{name}: {text}")
    return int(any(text is not None for text in differences.values()))


def _outputs(
    source: Source, feeds: Mapping[str, Array], args: argparse.Namespace
) -> Sequence[Array]:
    if args.interpret is None:
        return Model(source, options_of(args)).run(None, feeds)
    graph = source.graph({name: array.shape for name, array in feeds.items()})
    check_stage_ahead(graph, args.interpret)
    lowered = lower(graph, options_of(args), start=graph.stage, stop=args.interpret)
    reached = Graph(lowered.stages[args.interpret], lowered.weights, args.interpret)
    return interpret(reached, feeds)


def _feeds(inputs: Sequence[ValueInfo], args: argparse.Namespace) -> dict[str, Array]:
    given = assignments("--input", args.input, [info.name for info in inputs])
    shapes = shapes_of(inputs, args.shape)
    feeds: dict[str, Array] = {}
    for info in inputs:
        value = given.get(info.name, "randn")
        if value.startswith("@"):
            feeds[info.name] = read_array(value[1:])
        elif info.name in shapes:
            feeds[info.name] = make_array(info, value, shapes[info.name], args.seed)
        else:
            raise missing_shape(info)
    return feeds


def _files(option: str, texts: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """The files of an option by the output's name."""
    given = assignments(option, texts, names)
    for name, value in given.items():
        if not value.startswith("@"):
            raise OptionError(
                f"cannot read {option} {name}={value}", expected=f"{option} {name}=@FILE.npy"
            )
    return {name: value[1:] for name, value in given.items()}
