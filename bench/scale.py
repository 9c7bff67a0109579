"""Rows per second and memory of one and two processes, and a model of many.

    python -m bench.scale [MODEL.onnx] --cores 64 --machines 100 --json scale.json
    python -m bench.scale --figures scale.json --cores 32

Processes are workers of `tessella batch` with one thread each. The model predicts other numbers of
cores and machines from their figures, under assumptions that the command prints. With --figures it
takes the figures of an earlier run instead of measuring.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import pyarrow as pa
import pyarrow.parquet as pq

import tessella
from bench.command import Command, show_machine, write_figures
from bench.scale_model import ASSUMPTIONS, ScaleFigures, layouts, predict
from bench.ship import proportional_bytes
from tessella.tools.batch.columns import column_of
from tessella.tools.batch.engines import Processes, stream_of
from tessella.tools.batch.parts import Parts
from tessella.tools.batch.run import BatchRun, blocks_of, places_of
from tessella.tools.commands.numbers import count
from tessella.tools.measure import CallTimes
from tests.models import random_inputs

DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits.onnx"
NOISY = 0.1
"""The spread from which figures count as disturbed by other processes."""


@dataclass(frozen=True)
class Turn:
    """Figures of some processes that run at the same time."""

    rate: float
    """Rows per second of all."""
    row_seconds: float
    """Processor seconds of a row."""
    start_seconds: float
    """Until all have run a block."""
    memory: int
    """Bytes of all; pages that processes share count once."""
    row_bytes: float
    """Bytes of a row and of its result."""


def run_workers(artifact: Path, block: Path, rows: int, blocks: int, workers: int) -> Turn:
    """Run each worker over ``blocks`` blocks of ``rows`` rows. Raises RuntimeError if one fails."""
    command = [sys.executable, "-m", "bench.scale_worker", str(artifact), str(block), str(blocks)]
    pipe = subprocess.PIPE
    began = time.perf_counter()
    running = [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(workers)
    ]
    try:
        _lines(running)
        started = time.perf_counter() - began
        for process in running:
            print(file=process.stdin, flush=True)
        results = [json.loads(line) for line in _lines(running)]
        memory = sum(proportional_bytes(process.pid) for process in running)
    finally:
        for process in running:
            process.communicate()  # closes its standard input, which ends it
    total = rows * blocks * workers
    rate = total / max(result["seconds"] for result in results)
    processor = sum(result["processor_seconds"] for result in results)
    return Turn(rate, processor / total, started, memory, results[0]["bytes"] / rows)


def _lines(running: Sequence[subprocess.Popen[str]]) -> list[str]:
    lines = [process.stdout.readline() if process.stdout else "" for process in running]
    if not all(lines):
        raise RuntimeError("a worker ended before it had run its blocks")
    return lines


def coordinator_seconds(artifact: Path, table: Path, rows: int, repeat: int) -> Iterator[float]:
    """Yield the processor seconds of this process for a row, while it coordinates a worker."""
    with (
        closing(Processes(str(artifact), 1, 1)) as engine,
        pq.ParquetFile(table) as data,
    ):
        places = places_of(data, rows)
        for turn in range(repeat + 1):
            parts = Parts(table.with_name(f"{turn}.parquet"), {})
            began = time.process_time()
            run = BatchRun(engine, parts, 2, lambda _: None)
            run.over(blocks_of(data, rows, places, parts))
            parts.finish(len(places))
            if run.failed:
                raise RuntimeError(f"blocks failed: {run.failed}")
            if turn:  # the first one warms up
                yield (time.process_time() - began) / data.metadata.num_rows


@dataclass(frozen=True)
class ScaleRun:
    """All turns of one model."""

    one: Sequence[Turn]
    two: Sequence[Turn]
    coordinator: Sequence[float]
    block_rows: int

    def figures(self) -> ScaleFigures:
        """Return the medians."""
        one_bytes, two_bytes = (median(t.memory for t in turns) for turns in (self.one, self.two))
        return ScaleFigures(
            block_rows=self.block_rows,
            row_seconds=median(turn.row_seconds for turn in self.one),
            row_seconds_of_two=median(turn.row_seconds for turn in self.two),
            coordinator_seconds=median(self.coordinator),
            row_bytes=self.one[0].row_bytes,
            start_seconds=median(turn.start_seconds for turn in self.one),
            one_process_bytes=one_bytes,
            further_process_bytes=two_bytes - one_bytes,
        )

    def lines(self) -> Iterator[str]:
        """Yield a line for one process, for two, and for the coordinator."""
        for name, turns in (("1 process", self.one), ("2 processes", self.two)):
            rates, seconds = [t.rate for t in turns], [t.row_seconds for t in turns]
            memory = median(turn.memory for turn in turns) / 1e6
            yield (
                f"{name}: {median(rates):,.0f} rows/s (spread {spread(rates):.0%}),"
                f" {median(seconds) * 1e6:.2f} us of a core for a row (spread"
                f" {spread(seconds):.0%}), {memory:.1f} MB"
            )
        cost = median(self.coordinator) * 1e6
        yield f"coordinator: {cost:.2f} us for a row (spread {spread(self.coordinator):.0%})"
        if self.is_noisy():
            yield "Other processes disturb these figures: repeat the command on an idle machine."

    def is_noisy(self) -> bool:
        """Return whether figures of equal turns differ much."""
        columns = [[turn.rate for turn in turns] for turns in (self.one, self.two)]
        return any(spread(column) > NOISY for column in (*columns, self.coordinator))


def spread(values: Sequence[float]) -> float:
    """Return the interquartile range as a fraction of the median."""
    return CallTimes(tuple(values)).spread


def measure(model: Path, rows: int, blocks: int, repeat: int) -> ScaleRun:
    """Measure one and two processes, interleaved, and a coordinator."""
    feeds = random_inputs(onnx.load(model))
    columns = {
        name: column_of(np.repeat(array, -(-rows // len(array)), axis=0)[:rows])
        for name, array in feeds.items()
    }
    batch: Any = pa.RecordBatch.from_pydict(columns)
    with TemporaryDirectory() as folder:
        artifact, block = Path(folder, "model.tsl"), Path(folder, "block")
        tessella.compile(model, threads=1, prepare=True).save(artifact)
        block.write_bytes(stream_of(batch))
        turns = [
            [run_workers(artifact, block, rows, blocks, workers) for workers in (1, 2)]
            for _ in range(repeat)
        ]
        table = Path(folder, "table.parquet")
        pq.write_table(pa.Table.from_batches([batch] * blocks), table)
        coordinator = [*coordinator_seconds(artifact, table, rows, repeat)]
    one, two = zip(*turns, strict=True)
    return ScaleRun(one, two, coordinator, rows)


def lines(
    figures: ScaleFigures, *, cores: int, machines: int, rows: int, link: float
) -> Iterator[str]:
    """Yield the predictions and what they assume. ``link`` is in bytes per second."""
    yield (
        f"contention {figures.contention:.1%} for each further worker of a machine,"
        f" {figures.row_bytes:,.0f} bytes a row, a link of {link * 8 / 1e9:g} Gbit/s"
    )
    yield (
        f"{'layout':<36}{'workers':>8}{'rows/s':>14}{'no contention':>15}  {'limit':<12}"
        f"{'MB a machine':>13}{f's for {rows:.0e} rows':>18}"
    )
    for layout in layouts(cores, machines):
        found, best = (
            predict(figures, layout, rows=rows, link=link, contention=contention)
            for contention in (figures.contention, 0)
        )
        yield (
            f"{layout.name:<36}{layout.machines * layout.workers:>8,}{found.rate:>14,.0f}"
            f"{best.rate:>15,.0f}  {found.limit:<12}{found.machine_bytes / 1e6:>13,.0f}"
            f"{found.job_seconds:>18,.1f}"
        )
    yield "The model assumes:"
    yield from (f"- {assumption}" for assumption in ASSUMPTIONS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = Command("scale", "Measure one and two processes, and predict many.")
    parser.add_argument("model", nargs="?", type=Path, default=DIGITS, metavar="MODEL.onnx")
    parser.add_argument("--figures", type=Path, metavar="FILE", help="of an earlier run's --json")
    parser.add_argument("--rows", type=count, default=1024, help="of a block (1024)")
    parser.add_argument("--blocks", type=count, default=40, help="of a turn (40)")
    parser.add_repeat(5)
    parser.add_argument("--cores", type=count, default=64, help="of each machine (64)")
    parser.add_argument("--machines", type=count, default=100, help="(100)")
    parser.add_argument("--job", type=count, default=10**9, help="rows of a job (1000000000)")
    parser.add_argument("--link", type=float, default=10, help="of a machine, in Gbit/s (10)")
    options = parser.parse(arguments)
    if options.figures is not None:
        figures = read_figures(options.figures)
    else:
        where = show_machine()
        run = measure(options.model, options.rows, options.blocks, options.repeat)
        print(*run.lines(), sep="\n")
        figures = run.figures()
        write_figures(options.json, where, figures=asdict(figures), turns=asdict(run))
    settings = {"cores": options.cores, "machines": options.machines, "rows": options.job}
    print(*lines(figures, **settings, link=options.link * 1e9 / 8), sep="\n")
    return 0


def read_figures(file: Path) -> ScaleFigures:
    """Read what ``--json`` has written. Ends the command if the file is another one."""
    try:
        return ScaleFigures(**json.loads(file.read_text(encoding="utf-8"))["figures"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SystemExit(
            f"{file} has no figures of this command ({error}): write it with --json"
        ) from error


if __name__ == "__main__":
    sys.exit(main())
