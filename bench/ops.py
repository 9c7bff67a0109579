"""Single ops against the other runtimes, at three sizes.

    python -m bench.ops [TEXT ...] --sizes call,l2,memory --threads 1,2 --repeat 7 --json FILE

Each op is a model of one node, whose file is given to all runtimes. A size is a budget of bytes for
inputs and outputs: `call` is bound by what a call costs, `l2` fits into half of the second level of
cache, and `memory` comes from beyond the last one. Beside the ops, at their own size: a graph
network, and a detector with its suppression. Results are compared first: an op is wrong if no other
runtime gives what tessella does, and a runtime that gives something else is left out of the
comparison. A ratio is the time of the fastest other runtime over that of tessella.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import onnx

import tessella
from bench.command import Command, show_machine, write_figures
from bench.contest import Load, contest
from bench.op_cases import OPS
from bench.op_networks import NETWORKS
from tessella import targets
from tessella.runtime.elements import widened
from tessella.runtime.explain_native import RUNS
from tessella.targets import Target
from tessella.tools.measure import Array, geometric_mean, interleave
from tessella.tools.peers import Feeds, Run, load_onnxruntime, load_openvino

OURS = "tessella"
OTHERS: Mapping[str, Load] = {"onnxruntime": load_onnxruntime, "openvino": load_openvino}

TURN = 0.02
"""Seconds of calls in a turn."""
SLOW = 1.0
"""Seconds of a call from which contestants are measured by a single call."""
GOAL = 0.9
"""The least ratio of each op."""
SLOWEST = 10
"""The number of ops that the summary lists."""

CALL_BYTES = 8 << 10
"""About 1000 elements of an input and of an output."""
MOST_BYTES = 64 << 20

TOLERANCE: Mapping[str, float] = {"f": 1e-4, "i": 0.0, "u": 0.0, "b": 0.0}
"""The largest difference over the largest value, by the kind of the elements."""
NARROW_TOLERANCE = 1e-2
"""For elements of 8 and 16 bits: the last bit of a rounded value may differ."""

Model = Callable[[], tuple[onnx.ModelProto, Feeds]]
BUDGETS: Mapping[str, Callable[[Target], int]] = {
    "call": lambda target: CALL_BYTES,
    "l2": lambda target: target.l2 // 2,
    "memory": lambda target: min(4 * target.l3, MOST_BYTES),
}
"""Budgets for inputs and outputs in bytes, by the name of the size."""


@dataclass
class Row:
    """An op at a size, on all runtimes."""

    name: str
    size: str
    threads: int
    ms: dict[str, float] = field(default_factory=dict[str, float])
    """Medians of the runtimes that agree with tessella."""
    failures: dict[str, str] = field(default_factory=dict[str, str])
    differs: list[str] = field(default_factory=list[str])
    """The runtimes that disagree."""
    runs: str = ""
    """`native`, `NumPy`, or the number of ops that NumPy runs."""

    @property
    def wrong(self) -> bool:
        """True if all other runtimes disagree."""
        return bool(self.differs) and not self.ms.keys() - {OURS}

    @property
    def ratio(self) -> float | None:
        """The time of the fastest other runtime over tessella's."""
        others = [ms for peer, ms in self.ms.items() if peer != OURS]
        return min(others) / self.ms[OURS] if others and OURS in self.ms else None

    @property
    def failed(self) -> bool:
        return OURS in self.failures or self.wrong


def measure(name: str, size: str, made: Model, threads: int, repeat: int) -> Row:
    """Compare the results of all runtimes, then time those that agree."""
    row = Row(name, size, threads)
    model, feeds = made()
    found = contest(model, {OURS: partial(_load, row), **OTHERS}, feeds, threads)
    row.failures = dict(found.failures)
    if OURS not in found.outputs:
        return row
    ours = found.outputs[OURS]
    row.differs = [p for p, theirs in found.outputs.items() if not _agree(ours, theirs)]
    calls = {peer: call for peer, call in found.calls.items() if peer not in row.differs}
    row.ms = _timed(calls, repeat)
    return row


def _load(row: Row, path: Path, threads: int) -> Run:
    """Load tessella. After the first call, the row says what NumPy runs."""
    model = tessella.compile(str(path), threads=threads)

    def first(feeds: Feeds) -> list[Array]:
        outputs = model.run(None, feeds)
        row.runs = row.runs or _runs(model)
        return outputs

    return first


def _runs(model: Any) -> str:
    covered = model.explain().coverage
    if not covered.in_numpy:
        return RUNS[True]
    some = f" {covered.ops - covered.native}/{covered.ops}" if covered.native else ""
    return f"{RUNS[False]}{some}"


def _agree(found: Sequence[Array], expected: Sequence[Array]) -> bool:
    return len(found) == len(expected) and all(map(_close, found, expected))


def _close(ours: Array, theirs: Array) -> bool:
    """Return whether two results are equal up to rounding."""
    if ours.shape != theirs.shape:
        return False
    if not ours.size:
        return True
    narrow = ours.dtype.itemsize < 4 and ours.dtype != bool
    bound = NARROW_TOLERANCE if narrow else TOLERANCE.get(ours.dtype.kind, NARROW_TOLERANCE)
    a, b = (np.asarray(widened(array), np.float64) for array in (ours, theirs))
    return bool(np.abs(a - b).max() <= bound * np.abs(b).max())


def _timed(calls: Mapping[str, Callable[[], object]], repeat: int) -> dict[str, float]:
    """Return medians in milliseconds."""
    once = {peer: _seconds(call) for peer, call in calls.items()}
    if max(once.values()) > SLOW:
        return {peer: seconds * 1e3 for peer, seconds in once.items()}
    timings = interleave(calls, repeat=repeat, turn=TURN)
    return {peer: timing.median * 1e3 for peer, timing in timings.items()}


def _seconds(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def cases(size: str, target: Target) -> Mapping[str, Model]:
    """Return the models of a size, by name."""
    if size == NETWORK:
        return NETWORKS
    budget = BUDGETS[size](target)

    def made(name: str) -> tuple[onnx.ModelProto, Feeds]:
        n = OPS[name].fitted(budget)
        return OPS[name].model(n), OPS[name].feeds(n)

    return {name: partial(made, name) for name in OPS}


NETWORK = "network"
"""The name of the size for models with their own sizes."""
SIZES = (*BUDGETS, NETWORK)


# ** printing **


def _header() -> str:
    names = "".join(f"{peer + ' us':>16}" for peer in (OURS, *OTHERS))
    return f"  {'':32}{names}{'ratio':>7}  runs"


def _line(row: Row) -> str:
    times = "".join(
        f"{row.ms[peer] * 1e3:16.1f}" if peer in row.ms else f"{_lack(row, peer):>16}"
        for peer in (OURS, *OTHERS)
    )
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
    verdict = "  WRONG" if row.wrong else ""
    failure = f"\n    {row.failures[OURS]}" if OURS in row.failures else ""
    return f"  {row.name:32}{times}{ratio:>7}  {row.runs}{verdict}{failure}"


def _lack(row: Row, peer: str) -> str:
    """Return why a runtime has no time."""
    return "differs" if peer in row.differs else "failed" if peer in row.failures else "-"


def summary(rows: Sequence[Row]) -> list[str]:
    """Return geometric means, the slowest ops, and the missed goals."""
    lines = ["", "geometric mean of the ratios"]
    keys = dict.fromkeys((row.size, row.threads) for row in rows)
    kinds = {kind: [row for row in rows if row.runs.startswith(kind)] for kind in RUNS.values()}
    lines += [_mean(f"{size}, threads {count}", _at(rows, size, count)) for size, count in keys]
    lines += [_mean(kind, some) for kind, some in {**kinds, "all": rows}.items()]
    behind = sorted(
        (row for row in rows if row.ratio is not None and row.ratio < GOAL),
        key=lambda row: row.ratio or 0.0,
    )
    compared = sum(row.ratio is not None for row in rows)
    lines += [f"below {GOAL}: {len(behind)} of {compared}", f"the {SLOWEST} slowest:"]
    for row in behind[:SLOWEST]:
        where = f"{row.name} ({row.size}, threads {row.threads})"
        lines.append(f"  {where:52}{row.ratio:7.3f}  {row.runs}")
    wrong = [f"{row.name} ({row.size})" for row in rows if row.wrong]
    failed = [f"{row.name} ({row.size})" for row in rows if OURS in row.failures]
    return [
        *lines,
        f"wrong: {', '.join(wrong) or 'none'}",
        f"failed: {', '.join(failed) or 'none'}",
    ]


def _at(rows: Sequence[Row], size: str, threads: int) -> list[Row]:
    return [row for row in rows if (row.size, row.threads) == (size, threads)]


def _mean(label: str, rows: Sequence[Row]) -> str:
    ratios = [row.ratio for row in rows if row.ratio is not None]
    mean = f"{geometric_mean(ratios):.2f}" if ratios else "-"
    return f"  {label:24}{mean:>6}  ({len(ratios)} of {len(rows)})"


# ** the command line **


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Command("ops", "Compare single ops with other runtimes.")
    parser.add_names("op", [*OPS, *NETWORKS], str.__contains__)
    parser.add_listed("size", SIZES)
    parser.add_thread_counts([1, 2])
    parser.add_repeat(7)
    return parser.parse(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if tessella failed or was wrong."""
    options = _parse(arguments)
    where = show_machine()
    target = targets.native()
    rows: list[Row] = []
    for threads in options.threads:
        for size in options.sizes:
            models = cases(size, target)
            named = [name for name in options.names if name in models]
            if named:
                print(f"\n{size}, threads: {threads}\n{_header()}")
            for name in named:
                rows.append(measure(name, size, models[name], threads, options.repeat))
                print(_line(rows[-1]), flush=True)
    print("\n".join(summary(rows)))
    listed = [asdict(row) | {"ratio": row.ratio, "wrong": row.wrong} for row in rows]
    write_figures(options.json, where, rows=listed)
    return int(any(row.failed for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
