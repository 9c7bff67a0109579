"""Compare tessella with its peers on whole models.

    python -m bench.models [NAME ...] --threads 1 --repeat 20 --json results.json

Names are those of ``tests.models``, or the beginning of some; without any, all are measured.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx

from bench import cold
from bench.command import Command, show_machine, write_figures
from tessella.tools.measure import geometric_mean, interleave, relative_error
from tessella.tools.peers import PEERS, Array, Feeds, Run, available, load
from tests.models import FIXTURES, LIGHT_MODELS, load_model, random_inputs

NAMES = (*LIGHT_MODELS, *FIXTURES)


@dataclass
class Row:
    """One peer on one model; if it failed, figures are None, and ``failure`` says how."""

    model: str
    peer: str
    threads: int
    weights_mb: float
    median_ms: float | None = None
    spread: float | None = None
    ratio: float | None = None
    error: float | None = None
    compile_s: float | None = None
    first_call_s: float | None = None
    peak_mb: float | None = None
    failure: str | None = None


def compare(name: str, peers: Sequence[str], *, threads: int, repeat: int) -> list[Row]:
    """Measure all peers on one model. Ratios and errors are against the first one."""
    with TemporaryDirectory() as folder:
        path, feeds_path = Path(folder) / "model.onnx", Path(folder) / "feeds.npz"
        weights_mb, feeds = write_model(name, path)
        np.savez(feeds_path, allow_pickle=False, **feeds)
        rows = {peer: Row(name, peer, threads, weights_mb) for peer in peers}
        for row in rows.values():
            _measure_cold(row, path, feeds_path)
        runs: dict[str, Run] = {}
        outputs: dict[str, list[Array]] = {}
        for row in rows.values():
            if row.failure is None and (run := _load(row, path, feeds)) is not None:
                runs[row.peer], outputs[row.peer] = run
    calls = {peer: partial(run, feeds) for peer, run in runs.items()}
    timings = interleave(calls, repeat=repeat)
    for peer, timing in timings.items():
        row = rows[peer]
        row.median_ms, row.spread = timing.median * 1e3, timing.spread
        if peers[0] in timings:
            row.ratio = timing.median / timings[peers[0]].median
            row.error = relative_error(outputs[peer], outputs[peers[0]])
    return list(rows.values())


def write_model(name: str, path: Path) -> tuple[float, dict[str, Array]]:
    """Write the model with weights; return their size in MB, and inputs for it."""
    model = load_model(name)
    path.write_bytes(model.SerializeToString())
    return _weights_size(model) / 1e6, random_inputs(model)


def _weights_size(model: onnx.ModelProto) -> int:
    """Return the bytes of float32 weights; other constants are negligible."""
    floats = [t for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT]
    return sum(4 * math.prod(tensor.dims) for tensor in floats)


def _measure_cold(row: Row, path: Path, feeds: Path) -> None:
    """Fill in the figures of a new process."""
    try:
        figures = cold.measure(row.peer, path, feeds, row.threads)
    except RuntimeError as error:
        row.failure = str(error)
        return
    row.compile_s, row.first_call_s = figures["compile_s"], figures["first_call_s"]
    row.peak_mb = figures["peak_bytes"] / 1e6


def _load(row: Row, path: Path, feeds: Feeds) -> tuple[Run, list[Array]] | None:
    """Load the model into this process, and call it once; None if that fails."""
    try:
        run = load(row.peer, path, row.threads)
        return run, [np.array(output) for output in run(feeds)]
    except Exception as error:  # one peer's failure must not end the comparison
        row.failure = f"{type(error).__name__}: {error}"
        return None


def _print_rows(rows: Sequence[Row]) -> None:
    print(f"\n{rows[0].model}: {rows[0].weights_mb:.1f} MB of weights")
    print(f"  {'':12}{'median ms':>10}{'spread':>8}{'ratio':>7}{'error':>9}", end="")
    print(f"{'compile s':>11}{'1st call s':>12}{'peak MB':>9}")
    for row in rows:
        if row.failure is not None:
            print(f"  {row.peer:12} failed: {row.failure}")
            continue
        compared = "-".rjust(7) + "-".rjust(9)
        if row.ratio is not None:
            compared = f"{row.ratio:7.2f}{row.error:9.1e}"
        print(f"  {row.peer:12}{row.median_ms:10.3f}{row.spread:8.0%}{compared}", end="")
        print(f"{row.compile_s:11.2f}{row.first_call_s:12.3f}{row.peak_mb:9.0f}")


def _print_ratios(rows: Sequence[Row]) -> None:
    """Print the geometric mean of each peer's ratios."""
    print("\ngeometric mean of the ratios")
    for peer in dict.fromkeys(row.peer for row in rows):
        ratios = [row.ratio for row in rows if row.peer == peer and row.ratio is not None]
        if ratios:
            print(f"  {peer:12}{geometric_mean(ratios):7.2f}  ({len(ratios)} models)")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Command("models", "Compare tessella with its peers on models.")
    parser.add_names("model", NAMES)
    parser.add_threads()
    parser.add_repeat(20, "timed calls")
    parser.add_peers(PEERS)
    return parser.parse(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if anything failed."""
    options = _parse(arguments)
    where = show_machine()
    peers = available(options.peers)
    if not peers:
        print("error: none of the peers is installed")
        return 1
    print(f"threads: {options.threads}; ratio and error are against {peers[0]}")
    rows: list[Row] = []
    for name in options.names:
        rows += (new := compare(name, peers, threads=options.threads, repeat=options.repeat))
        _print_rows(new)
    _print_ratios(rows)
    write_figures(options.json, where, rows=[asdict(row) for row in rows])
    return int(any(row.failure is not None for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
