"""Latency under load: several callers of one model, alone or beside a process that spins.

    python -m bench.load [NAME ...] --callers 1,2,4,8,16 --calls 1000 --json load.json

Each runtime has its own process for each number of threads. Callers are threads of Python that call
one model in a closed loop. OpenVINO runs in throughput mode with one request for each caller; ONNX
Runtime runs one session. The latency of a call is the time that its caller waits.

With --http, callers also send requests with binary tensors to `tessella serve`, each over its own
connection. The last lines of the output show the cost of HTTP.
"""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx

from bench.command import Command, show_machine, write_figures
from bench.over_http import HTTP, Caller, over_http
from tessella.tools.measure import settle
from tessella.tools.peers import Feeds, available, load
from tests.models import load_model, random_inputs

NAMES = ("mobilenet_opset18", "resnet50", "encoder_opset18")
"""A small convolutional network, a large one, and an encoder."""
PEERS = ("tessella", "onnxruntime", "openvino")
CALLERS = (1, 2, 4, 8, 16)
WARMUP = 20
SPIN = "while True: pass"


@dataclass(frozen=True)
class Cell:
    """Latencies of one runtime's callers in milliseconds, and calls per second."""

    model: str
    peer: str
    threads: int
    callers: int
    busy: bool
    """True if a process spins beside them."""
    p50: float
    p99: float
    rate: float


@contextmanager
def callers_of(
    peer: str, path: Path, threads: int, feeds: Feeds, count: int
) -> Generator[Sequence[Caller]]:
    """Yield a list with a function for each caller; each function calls the model once."""
    if peer == HTTP:
        with over_http(path, threads, feeds, count) as callers:
            yield callers
    elif peer == "openvino":
        yield [*_openvino(path, threads, feeds, count)]
    else:
        run = load(peer, path, threads)
        yield [lambda: run(feeds)] * count


def _openvino(path: Path, threads: int, feeds: Feeds, count: int) -> Iterator[Caller]:
    core: Any = importlib.import_module("openvino").Core()
    options = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "THROUGHPUT",
    }
    compiled = core.compile_model(core.read_model(str(path)), "CPU", options)
    for _ in range(count):
        infer: Any = compiled.create_infer_request().infer
        yield functools.partial(infer, dict(feeds), share_inputs=True, share_outputs=True)


def latencies(callers: Sequence[Caller], calls: int) -> tuple[list[float], float]:
    """Return the latencies of ``calls`` calls in seconds, and their total duration."""
    found: list[list[float]] = [[] for _ in callers]
    start = threading.Barrier(len(callers) + 1)
    each = -(-calls // len(callers))

    def work(call: Caller, times: list[float]) -> None:
        for _ in range(WARMUP):
            call()
        start.wait()
        for _ in range(each):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)

    threads = [
        threading.Thread(target=work, args=pair) for pair in zip(callers, found, strict=True)
    ]
    for thread in threads:
        thread.start()
    start.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    return [t for times in found for t in times], time.perf_counter() - began


@contextmanager
def spinning(busy: bool) -> Generator[None]:
    """Run a spinning process beside this one."""
    if not busy:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", SPIN])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def measure(
    model: str, peer: str, threads: int, callers: Sequence[int], busy: Sequence[bool], calls: int
) -> list[Cell]:
    """Measure the cells of one runtime in this process."""
    proto = load_model(model)
    feeds = random_inputs(proto)
    cells: list[Cell] = []
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(proto, path)
        with callers_of(peer, path, threads, feeds, max(callers)) as functions:
            for spins in busy:
                for count in callers:
                    settle()
                    with spinning(spins):
                        seconds, total = latencies(functions[:count], calls)
                    p50, p99 = (float(np.percentile(seconds, q)) * 1e3 for q in (50, 99))
                    rate = len(seconds) / total
                    cells.append(Cell(model, peer, threads, count, spins, p50, p99, rate))
    return cells


def table(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield lines: p50 / p99 in milliseconds, and calls per second, of each runtime and thread
    count."""
    columns = list(dict.fromkeys((cell.peer, cell.threads) for cell in cells))
    width = 26
    names = "".join(f"{f'{peer} {threads}':>{width}}" for peer, threads in columns)
    yield f"{'model, callers':<30}{names}"
    rows: dict[tuple[str, int, bool], dict[tuple[str, int], Cell]] = {}
    for cell in cells:
        row = rows.setdefault((cell.model, cell.callers, cell.busy), {})
        row[cell.peer, cell.threads] = cell
    for (model, callers, busy), row in rows.items():
        label = f"{model}, {callers}{', spinner' if busy else ''}"
        found = (row.get(column) for column in columns)
        texts = (
            "" if cell is None else f"{cell.p50:.2f} / {cell.p99:.2f} {cell.rate:7.1f}/s"
            for cell in found
        )
        yield f"{label:<30}{''.join(f'{text:>{width}}' for text in texts)}"


def protocol_costs(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield a line for each measurement over HTTP: the difference between its median latency and
    that of the same calls in the process, in milliseconds."""
    local = {_setting(cell): cell for cell in cells if cell.peer == "tessella"}
    for cell in cells:
        if cell.peer == HTTP and (other := local.get(_setting(cell))) is not None:
            beside = ", spinner" if cell.busy else ""
            label = f"{cell.model}, {cell.callers}{beside}, threads {cell.threads}"
            cost = cell.p50 - other.p50
            yield f"{label:<44}HTTP adds {cost:.2f} ms to {other.p50:.2f} ms"


def _setting(cell: Cell) -> tuple[str, int, int, bool]:
    return cell.model, cell.threads, cell.callers, cell.busy


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = Command("load", "Compare the latency of calls under load.")
    parser.add_names("model", NAMES)
    parser.add_peers(PEERS)
    parser.add_argument("--callers", type=_numbers, default=CALLERS, help="as 1,2,4")
    parser.add_argument("--threads", type=_numbers, default=(1, 2), help="of a call, as 1,2")
    parser.add_argument("--calls", type=int, default=1000, help="of a cell, at least")
    parser.add_argument(
        "--beside", choices=("nothing", "spinner", "both"), default="both", help="what runs there"
    )
    parser.add_argument(
        "--http", action="store_true", help="measure callers of `tessella serve` over HTTP too"
    )
    options = parser.parse(arguments)
    busy = {"nothing": [False], "spinner": [True], "both": [False, True]}[options.beside]
    where = show_machine()
    cells: list[Cell] = []
    for model in options.names:
        for peer in [*available(options.peers), *[HTTP] * options.http]:
            for threads in options.threads:
                settings = (model, peer, threads, options.callers, busy, options.calls)
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    measured = pool.apply(measure, settings)
                print(*table(measured), sep="\n", file=sys.stderr, flush=True)
                cells += measured
    print(*table(cells), *protocol_costs(cells), sep="\n")
    write_figures(options.json, where, cells=[asdict(cell) for cell in cells])
    return 0


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
