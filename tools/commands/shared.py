"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from tessella.dialects.graph import Source, ValueInfo
from tessella.dialects.nn.core import Array
from tessella.driver import option_docs
from tessella.driver.option_docs import OptionRow
from tessella.driver.options import CheckedOptions, CompileOptions, Options, make_options
from tessella.driver.stages.stages import STAGES
from tessella.frontends.compile import open_source
from tessella.passes.pick.choices import FALLBACKS, split_list, split_pin
from tessella.runtime.elements import converted, dtype_named
from tessella.support.errors import InputError, OptionError
from tessella.tools.commands.arrays import read_array
from tessella.tools.commands.numbers import amount
from tessella.tools.time_report import time_report

Shape = tuple[int, ...]


def add_model(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Add the model, and the shapes of its dynamic inputs."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs="?" if optional else None,
        help="an .onnx file, or a stage that `tessella compile` wrote",
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=1x3x224x224",
        help="the shape of an input with symbolic dimensions",
    )


def add_values(parser: argparse.ArgumentParser) -> None:
    """Add the option for values of shape-determining inputs."""
    parser.add_argument(
        "--value",
        action="append",
        default=[],
        metavar="NAME=2,3|@FILE.npy",
        help="the value of an input, which the program does not take then: shapes may depend on it",
    )


def pattern(text: str) -> re.Pattern[str]:
    """Parse a regular expression."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a regular expression: {error}"
        ) from error


def add_options(parser: argparse.ArgumentParser, *, left_out: Collection[str] = ()) -> None:
    """Add the options of compilations, except those that the command sets itself."""
    own: dict[str, dict[str, Any]] = {
        "dim": {
            "action": "append",
            "default": [],
            "metavar": "NAME=1..64",
            "help": "the size of a dimension that the model leaves open, or bounds between which "
            "it is symbolic in programs",
        },
        "places": {
            "type": _places,
            "metavar": "A,B",
            "help": "places where kernels may run, or names of lists, such as mobile; their order "
            "decides between similar costs",
        },
        "target": {
            "metavar": "NAME",
            "help": "the machine, as `tessella targets` lists them (native)",
        },
        "threads": {
            "type": int,
            "metavar": "N",
            "help": "how many threads run the model (all cores)",
        },
        "timeout": {
            "type": amount,
            "metavar": "SECONDS",
            "help": "seconds that compiling may take (any time)",
        },
        "fallback": {
            "choices": FALLBACKS,
            "help": "whether an op may run in another layout than asked for, or in NumPy (allow)",
        },
    }
    rare: dict[str, dict[str, Any]] = {
        each.name: {"help": each.help, **_kind(each)} for each in option_docs.flags()
    }
    for name, settings in (own | rare).items():
        if name not in left_out:
            parser.add_argument(f"--{name.replace('_', '-')}", **settings)


def _kind(row: OptionRow) -> Mapping[str, Any]:
    """Return the arguments of ``add_argument`` for the values of a flag."""
    if row.choices:
        return {"choices": row.choices}
    if row.is_mapping:
        parse = split_list if row.has_lists else split_pin
        return {"metavar": row.metavar, "action": "append", "type": parse}
    return {"metavar": row.metavar, "type": float if row.is_number else str}


def add_time_passes(parser: argparse.ArgumentParser) -> None:
    """Add the option that prints compile times."""
    parser.add_argument(
        "--time-passes",
        action="store_true",
        help="print a table of the compilation's passes with their times to stderr; no cache is "
        "used",
    )


def print_times(timings: Mapping[str, float]) -> None:
    """Print the table of times on stderr."""
    print(*time_report(timings), sep="\n", file=sys.stderr)


def given_options(args: argparse.Namespace, target: str | None = None) -> CompileOptions:
    """Return the options of a compilation on the command line; ``target`` replaces the target
    there. Raises OptionError."""
    rare = {each.name: _value(getattr(args, each.name)) for each in option_docs.flags()}
    return CompileOptions(
        places=args.places,
        target=target or args.target,
        threads=args.threads,
        fallback=args.fallback,
        timeout=args.timeout,
        options=Options(**{name: value for name, value in rare.items() if value is not None}),
    )


def _value(given: Any) -> Any:
    """Return the value of a flag; a flag that is given several times has pairs."""
    return dict(cast(list[tuple[str, Any]], given)) if isinstance(given, list) else given


def options_of(args: argparse.Namespace, target: str | None = None) -> CheckedOptions:
    """Return the checked options on the command line. Raises OptionError."""
    return make_options(**given_options(args, target))


def _places(text: str) -> list[str]:
    return text.split(",")


def assignments(option: str, texts: Iterable[str], known: Sequence[str]) -> dict[str, str]:
    """Parse options such as ``--input x=@x.npy`` by name. Raises OptionError for unknown names."""
    result: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise OptionError(
                f"cannot read {option} {text!r}", expected=f"{option} NAME=VALUE", found=repr(text)
            )
        if name not in known:
            raise OptionError(
                f"{option}: the model has no {name!r}",
                expected=f"one of {', '.join(known) or 'none'}",
            )
        if name in result:
            raise OptionError(f"{option} {name} is given twice", found=f"{result[name]}, {value}")
        result[name] = value
    return result


def shapes_of(
    inputs: Sequence[ValueInfo], options: Iterable[str], sizes: Mapping[str, int] | None = None
) -> dict[str, Shape]:
    """Return the known shapes of inputs: from ``--shape``, or from the model, where ``sizes`` gives
    sizes of dynamic dimensions."""
    given = assignments("--shape", options, [info.name for info in inputs])
    shapes = {name: parse_shape(text) for name, text in given.items()}
    for info in inputs:
        dims = ((sizes or {}).get(str(d), d) for d in info.shape)
        concrete = tuple(d for d in dims if isinstance(d, int))
        if info.name not in shapes and len(concrete) == len(info.shape):
            shapes[info.name] = concrete
    return shapes


def parse_shape(text: str) -> Shape:
    """Parse a shape such as 1x3x224x224. Raises OptionError."""
    sizes = text.split("x") if text else []
    # int() alone would accept "+1", "1_0", " 1 " and digits of other scripts
    if not all(size.isascii() and size.isdigit() and len(size) < 20 for size in sizes):
        raise OptionError(f"cannot read the shape {text!r}", expected="sizes such as 1x3x224x224")
    return tuple(map(int, sizes))


def missing_shape(info: ValueInfo) -> InputError:
    """Return the error for an input without a shape."""
    example = "x".join(str(d) if isinstance(d, int) else "1" for d in info.shape)
    return InputError(
        f"the input {info.name!r} has symbolic dimensions",
        found=f"[{', '.join(map(str, info.shape))}]",
        hint=f"give its shape, such as --shape {info.name}={example}",
    )


def opened(args: argparse.Namespace) -> Source:
    """Open the model without the inputs whose values ``--value`` fixes. Raises TessellaError."""
    source = open_source(args.model)
    values = _values_of(source.inputs, args.value)
    return open_source(args.model, values=values) if values else source


def _values_of(inputs: Sequence[ValueInfo], options: Iterable[str]) -> dict[str, Array]:
    """Return the values given by ``--value``. Raises OptionError."""
    infos = {info.name: info for info in inputs}
    given = assignments("--value", options, list(infos))
    return {name: _parse_value(infos[name], text) for name, text in given.items()}


def _parse_value(info: ValueInfo, text: str) -> Array:
    """Return the value of an input that ``--value`` gives: the array of an .npy file, or numbers
    separated by commas. Raises OptionError if they do not fit the input."""
    if text.startswith("@"):
        return read_array(text[1:])
    dtype = dtype_named(info.dtype)
    number = int if dtype.kind in "iu" else float
    try:
        numbers = np.array([number(each) for each in text.split(",")])
        shape = () if not info.shape else (-1, *(d for d in info.shape[1:] if isinstance(d, int)))
        return converted(numbers.reshape(shape), dtype)
    except (ValueError, OverflowError) as error:
        raise OptionError(
            f"cannot read --value {info.name}={text}",
            expected=f"numbers such as 2,3 that make {info.dtype}{list(info.shape)}, or @FILE.npy",
        ) from error


def check_stage_ahead(present: str, stage: str) -> None:
    """Raise OptionError if ``stage`` is earlier than ``present``, the stage of the program."""
    if STAGES.index(stage) < STAGES.index(present):
        raise OptionError(
            f"the model is past the stage {stage!r} already", found=f"stage {present!r}"
        )
