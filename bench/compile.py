"""The time from a model's file to its first answer, and the memory it takes, against other
runtimes.

    python -m bench.compile [NAME ...] --repeat 5 --json results.json

Each figure is of a process that does nothing else, from its start, imports included, to its first
answer. Cold runs have no cache. Warm runs have the cache of an earlier process: tessella's, and
OpenVINO's cache folder; ONNX Runtime has none. Contestants are interleaved, which exposes all to a
disturbance of the machine; figures are medians.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.command import Command, show_machine, write_figures
from bench.contest import attempt
from bench.detector import SIZE, detector
from bench.models import NAMES, write_model
from tessella.tools.measure import geometric_mean
from tessella.tools.peers import PEERS, available

MODELS = (*NAMES, "detector")
"""The models of ``bench.models``, and one with a different kernel for each convolution."""

CACHED = ("tessella", "openvino")
"""The peers that cache compiled models on disk."""


@dataclass(frozen=True)
class Run:
    """One process: seconds to its first answer, processor time of it and its children, and its peak
    memory."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int


@dataclass(frozen=True)
class Row:
    """Medians of one peer on one model, cold or warm; or why there are none."""

    model: str
    peer: str
    cache: str
    seconds: float | None = None
    cpu_seconds: float | None = None
    peak_mb: float | None = None
    failure: str | None = None


def run_once(peer: str, model: Path, feeds: Path, cache: Path | None) -> Run:
    """Load and call a model in a new process. Raises RuntimeError if the peer fails."""
    before, began = os.times(), time.perf_counter()
    result = subprocess.run(
        [sys.executable, "-m", "bench.first", peer, str(model), str(feeds)],
        env=_environment(cache),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if result.returncode != 0:
        lines = result.stderr.strip().splitlines() or ["it said nothing"]
        raise RuntimeError(f"exit status {result.returncode}: {lines[-1]}")
    after, figures = os.times(), json.loads(result.stdout.splitlines()[-1])
    spent = sum(after[2:4]) - sum(before[2:4])
    return Run(figures["answered"] - began, spent, figures["peak_bytes"])


def _environment(cache: Path | None) -> Mapping[str, str]:
    caches = {"TESSELLA_CACHE": "off"}
    if cache is not None:
        caches = {"TESSELLA_CACHE": str(cache), "BENCH_OPENVINO_CACHE": str(cache / "openvino")}
    # The untimed turn fills Python's bytecode cache.
    rest = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**rest, **caches}


def compare(name: str, peers: Sequence[str], repeat: int) -> list[Row]:
    """Measure all peers on one model, cold and warm."""
    with TemporaryDirectory() as folder:
        model, feeds, cache = (Path(folder) / part for part in ("m.onnx", "feeds.npz", "cache"))
        arrays = _write(name, model)
        np.savez(feeds, allow_pickle=False, **arrays)
        contestants = [(peer, None) for peer in peers]
        contestants += [(peer, cache) for peer in peers if peer in CACHED]
        runs: dict[tuple[str, Path | None], list[Run]] = {key: [] for key in contestants}
        failures: dict[tuple[str, Path | None], str] = {}
        for turn in range(repeat + 1):
            # the turn before the first one fills the caches
            able = [key for key in contestants if key not in failures and (turn or key[1])]
            calls = {key: partial(run_once, key[0], model, feeds, key[1]) for key in able}
            found, failed = attempt(calls)
            failures |= failed
            for key, run in found.items() if turn else ():
                runs[key].append(run)
        return [_row(name, *key, runs[key], failures.get(key)) for key in contestants]


def _write(name: str, path: Path) -> dict[str, npt.NDArray[Any]]:
    """Write the model and return inputs for it."""
    if name != "detector":
        return write_model(name, path)[1]
    path.write_bytes(detector().SerializeToString())
    image = np.random.default_rng(0).standard_normal((1, 3, SIZE, SIZE), np.float32)
    return {"image": image}


def _row(name: str, peer: str, cache: Path | None, runs: Sequence[Run], failure: str | None) -> Row:
    kind = "cold" if cache is None else "warm"
    if failure is not None:
        return Row(name, peer, kind, failure=failure)
    return Row(
        name,
        peer,
        kind,
        median(run.seconds for run in runs),
        median(run.cpu_seconds for run in runs),
        median(run.peak_bytes for run in runs) / 1e6,
    )


def _print_rows(rows: Sequence[Row]) -> None:
    print(f"\n{rows[0].model}")
    print(f"  {'':12}{'cache':>6}{'seconds':>9}{'CPU s':>8}{'peak MB':>9}")
    for row in rows:
        if row.failure is not None:
            print(f"  {row.peer:12}{row.cache:>6} failed: {row.failure}")
        else:
            print(f"  {row.peer:12}{row.cache:>6}{row.seconds:9.2f}", end="")
            print(f"{row.cpu_seconds:8.2f}{row.peak_mb:9.0f}")


def _print_means(rows: Sequence[Row]) -> None:
    print("\ngeometric mean of the seconds")
    for peer, cache in dict.fromkeys((row.peer, row.cache) for row in rows):
        mine = [row for row in rows if (row.peer, row.cache) == (peer, cache)]
        seconds = [row.seconds for row in mine if row.seconds is not None]
        if seconds:
            print(f"  {peer:12}{cache:>6}{geometric_mean(seconds):9.2f}  ({len(seconds)} models)")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Command("compile", "Time from a model's file to its first answer.")
    parser.add_names("model", MODELS)
    parser.add_repeat(5, "processes each")
    parser.add_peers(PEERS)
    return parser.parse(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 1 if anything failed."""
    options = _parse(arguments)
    where = show_machine()
    peers = available(options.peers)
    rows: list[Row] = []
    for name in options.names:
        rows += (new := compare(name, peers, options.repeat))
        _print_rows(new)
    _print_means(rows)
    write_figures(options.json, where, rows=[asdict(row) for row in rows])
    return int(not rows or any(row.failure is not None for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
