"""The inputs of a model on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tessella.dialects.graph import ValueInfo
from tessella.dialects.nn.core import Array
from tessella.support.errors import OptionError
from tessella.tools.commands.arrays import make_array, read_array
from tessella.tools.commands.dims import known_shapes
from tessella.tools.commands.numbers import count
from tessella.tools.commands.shared import (
    assignments,
    missing_shape,
    parse_shape,
)


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that give a model's inputs."""
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=@FILE.npy|randn|zeros|ones",
        help="an input; randn where not given",
    )
    parser.add_argument("--seed", type=count, default=0, help="of random inputs (0)")


def feeds_of(inputs: Sequence[ValueInfo], args: argparse.Namespace) -> dict[str, Array]:
    """Return an array for each input by name, as ``--input`` and ``--shape`` specify them. Raises
    InputError for a missing shape."""
    given = assignments("--input", args.input, [info.name for info in inputs])
    shapes = known_shapes(inputs, args)
    told = assignments("--shape", args.shape, [*given, *shapes])
    feeds: dict[str, Array] = {}
    for info in inputs:
        value = given.get(info.name, "randn")
        if value.startswith("@"):
            feeds[info.name] = read_array(value[1:])
            _check_shape(info.name, feeds[info.name], told.get(info.name))
        elif info.name in shapes:
            feeds[info.name] = make_array(info, value, shapes[info.name], args.seed)
        else:
            raise missing_shape(info)
    return feeds


def _check_shape(name: str, array: Array, told: str | None) -> None:
    """Raise OptionError if ``told``, the shape that ``--shape`` gives for an input, is not that of
    the input's array."""
    if told is not None and parse_shape(told) != array.shape:
        raise OptionError(
            f"--shape {name} does not fit --input {name}",
            expected="x".join(map(str, array.shape)),
            found=told,
            hint="leave --shape out: the array says it",
        )
