"""Narrow numbers against the other runtimes: int8, bfloat16 and float16.

    python -m bench.narrow [TEXT ...] --threads 1,2 --repeat 20 --json results.json

The same file is given to all runtimes, which take turns. Models are quantised by ``tessella
quantize`` with random samples. An error is the largest difference from the results of the model in
f32 over their largest value. The ratio is the fastest other runtime's time over tessella's. Of a
product, the share of the peak is that of its instruction, in a loop on registers on each thread; of
a packed product with one row, that of loops that only read as many bytes as the weights have.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from bench.command import Command, show_machine, write_figures
from bench.contest import contest
from bench.instruction_peak import peak
from bench.narrow_cases import CASES, Case, Made
from bench.roofs import Roofs
from tessella import targets
from tessella.runtime.elements import widened
from tessella.tools.measure import Array, geometric_mean, interleave, relative_error
from tests.models import run_onnxruntime

TURN = 0.02
"""Seconds of calls in a turn."""

PEAK_SECONDS = 0.3


@dataclass
class Row:
    """A runtime on a case; if it failed, figures are None, and ``failure`` says how."""

    case: str
    threads: int
    peer: str
    median_ms: float | None = None
    spread: float | None = None
    error: float | None = None
    ratio: float | None = None
    """In tessella's row: the fastest other runtime's median over its own."""
    of_peak: float | None = None
    failure: str | None = None


def measure(case: Case, made: Made, threads: int, repeat: int) -> list[Row]:
    """A row for each runtime."""
    label = f"{case.group} {case.name}"
    rows = {peer: Row(label, threads, peer) for peer in case.peers}
    expected = None if made.wide is None else _expected(made)
    found = contest(made.model, case.peers, made.feeds, threads)
    for peer, failure in found.failures.items():
        rows[peer].failure = failure
    for peer, outputs in found.outputs.items():
        expected = outputs if expected is None else expected
        rows[peer].error = relative_error(_floats(outputs), _floats(expected))
    for peer, timing in interleave(found.calls, repeat=repeat, turn=TURN).items():
        rows[peer].median_ms, rows[peer].spread = timing.median * 1e3, timing.spread
    _compare(rows, case, made, threads)
    return list(rows.values())


def _expected(made: Made) -> list[Array]:
    assert made.wide is not None
    return run_onnxruntime(made.wide, dict(made.wide_feeds or made.feeds))


def _floats(arrays: Sequence[Array]) -> list[Array]:
    """Convert arrays to float64."""
    return [np.asarray(widened(array), np.float64) for array in arrays]


def _compare(rows: Mapping[str, Row], case: Case, made: Made, threads: int) -> None:
    """Fill in the ratio and the share of the peak."""
    ours = rows["tessella"]
    if ours.median_ms is None:
        return
    others = [row.median_ms for row in rows.values() if row is not ours and row.median_ms]
    ours.ratio = min(others) / ours.median_ms if others else None
    if made.weight_bytes:
        roof = Roofs(targets.native(), threads).read(made.weight_bytes)
        _share(rows, made.weight_bytes, roof.rate(PEAK_SECONDS))
    probe = peak(case.product, targets.native()) if case.product is not None else None
    if probe is not None:
        _share(rows, made.operations, probe.rate(PEAK_SECONDS) * threads)


def _share(rows: Mapping[str, Row], amount: float, best: float) -> None:
    """Fill in the share of the best rate at which an amount of work can be done."""
    for row in rows.values():
        if row.median_ms is not None:
            row.of_peak = amount / (row.median_ms * 1e-3) / best


def _print_rows(rows: Sequence[Row]) -> None:
    print(f"\n{rows[0].case}, threads: {rows[0].threads}")
    print(f"  {'':12}{'median ms':>10}{'spread':>8}{'error':>9}{'ratio':>7}{'of peak':>9}")
    for row in rows:
        if row.failure is not None:
            print(f"  {row.peer:12} failed: {row.failure}")
            continue
        ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
        share = "-" if row.of_peak is None else f"{row.of_peak:.0%}"
        print(f"  {row.peer:12}{row.median_ms:10.3f}{row.spread:8.0%}{row.error:9.1e}", end="")
        print(f"{ratio:>7}{share:>9}", flush=True)


def _print_means(rows: Sequence[Row]) -> None:
    """Print the geometric mean of the ratios of each group."""
    print("\ngeometric mean of the ratios")
    for key in dict.fromkeys((row.case.split()[0], row.threads) for row in rows):
        ratios = [r.ratio for r in rows if (r.case.split()[0], r.threads) == key and r.ratio]
        if ratios:
            print(f"  {key[0]:12}threads {key[1]}: {geometric_mean(ratios):.2f} ({len(ratios)})")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Command("narrow", "Compare narrow numbers with other runtimes.")
    parser.add_names("case", CASES, str.__contains__)
    parser.add_thread_counts([1, 2])
    parser.add_repeat(20)
    return parser.parse(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a runtime failed or an error is not finite."""
    options = _parse(arguments)
    where = show_machine()
    rows: list[Row] = []
    for name in options.names:
        made = CASES[name].make()
        for threads in options.threads:
            rows += (new := measure(CASES[name], made, threads, options.repeat))
            _print_rows(new)
    _print_means(rows)
    write_figures(options.json, where, rows=[asdict(row) for row in rows])
    return int(any(row.error is None or not math.isfinite(row.error) for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
