"""`tessella tune`: measure the kernels that a model could run, for the pick to choose from."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tessella.driver.options import CheckedOptions
from tessella.driver.tune.tune import WHOLE, Measurement, tune
from tessella.runtime.explain_types import duration
from tessella.support.columns import aligned
from tessella.support.errors import OptionError
from tessella.targets import database, machine
from tessella.tools.commands.dims import check_one_size, open_graph
from tessella.tools.commands.numbers import count
from tessella.tools.commands.shared import (
    add_model,
    add_options,
    add_values,
    opened,
    options_of,
)
from tessella.tools.commands.useless import Useless
from tessella.tools.progress import shown
from tessella.tools.spread import ENGINES

EPILOG = """\
  tessella tune model.onnx --budget 60 -o times.json
  tessella tune --merge theirs.json -o times.json
  tessella tune model.onnx --engine ray --workers 8 -o times.json
  TESSELLA_DB=times.json tessella run model.onnx
"""

USELESS = (
    Useless(
        ("threads",),
        lambda _: True,
        "kernels are measured on one thread",
        "leave --threads out: the times count for any number",
    ),
    Useless(
        ("workers",),
        lambda args: args.engine is None,
        "this process measures all ops",
        "add --engine processes or --engine ray",
    ),
    Useless(
        ("engine", "shape", "value", "dim", "budget", "places", "target", "timeout"),
        lambda args: args.model is None,
        "nothing is measured without a model",
        "name the MODEL, or leave these options out to --merge only",
    ),
)

UNMEASURED = (
    "estimates are of a table's bandwidths: run `tessella targets --measure` for better ones"
)

HEADER = ("node", "kernel", "place", "estimated", "measured", "ratio", "spread")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_model(parser, optional=True)
    add_values(parser)
    parser.add_argument(
        "-o",
        dest="database",
        metavar="FILE",
        help="the database that times are added to, by default that which TESSELLA_DB names, or "
        "else that of --pick measure",
    )
    parser.add_argument(
        "--merge",
        action="append",
        default=[],
        metavar="FILE",
        help="add the times of another database; the better measured ones stay",
    )
    parser.add_argument(
        "--engine",
        choices=[*ENGINES],
        help="measure with several workers: processes of this machine, or tasks on a Ray cluster",
    )
    parser.add_argument(
        "--workers",
        type=count,
        default=2,
        metavar="N",
        help="number of workers (2); each has --budget",
    )
    add_options(parser, left_out=("pick", "database"))


def run(args: argparse.Namespace) -> int:
    """Measure the kernels of the model, and print their times beside the estimates. Returns 0."""
    if args.model is None and not args.merge:
        raise OptionError("there is nothing to do", expected="a MODEL, or --merge FILE")
    check_one_size(args)
    args.pick = "measure"
    options = options_of(args)
    _merge(options.database, args.merge)
    if args.model is not None:
        made = _spread(args, options) if args.engine else _measured(args, options, WHOLE)
        print("\n".join(table(made)))
        if "measured" not in machine.sources().values():
            print(UNMEASURED)
    print(f"the times are in {options.database}")
    return 0


def _measured(
    args: argparse.Namespace, options: CheckedOptions, share: tuple[int, int]
) -> Sequence[Measurement]:
    graph = open_graph(opened(args), args)
    if graph.stage != "nn":
        raise OptionError("the kernels of the model are picked already", found=graph.stage)
    with shown(wanted=not args.verbose) as progress:
        return tune(graph, options, options.budget, progress, share)


def measured_share(
    args: argparse.Namespace, known: bytes, share: tuple[int, int]
) -> tuple[Sequence[Measurement], bytes]:
    """Measure a share of the ops in this process. Times in the database with the content ``known``
    are not measured again. Returns the measurements and the content of the new database."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "times.json"
        path.write_bytes(known)
        made = _measured(args, replace(options_of(args), database=str(path)), share)
        return made, path.read_bytes()


def _spread(args: argparse.Namespace, options: CheckedOptions) -> Sequence[Measurement]:
    """Measure the ops on several workers, and merge their databases as they finish."""
    if args.workers < 1:
        raise OptionError("--workers is too small", expected="1 or more")
    file = Path(options.database)
    database.update(file, database.Database())
    sent = argparse.Namespace(**vars(args))
    sent.model = str(Path(args.model).resolve())
    work = partial(measured_share, sent, file.read_bytes())
    made: list[Measurement] = []
    for found, content in ENGINES[args.engine](
        work, [(number, args.workers) for number in range(args.workers)]
    ):
        database.update(file, database.parse(content))
        made += found
    return made


def _merge(path: str, others: Sequence[str]) -> None:
    if others:
        merged = database.Database()
        for other in others:
            merged.merge(database.read(other))
        database.update(path, merged)


def table(made: Sequence[Measurement]) -> list[str]:
    """Return a table of estimated and measured times as lines; the ratio is measured over
    estimated."""
    rows = [
        (
            *(m.node, m.kernel, m.place, duration(m.estimated), duration(m.seconds)),
            *(f"{m.seconds / m.estimated:.2f}", f"{m.timing.spread:.0%}"),
        )
        for m in made
    ]
    return list(aligned([HEADER, *rows]))
