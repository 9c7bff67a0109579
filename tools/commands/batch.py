"""`tessella batch`: run a model over the rows of a Parquet file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tessella.driver.stages.stages import ARTIFACT
from tessella.runtime.loaded import LoadedModel, load
from tessella.support.errors import InvalidModelError, OptionError
from tessella.targets import threads
from tessella.tools.commands.numbers import count

if TYPE_CHECKING:
    from tessella.tools.batch.run import BatchRun

EPILOG = """\
  tessella batch model.tsl data.parquet -o out.parquet
  tessella batch model.tsl data.parquet -o out.parquet --engine ray --workers 64

Repeat the command to resume an interrupted run, or a run with failed blocks.
"""

ENGINES = ("processes", "ray")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("model", metavar="MODEL.tsl", help="an artifact")
    parser.add_argument("data", metavar="DATA.parquet", help="a table with a column for each input")
    parser.add_argument(
        "-o", dest="output", metavar="FILE", required=True, help="the Parquet file to write"
    )
    parser.add_argument(
        "--engine", choices=ENGINES, default="processes", help="where workers run (processes)"
    )
    parser.add_argument(
        "--workers", type=count, metavar="N", help="number of workers (one for each core)"
    )
    parser.add_argument(
        "--threads", type=int, default=1, metavar="N", help="number of threads of a worker (1)"
    )
    parser.add_argument(
        "--rows",
        type=count,
        default=1024,
        metavar="N",
        help="largest number of rows in a block (1024)",
    )


def run(args: argparse.Namespace) -> int:
    """Write the outputs for all rows. Returns 0, or 1 if blocks failed."""
    model = _loaded(args)
    parquet = _package("pyarrow.parquet")
    with _opened(parquet, args.data) as data:
        found = _run(args, model, data)
    if found.retried:
        print(f"retried blocks: {found.retried}", file=sys.stderr)
    for block, error in found.failed.items():
        print(f"{block} failed: {error}", file=sys.stderr)
    if found.failed:
        print(
            f"{len(found.failed)} blocks failed, and {args.output} was not written; repeat the "
            "command to run them again",
            file=sys.stderr,
        )
        return 1
    print(f"wrote {args.output}")
    return 0


def _run(args: argparse.Namespace, model: LoadedModel, data: Any) -> BatchRun:
    # imported here, because they need packages of an extra
    from tessella.tools.batch import engines, parts
    from tessella.tools.batch.columns import check_columns
    from tessella.tools.batch.run import BatchRun, blocks_of, places_of

    check_columns(model, dict.fromkeys(data.schema_arrow.names))
    places = places_of(data, args.rows)
    if not places:
        raise OptionError("the table has no rows", where=args.data)
    described = parts.description(Path(args.model), Path(args.data), args.rows)
    kept = parts.Parts(Path(args.output), described)
    workers = args.workers or max(1, threads.default() // args.threads)
    path = str(Path(args.model).resolve())
    new_engine = engines.ENGINES[args.engine]
    with (
        _progress(data.metadata.num_rows) as report,
        closing(new_engine(path, workers, args.threads)) as engine,
    ):
        report(sum(place.rows for place in places if place.number in kept))
        made = BatchRun(engine, kept, 2 * workers, report)
        made.over(blocks_of(data, args.rows, places, kept))
    if not made.failed:
        kept.finish(len(places))
    return made


def _loaded(args: argparse.Namespace) -> LoadedModel:
    for name in ("rows", "threads"):
        if getattr(args, name) < 1:
            raise OptionError(f"--{name} is too small", expected="1 or more")
    if Path(args.model).suffix != ARTIFACT:
        raise OptionError(
            "only artifacts run over tables",
            where=args.model,
            expected=f"a file MODEL{ARTIFACT}",
            hint=f"tessella compile {args.model} -o MODEL{ARTIFACT}",
        )
    return load(args.model, threads=args.threads)


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise OptionError(
            f"`tessella batch` needs the package {package}", hint="pip install 'tessella[batch]'"
        ) from error


@contextmanager
def _opened(parquet: Any, path: str) -> Generator[Any]:
    arrow = _package("pyarrow")
    try:
        data = parquet.ParquetFile(path)
    except (arrow.ArrowInvalid, OSError) as error:
        raise InvalidModelError(
            "the table cannot be read", where=path, expected="a Parquet file", found=str(error)
        ) from error
    with data:
        yield data


@contextmanager
def _progress(rows: int) -> Generator[Callable[[int], None]]:
    """Yield a function that advances a progress bar by a number of rows. The bar appears only if
    stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    console = _package("rich.console").Console(stderr=True)
    progress = _package("rich.progress")
    columns = (*progress.Progress.get_default_columns(), progress.MofNCompleteColumn())
    with progress.Progress(*columns, console=console) as bar:
        task = bar.add_task("rows", total=rows)
        yield lambda done: bar.advance(task, done)
