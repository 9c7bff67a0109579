"""Compare tessella with its peers, and with what the machine can do, on single kernels.

    python -m bench.kernels [GROUP ...] --threads 1 --repeat 20 --json results.json

Each kernel is a model of one node, or of a node with what is fused to it. Peers are timed in turn
with three roofs, on as many threads: a loop of multiply-adds, and reading and copying as many bytes
as the kernel has to move. Beside that: vector registers spilled in inner loops, and the time to
compile.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from time import perf_counter
from typing import Any

import onnx

from bench.assembly import spills
from bench.cases import GROUPS, Case, Workload, workload
from bench.command import Command, show_machine, write_figures
from bench.contest import contest
from bench.roofs import Roof, Roofs
from tessella import targets
from tessella.driver.tune.calibrate import level_sizes
from tessella.tools.measure import (
    CallTimes,
    geometric_mean,
    interleave,
    relative_error,
)
from tessella.tools.peers import PEERS, available
from tests.models import random_inputs

OURS = "tessella"

TURN = 0.002
"""The least seconds of a contestant's turn."""

COMPILE_GOAL = 0.150
"""Median seconds to compile a kernel."""


@dataclass(frozen=True)
class Goal:
    """The goals of a group: speed relative to the faster peer, and shares of roofs."""

    each: float | None = None
    mean: float | None = None
    peak: float | None = None
    bandwidth: float | None = None

    @property
    def is_of_each(self) -> bool:
        """True if some goal applies to each kernel, not only to the mean."""
        return any(value is not None for value in (self.each, self.peak, self.bandwidth))

    def __str__(self) -> str:
        parts = (
            (self.each, "each at least {:.2f} of the faster peer"),
            (self.mean, "geometric mean at least {:.2f} of it"),
            (self.peak, "{:.0%} of the peak"),
            (self.bandwidth, "{:.0%} of the bandwidth"),
        )
        return ", ".join(text.format(value) for value, text in parts if value is not None)


GOALS = {
    "matmul": Goal(each=0.98, peak=0.95),
    "odd": Goal(each=1.0),
    "gemv": Goal(each=1.0, bandwidth=0.90),
    "batched": Goal(each=1.0),
    "resnet50": Goal(each=0.97, mean=1.0),
    "images": Goal(each=0.97, mean=1.0),
    "depthwise": Goal(mean=1.1),
    "rows": Goal(each=1.15),
    "memory": Goal(each=1.0, bandwidth=0.85),
    "resize": Goal(each=1.0),
    "relayout": Goal(bandwidth=0.60),
}


@dataclass
class Row:
    """One kernel. Figures of peers that failed are missing."""

    group: str
    name: str
    workload: Workload
    ms: dict[str, float] = field(default_factory=dict[str, float])
    """Median by peer."""
    spread: dict[str, float] = field(default_factory=dict[str, float])
    error: dict[str, float] = field(default_factory=dict[str, float])
    """Against the first peer that ran."""
    failures: dict[str, str] = field(default_factory=dict[str, str])
    peak_gflops: float | None = None
    read_gbs: float | None = None
    copy_gbs: float | None = None
    spilled: int | None = None
    compile_ms: float | None = None

    @property
    def ratio(self) -> float | None:
        """The time of the faster peer over ours: above 1, we are faster."""
        others = [ms for peer, ms in self.ms.items() if peer != OURS]
        return min(others) / self.ms[OURS] if others and OURS in self.ms else None

    @property
    def of_peak(self) -> float | None:
        """The share of the FMA peak; None for a kernel without multiplications."""
        if self.peak_gflops is None or OURS not in self.ms or not self.workload.flops:
            return None
        return self.workload.flops / (self.ms[OURS] * 1e6) / self.peak_gflops

    @property
    def of_bandwidth(self) -> float | None:
        """The share of the bandwidth: the bytes written are copied, the others are read."""
        if self.read_gbs is None or self.copy_gbs is None or OURS not in self.ms:
            return None
        copied = 2 * min(self.workload.read, self.workload.written)
        roof = copied / self.copy_gbs + (self.workload.bytes - copied) / self.read_gbs
        return roof / (self.ms[OURS] * 1e6)

    def missed(self, goal: Goal) -> list[str]:
        """Return the goals for each kernel that are missed."""
        wanted = (
            ("ratio", self.ratio, goal.each),
            ("peak", self.of_peak, goal.peak),
            ("bandwidth", self.of_bandwidth, goal.bandwidth),
        )
        return [
            f"{name} {value:.2f} < {least:.2f}" if value is not None else f"no {name}"
            for name, value, least in wanted
            if least is not None and not (value is not None and value >= least)
        ]


# ** measuring **


class Bench:
    """The common parts of measuring kernels."""

    def __init__(self, peers: Sequence[str], threads: int, repeat: int, compiles: int) -> None:
        self.peers = peers
        self.threads = threads
        self.repeat = repeat
        self.compiles = compiles
        self.target = targets.native()
        self.roofs = Roofs(self.target, threads)

    def measure(self, case: Case) -> Row:
        """Measure one kernel on all peers."""
        model = case.build()
        row = Row(case.group, case.name, workload(model))
        if OURS in self.peers:
            self._compile(row, model)
        feeds = random_inputs(model)
        peers = {peer: PEERS[peer] for peer in self.peers}
        found = contest(model, peers, feeds, self.threads)
        row.failures |= found.failures
        expected = next(iter(found.outputs.values()), None)
        for peer, outputs in found.outputs.items():
            row.error[peer] = relative_error(outputs, expected or outputs)
        calls = found.calls
        roofs = self._roofs(row.workload)
        contestants = {**calls, **roofs}
        evict = self._read_memory() if case.cold else None
        timings = interleave(contestants, repeat=self.repeat, turn=TURN, evict=evict)
        _fill_in(row, calls, roofs, timings)
        return row

    def _roofs(self, workload: Workload) -> dict[str, Roof]:
        """Return loops to compare with; their names are no peer's."""
        return {
            "peak": self.roofs.flops(),
            "read": self.roofs.read(workload.bytes),
            "copy": self.roofs.copy(workload.bytes),
        }

    def _read_memory(self) -> Roof:
        return self.roofs.read(level_sizes(self.target)["memory"])

    def _compile(self, row: Row, model: onnx.ModelProto) -> None:
        """Measure the time to compile the model, and inspect its assembly."""
        tessella: Any = importlib.import_module(OURS)
        try:
            times = [_timed(tessella.compile, model) for _ in range(self.compiles)]
            text = tessella.compile(model).as_text("asm")
        except Exception as error:
            row.failures[OURS] = f"{type(error).__name__}: {error}"
            return
        row.compile_ms = median(times) * 1e3
        row.spilled = sum(found.registers for found in spills(text).values())


def _timed(function: Callable[..., object], *arguments: object) -> float:
    start = perf_counter()
    function(*arguments)
    return perf_counter() - start


def _fill_in(
    row: Row,
    peers: Mapping[str, object],
    roofs: Mapping[str, Roof],
    timings: Mapping[str, CallTimes],
) -> None:
    for peer in peers:
        row.ms[peer], row.spread[peer] = timings[peer].median * 1e3, timings[peer].spread
    rates = {name: roof.amount / timings[name].median / 1e9 for name, roof in roofs.items()}
    row.peak_gflops, row.read_gbs, row.copy_gbs = rates["peak"], rates["read"], rates["copy"]


# ** printing **


def _header(group: str, peers: Sequence[str]) -> str:
    names = "".join(f"{peer + ' us':>17}" for peer in peers)
    rest = (
        f"{'ratio':>7}{'peak':>6}{'bandw.':>8}{'error':>9}{'spread':>8}{'spilled':>9}{'compile':>9}"
    )
    return f"\n{group}: {GOALS[group]}\n  {'':32}{names}{rest}"


def _line(row: Row, peers: Sequence[str]) -> str:
    times = "".join(_cell(row.ms.get(peer), 17, ".1f", 1e3) for peer in peers)
    figures = (
        _cell(row.ratio, 7, ".2f"),
        _cell(row.of_peak, 6, ".0%"),
        _cell(row.of_bandwidth, 8, ".0%"),
        _cell(row.error.get(OURS), 9, ".0e"),
        _cell(row.spread.get(OURS), 8, ".0%"),
        _cell(row.spilled, 9, "d"),
        _cell(row.compile_ms, 6, ".0f") + " ms",
    )
    goal = GOALS[row.group]
    missed = ", ".join(row.missed(goal))
    verdict = (f"  missed: {missed}" if missed else "  met") if goal.is_of_each else ""
    failures = "".join(f"\n    {peer} failed: {text}" for peer, text in row.failures.items())
    return f"  {row.name:32}{times}{''.join(figures)}{verdict}{failures}"


def _cell(value: float | None, width: int, format: str, scale: float = 1) -> str:
    return (
        f"{value * scale if scale != 1 else value:{width}{format}}"
        if value is not None
        else "-".rjust(width)
    )


def _summary(rows: Sequence[Row]) -> str:
    """Return each group's geometric mean and whether it meets its goals; then those of all
    kernels."""
    groups = dict.fromkeys(row.group for row in rows)
    lines = ["", *(_group_summary([row for row in rows if row.group == g], g) for g in groups)]
    if ratios := [row.ratio for row in rows if row.ratio is not None]:
        lines.append(f"all: geometric mean of the ratios {geometric_mean(ratios):.2f}")
    spilling = [row.name for row in rows if row.spilled]
    lines.append(f"spilled vector registers in inner loops: {', '.join(spilling) or 'none'}")
    compiled = [row.compile_ms for row in rows if row.compile_ms is not None]
    if compiled:
        verdict = "met" if median(compiled) <= COMPILE_GOAL * 1e3 else "missed"
        lines.append(
            f"compile: median {median(compiled):.0f} ms, at most {max(compiled):.0f} ms; "
            f"goal {COMPILE_GOAL * 1e3:.0f} ms in the median: {verdict}"
        )
    return "\n".join(lines)


def _group_summary(rows: Sequence[Row], group: str) -> str:
    goal = GOALS[group]
    ratios = [row.ratio for row in rows if row.ratio is not None]
    mean = geometric_mean(ratios) if ratios else None
    parts: list[str] = []
    if goal.is_of_each:
        parts.append(f"{sum(not row.missed(goal) for row in rows)} of {len(rows)} met")
    if mean is not None:
        wanted = "" if goal.mean is None else " met" if mean >= goal.mean else " missed"
        parts.append(f"geometric mean of the ratios {mean:.2f}{wanted}")
    return f"{group}: {', '.join(parts)} ({goal})"


def _document(row: Row) -> dict[str, Any]:
    derived = {"ratio": row.ratio, "of_peak": row.of_peak, "of_bandwidth": row.of_bandwidth}
    return asdict(row) | derived | {"missed": row.missed(GOALS[row.group])}


# ** the command line **


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Command("kernels", "Compare tessella on single kernels.")
    parser.add_names("group", GROUPS)
    parser.add_argument("--case", default="", metavar="TEXT", help="only names that contain it")
    parser.add_threads()
    parser.add_repeat(20)
    parser.add_argument("--compiles", type=int, default=3, help="timed compilations (default: 3)")
    parser.add_peers(PEERS)
    return parser.parse(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if a peer failed."""
    options = _parse(arguments)
    where = show_machine()
    peers = available(options.peers)
    bench = Bench(peers, options.threads, options.repeat, options.compiles)
    print(f"threads: {options.threads}; target: {bench.target.name}")
    print("peak and bandwidth: shares of what the machine does in loops, in the same run")
    rows: list[Row] = []
    for group in options.names:
        cases = [case for case in GROUPS[group]() if options.case in case.name]
        if cases:
            print(_header(group, peers))
        for case in cases:
            rows.append(bench.measure(case))
            print(_line(rows[-1], peers), flush=True)
    print(_summary(rows))
    write_figures(options.json, where, rows=[_document(row) for row in rows])
    return int(any(row.failures for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
