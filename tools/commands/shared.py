"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from tessella.dialects.graph import Graph, Source, ValueInfo
from tessella.dialects.nn.core import Array
from tessella.driver import option_docs
from tessella.driver.options import CheckedOptions, Options, make_options
from tessella.driver.stages import STAGES
from tessella.driver.subprograms import whole
from tessella.passes.pick.choices import FALLBACKS
from tessella.runtime.elements import converted, dtype_named
from tessella.support.errors import InputError, OptionError
from tessella.support.sizes import MOST
from tessella.tools.commands.arrays import read_array
from tessella.tools.time_report import time_report

Shape = tuple[int, ...]


def add_model(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """The model, and the shapes of inputs that it leaves open."""
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


def add_dims(parser: argparse.ArgumentParser) -> None:
    """The dimensions that stay open in programs."""
    parser.add_argument(
        "--dim",
        action="append",
        default=[],
        metavar="NAME=1..64",
        help="sizes of a dimension that the model leaves open, which stays open in programs",
    )


def dims_of(options: Sequence[str]) -> dict[str, tuple[int, int]]:
    """The bounds given by ``--dim``. Raises OptionError."""
    found: dict[str, tuple[int, int]] = {}
    for text in options:
        name, equals, sizes = text.rpartition("=")
        low, dots, high = sizes.partition("..")
        high = high or (str(MOST) if dots else low)
        # int() alone would take "1_0", " 1 " and digits of other scripts
        are_numbers = sizes.isascii() and low.isdigit() and high.isdigit()
        if not (equals and are_numbers and len(sizes) < 32):
            raise OptionError(
                f"cannot read --dim {text!r}",
                expected="--dim NAME=LEAST..GREATEST, NAME=LEAST.. for any that are larger, or "
                "NAME=SIZE",
            )
        if name in found:
            raise OptionError(f"--dim {name} is given twice", found=", ".join(options))
        found[name] = int(low), int(high)
    return found


def add_values(parser: argparse.ArgumentParser) -> None:
    """The values of inputs on which shapes depend."""
    parser.add_argument(
        "--value",
        action="append",
        default=[],
        metavar="NAME=2,3|@FILE.npy",
        help="the value of an input on which shapes depend; the program does not take this input",
    )


def count(text: str) -> int:
    """An argument that is a whole number, and not negative."""
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 on, found {text!r}")
    return int(text)


def amount(text: str) -> float:
    """An argument that is a number, and not negative."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not number >= 0:
        raise argparse.ArgumentTypeError(f"expected a number from 0 on, found {text!r}")
    return number


def pattern(text: str) -> re.Pattern[str]:
    """An argument that is a regular expression."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from error


def add_options(parser: argparse.ArgumentParser, *, left_out: Collection[str] = ()) -> None:
    """What to compile for; fields of ``Options`` that the command sets itself are left out."""
    parser.add_argument(
        "--places",
        type=_places,
        metavar="A,B",
        help="places where kernels may run; the order decides between costs that are close",
    )
    parser.add_argument(
        "--fallback",
        choices=FALLBACKS,
        help="whether an op may run in another layout than asked for, or in NumPy (allow)",
    )
    parser.add_argument(
        "--target", metavar="NAME", help="the machine, as `tessella targets` lists them (native)"
    )
    for each in option_docs.rows():
        if each.name not in left_out:
            value: dict[str, Any] = (
                {"choices": each.choices}
                if each.choices
                else {"metavar": each.metavar, "type": float if each.is_number else str}
            )
            parser.add_argument(each.flag, help=each.help, **value)


def add_threads(parser: argparse.ArgumentParser) -> None:
    """How programs run."""
    parser.add_argument(
        "--threads", type=int, metavar="N", help="how many threads run the model (all cores)"
    )


def add_time_passes(parser: argparse.ArgumentParser) -> None:
    """Where the time goes."""
    parser.add_argument(
        "--time-passes",
        action="store_true",
        help="print a table of the compilation's passes with their times to stderr; no cache is "
        "used",
    )


def print_times(timings: Mapping[str, float]) -> None:
    """The table of times, on stderr."""
    print(*time_report(timings), sep="\n", file=sys.stderr)


def options_of(args: argparse.Namespace, target: str | None = None) -> CheckedOptions:
    """The options on the command line, for a target of several. Raises OptionError."""
    given = {each.name: getattr(args, each.name) for each in fields(Options)}
    return make_options(
        places=args.places,
        target=target or args.target,
        threads=getattr(args, "threads", 1),
        fallback=args.fallback,
        options=Options(**{name: value for name, value in given.items() if value is not None}),
    )


def _places(text: str) -> list[str]:
    return text.split(",")


def assignments(option: str, texts: Iterable[str], known: Sequence[str]) -> dict[str, str]:
    """Options such as ``--input x=@x.npy`` by name. Raises OptionError for names not known."""
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


def shapes_of(inputs: Sequence[ValueInfo], options: Iterable[str]) -> dict[str, Shape]:
    """The shape of every input that is known: given by ``--shape``, or concrete in the model."""
    given = assignments("--shape", options, [info.name for info in inputs])
    shapes = {name: parse_shape(text) for name, text in given.items()}
    for info in inputs:
        concrete = tuple(d for d in info.shape if isinstance(d, int))
        if info.name not in shapes and len(concrete) == len(info.shape):
            shapes[info.name] = concrete
    return shapes


def parse_shape(text: str) -> Shape:
    """The sizes of a shape such as 1x3x224x224. Raises OptionError."""
    sizes = text.split("x") if text else []
    # int() alone would take "+1", "1_0", " 1 " and digits of other scripts
    if not all(size.isascii() and size.isdigit() and len(size) < 20 for size in sizes):
        raise OptionError(f"cannot read the shape {text!r}", expected="sizes such as 1x3x224x224")
    return tuple(map(int, sizes))


def missing_shape(info: ValueInfo) -> InputError:
    """The error for an input whose shape nobody says."""
    example = "x".join(str(d) if isinstance(d, int) else "1" for d in info.shape)
    return InputError(
        f"the input {info.name!r} has symbolic dimensions",
        found=f"[{', '.join(map(str, info.shape))}]",
        hint=f"give its shape, such as --shape {info.name}={example}",
    )


def values_of(inputs: Sequence[ValueInfo], options: Iterable[str]) -> dict[str, Array]:
    """The values given by ``--value``. Raises OptionError."""
    infos = {info.name: info for info in inputs}
    given = assignments("--value", options, list(infos))
    return {name: _parse_value(infos[name], text) for name, text in given.items()}


def _parse_value(info: ValueInfo, text: str) -> Array:
    """The array of an .npy file, or of numbers as many as the input has elements."""
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


def open_graph(source: Source, args: argparse.Namespace) -> Graph:
    """The program for the shapes and values on the command line. Raises InputError where a shape is
    missing."""
    values = values_of(source.inputs, args.value)
    shapes = shapes_of(source.inputs, args.shape)
    shapes |= {name: value.shape for name, value in values.items()}
    for info in source.inputs:
        if info.name not in shapes:
            raise missing_shape(info)
    return whole(source.graph(shapes, values))


def check_stage_ahead(present: str, stage: str) -> None:
    """Raise OptionError for a stage that a program is past already."""
    if STAGES.index(stage) < STAGES.index(present):
        raise OptionError(
            f"the model is past the stage {stage!r} already", found=f"stage {present!r}"
        )
