"""`tessella bench`: the time of calls, on request by kernel and beside other runtimes."""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from tessella.dialects.nn.core import Array
from tessella.driver.model.model import Model
from tessella.driver.stages.stages import ARTIFACT
from tessella.frontends.compile import open_source
from tessella.runtime.loaded import LoadedModel, load
from tessella.runtime.profile import Profile
from tessella.runtime.schema import VERSION
from tessella.support.columns import aligned
from tessella.support.errors import OptionError
from tessella.support.versions import installed
from tessella.tools import peers
from tessella.tools.bars import Bar, check_matplotlib, draw_bars
from tessella.tools.commands.dims import openness_of
from tessella.tools.commands.inputs import add_inputs, feeds_of
from tessella.tools.commands.numbers import count
from tessella.tools.commands.shared import (
    add_model,
    add_options,
    options_of,
)
from tessella.tools.commands.useless import COMPILED
from tessella.tools.measure import CallTimes, interleave, machine
from tessella.tools.progress import shown

EPILOG = """\
  tessella bench model.onnx --shape x=1x3x224x224
  tessella bench model.onnx --threads 1,2 --against onnxruntime,openvino
  tessella bench model.onnx --profile                what each kernel takes
  tessella bench model.tsl --profile --trace t.json  one run, for https://ui.perfetto.dev
"""

OTHERS = tuple(name for name in peers.PEERS if name != "tessella")
TURN = 0.02
"""Seconds of calls that are timed together, which makes short calls measurable."""


USELESS = (COMPILED,)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_model(parser)
    add_inputs(parser)
    parser.add_argument(
        "--threads",
        type=_numbers,
        default=[None],
        metavar="N,..",
        help="how many threads run the model; a list is measured one after the other (all cores)",
    )
    parser.add_argument(
        "--repeat", type=count, default=20, metavar="N", help="turns that are timed (20)"
    )
    parser.add_argument(
        "--against",
        type=peer_names,
        default=[],
        metavar="A,B",
        help=f"other runtimes to compare with, in turn: {', '.join(OTHERS)}",
    )
    parser.add_argument("--profile", action="store_true", help="print what each kernel takes")
    parser.add_argument(
        "--trace",
        metavar="FILE",
        help="write a run on the last number of threads as a trace, for Perfetto or Chrome",
    )
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="draw the table as bars: an image of matplotlib's (.png, .svg)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON; times are in seconds")
    add_options(parser, left_out=("threads",))


@dataclass(frozen=True)
class RuntimeTimes:
    """Times of a model's calls on one runtime, in seconds."""

    name: str
    version: str
    threads: int
    seconds: float
    """The median time of a call in seconds."""
    p90: float
    spread: float
    """The interquartile range as a fraction of the median."""
    ratio: float
    """This runtime's median divided by tessella's: above 1, tessella is faster."""


def run(args: argparse.Namespace) -> int:
    """Measure the model, and print the times. Returns 0."""
    _check(args)
    rows: list[RuntimeTimes] = []
    profiles: list[Profile] = []
    for threads in args.threads:
        model, feeds = _opened(args, threads)
        rows += _rows(model, feeds, args)
        if args.profile or args.trace:
            profiles.append(model.profile(feeds))
    if args.trace:
        profiles[-1].trace(args.trace)
    if args.plot:
        bars = [Bar(f"{row.name}, {_threads(row)}", row.seconds, row.p90) for row in rows]
        draw_bars(args.plot, Path(args.model).name, bars)
    if args.json:
        found = [json.loads(profile.to_json()) for profile in profiles]
        times = list(map(asdict, rows))
        document = {"version": VERSION, "machine": machine(), "runtimes": times, "profiles": found}
        print(json.dumps(document, indent=1))
    else:
        _print(rows, profiles if args.profile else [])
    return 0


def _check(args: argparse.Namespace) -> None:
    """Raise OptionError if the arguments request an impossible measurement, before anything is
    compiled."""
    if args.repeat < 1:
        raise OptionError("--repeat is a number from 1 on", found=str(args.repeat))
    check_peers(args)
    if args.plot:
        check_matplotlib()


def _threads(row: RuntimeTimes) -> str:
    return f"{row.threads} thread{'s' * (row.threads != 1)}"


def check_peers(args: argparse.Namespace) -> None:
    """Raise OptionError if a runtime of ``--against`` cannot run the model or is not installed."""
    if args.against and Path(args.model).suffix != ".onnx":
        raise OptionError(
            "other runtimes cannot read this model", expected="an .onnx file", found=args.model
        )
    absent = [name for name in args.against if importlib.util.find_spec(name) is None]
    if absent:
        raise OptionError(
            f"{', '.join(absent)} {'is' if len(absent) == 1 else 'are'} not installed",
            where="--against",
            hint=f"pip install {' '.join(absent)}",
        )


def _opened(
    args: argparse.Namespace, threads: int | None
) -> tuple[Model | LoadedModel, Mapping[str, Array]]:
    """Return the compiled model or the loaded artifact, and arrays for its inputs."""
    if Path(args.model).suffix == ARTIFACT:
        artifact = load(args.model, threads=threads)
        return artifact, feeds_of(artifact.inputs, args)
    source = open_source(args.model)
    feeds = feeds_of(source.inputs, args)
    with shown(wanted=not args.verbose) as progress:
        args_of_run = argparse.Namespace(**{**vars(args), "threads": threads})
        return Model(source, options_of(args_of_run), progress, openness_of(args)), feeds


def _rows(
    model: Model | LoadedModel, feeds: Mapping[str, Array], args: argparse.Namespace
) -> Sequence[RuntimeTimes]:
    calls: dict[str, Callable[[], object]] = {"tessella": partial(model.run, None, feeds)}
    for name in args.against:
        calls[name] = partial(_peer(name, Path(args.model), model.threads), feeds)
    times = interleave(calls, repeat=args.repeat, turn=TURN)
    ours = times["tessella"].median
    return [_row(name, model.threads, each, ours) for name, each in times.items()]


def _row(name: str, threads: int, timing: CallTimes, ours: float) -> RuntimeTimes:
    median = timing.median
    ratio = median / ours
    return RuntimeTimes(name, installed(name), threads, median, timing.p90, timing.spread, ratio)


def _peer(name: str, path: Path, threads: int) -> peers.Run:
    try:
        return peers.load(name, path, threads)
    except Exception as error:  # another runtime may raise anything
        raise OptionError(
            f"{name} cannot run the model: {type(error).__name__}: {error}", where="--against"
        ) from error


def _print(rows: Sequence[RuntimeTimes], profiles: Sequence[Profile]) -> None:
    cells = [
        (
            row.name,
            str(row.threads),
            f"{row.seconds * 1e3:.4g}",
            f"{row.p90 * 1e3:.4g}",
            f"{row.spread:.0%}",
            f"{row.ratio:.2f}",
        )
        for row in rows
    ]
    print(
        *aligned([("", "threads", "median ms", "p90 ms", "spread", "ratio"), *cells], 1), sep="\n"
    )
    for profile in profiles:
        print(f"\n{profile}")


def _numbers(text: str) -> list[int]:
    numbers = text.split(",")
    if not all(number.isascii() and number.isdigit() and int(number) for number in numbers):
        raise argparse.ArgumentTypeError(f"expected numbers such as 1,2, found {text!r}")
    return [int(number) for number in numbers]


def peer_names(text: str) -> list[str]:
    """Parse the names of other runtimes."""
    names = text.split(",")
    wrong = [name for name in names if name not in OTHERS]
    if wrong:
        raise argparse.ArgumentTypeError(f"no runtime {wrong[0]!r}; there are {', '.join(OTHERS)}")
    return names
