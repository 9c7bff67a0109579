"""Measurements of a model's runs, kernel by kernel: as a table, as JSON, and as a trace."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tessella.runtime.explain_native import RUNS
from tessella.runtime.schema import VERSION
from tessella.support.columns import aligned
from tessella.support.errors import OptionError
from tessella.targets import Target

_COLUMNS = (
    *("kernel", "nodes", "runs", "calls", "us", "share", "busy"),
    *("GFLOP/s", "MB", "GB/s", "roof", "model us", "model/us"),
)
_LEFT = 3
"""The number of leading columns that hold text and are aligned to the left."""
_WIDEST = 44
"""The width of the nodes column, in characters."""


@dataclass(frozen=True)
class ProfileRow:
    """The cost of a kernel call, a NumPy step, a copy or a barrier, per run."""

    kind: str
    """The kind of the row: ``kernel``, ``numpy``, ``device``, ``copy`` or ``barrier``."""
    kernel: str
    nodes: tuple[str, ...]
    where: str
    """The subprogram, if the program has graph breaks."""
    calls: int
    """The number of executions by a thread in a run; more than 1 in loops."""
    seconds: float
    """Seconds of all calls in a run on the slowest thread; the median over the runs."""
    busy: tuple[float, ...]
    """Seconds that each thread spends in the calls of a run; medians over the runs."""
    operations: int | None = None
    """Arithmetic operations of all calls; None if unknown."""
    bytes: int | None = None
    """Bytes that all calls read and write; each call counts a byte once. None if unknown."""
    roof: float | None = None
    """The least time of the calls in seconds, by the roofline; None if unknown.

    It is the larger of two times: operations at the peak of the threads that take part, or bytes
    from the nearest cache that holds a call's data.
    """
    estimate: float | None = None
    """The estimated time of the calls in seconds, by the cost model that kernels are picked by,
    divided by the threads that take part; None if unknown."""

    def step(self) -> Mapping[str, object]:
        """Return the row as a step with one call, in the schema of reports."""
        call = asdict(self)
        named = {name: call.pop(name) for name in ("kind", "nodes", "where")}
        return {**named, "kernel": self.kernel, "calls": [call]}

    @property
    def flops(self) -> float | None:
        """Arithmetic operations per second; None if unknown."""
        return None if self.operations is None else self.operations / max(self.seconds, 1e-12)

    @property
    def bandwidth(self) -> float | None:
        """Bytes read and written per second; None if unknown."""
        return None if self.bytes is None else self.bytes / max(self.seconds, 1e-12)

    @property
    def of_roof(self) -> float | None:
        """The roofline's time divided by the measured time; None if unknown."""
        return None if self.roof is None else self.roof / max(self.seconds, 1e-12)

    @property
    def ratio(self) -> float | None:
        """The estimated time divided by the measured time; None if unknown."""
        return None if self.estimate is None else self.estimate / max(self.seconds, 1e-12)


@dataclass(frozen=True)
class Activity:
    """A kernel call, NumPy step, copy or wait of a thread, with its start and end in seconds since
    the run began."""

    name: str
    kind: str
    nodes: tuple[str, ...]
    thread: int
    start: float
    end: float


@dataclass(frozen=True)
class Profile:
    """Measurements of a model's runs."""

    seconds: float
    """Seconds of a run; the median."""
    runs: int
    threads: int
    """The number of threads that took part."""
    machine: str
    """The target of the roofline and the estimates."""
    waiting: float
    """Seconds per run that a thread waits at barriers, averaged over the threads."""
    other: float
    """Seconds per run outside all rows: the call from Python, and its handling of arrays."""
    rows: tuple[ProfileRow, ...]
    """The cost of each call, step, copy and barrier, in program order."""
    spans: tuple[Activity, ...] = field(repr=False)
    """The activities of the threads in the run with the time closest to the median."""

    @property
    def in_numpy(self) -> float:
        """Seconds of a run that NumPy takes."""
        return sum(row.seconds for row in self.rows if row.kind == "numpy")

    def to_json(self) -> str:
        """Return the profile as JSON, without its spans.

        docs/report.md describes the fields: ``{"version", "machine", "totals", "steps"}``. Each row
        is a step.
        """
        run = {"threads": self.threads, "seconds": self.seconds, "runs": self.runs}
        parts = {"in_numpy": self.in_numpy, "waiting": self.waiting, "other": self.other}
        document = {
            "version": VERSION,
            "machine": {"target": self.machine},
            "totals": {**run, **parts},
            "steps": [row.step() for row in self.rows],
        }
        return json.dumps(document, indent=1)

    def trace(self, path: str | os.PathLike[str]) -> None:
        """Write the run in ``spans`` as a trace for Perfetto or Chrome (``chrome://tracing``).

        The trace shows the calls of each thread, and where it waited. Raises OptionError if the
        file cannot be written.
        """
        try:
            Path(path).write_text(json.dumps({"traceEvents": list(self._events())}))
        except OSError as error:
            raise OptionError(
                f"cannot write the trace: {error.strerror or error}", where=os.fspath(path)
            ) from error

    def __str__(self) -> str:
        kernels = sorted(
            (row for row in self.rows if row.kind != "barrier"), key=lambda row: -row.seconds
        )
        barriers = sum(row.kind == "barrier" for row in self.rows)
        plural = "s" * (self.threads != 1)
        return "\n".join(
            [
                *aligned([_COLUMNS, *map(self._cells, kernels)], _LEFT),
                "",
                f"a run takes {self.seconds * 1e6:.1f} us on {self.threads} thread{plural} of "
                f"{self.machine}, the median of {self.runs}",
                f"NumPy takes {self._part(self.in_numpy)}",
                f"at {barriers} barriers a thread waits {self._part(self.waiting)}; Python and "
                f"calls take {self._part(self.other)}",
            ]
        )

    def _mean(self, row: ProfileRow) -> float:
        return sum(row.busy) / self.threads

    def _part(self, seconds: float) -> str:
        return f"{seconds * 1e6:.1f} us ({seconds / max(self.seconds, 1e-12):.1%})"

    def _cells(self, row: ProfileRow) -> tuple[str, ...]:
        nodes = ", ".join(row.nodes)
        short = nodes if len(nodes) <= _WIDEST else f"{nodes[: _WIDEST - 3]}..."
        where = f" [{row.where}]" if row.where else ""
        busy = self._mean(row) / max(row.seconds, 1e-12)
        return (
            (row.kernel or row.kind) + where,
            short,
            RUNS[row.kind != "numpy"],
            str(row.calls),
            f"{row.seconds * 1e6:.1f}",
            f"{row.seconds / max(self.seconds, 1e-12):.1%}",
            f"{busy:.0%}",
            _number(row.flops, 1e9, ".1f"),
            _number(row.bytes, 1e6, ".3g"),
            _number(row.bandwidth, 1e9, ".1f"),
            _number(row.of_roof, 0.01, ".0f", "%"),
            _number(row.estimate, 1e-6, ".1f"),
            _number(row.ratio, 1, ".2f"),
        )

    def _events(self) -> Iterator[Mapping[str, object]]:
        named: dict[str, object] = {
            "name": "process_name",
            "ph": "M",
            "pid": 1,
            "args": {"name": "tessella"},
        }
        yield named
        for thread in range(self.threads):
            name = {"name": f"thread {thread}"}
            yield {"name": "thread_name", "ph": "M", "pid": 1, "tid": thread, "args": name}
        for span in self.spans:
            yield {
                "name": span.name,
                "cat": span.kind,
                "ph": "X",
                "pid": 1,
                "tid": span.thread,
                "ts": span.start * 1e6,
                "dur": (span.end - span.start) * 1e6,
                "args": {"nodes": list(span.nodes)},
            }


def roof(operations: int, size: int, bits: int, target: Target, threads: int) -> float:
    """Return a lower bound on the time of arithmetic operations and memory accesses on a target, in
    seconds.

    The bound is the roofline of Williams, Waterman and Patterson ("Roofline: an insightful visual
    performance model for multicore architectures", 2009). ``size`` is in bytes, and ``bits`` is the
    width of an element. The bandwidth is that of the nearest cache that holds the bytes; each of
    ``threads`` threads has the bandwidth of one core.
    """
    peak = 2 * target.fma_ports * target.lanes(bits)
    cycles = max(operations / peak, size / target.bandwidth_of_all(size))
    return cycles / threads / (target.ghz * 1e9)


def _number(value: float | None, unit: float, form: str, end: str = "") -> str:
    return "" if value is None else f"{value / unit:{form}}{end}"
