"""A model that predicts rows per second for many workers from figures of one and two processes.

Workers share a machine's memory and its caches, each machine has coordinators that read and write
tables, and a link carries rows to other machines. The slowest of these limits a layout.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ASSUMPTIONS = (
    "All rows take equally long, and all cores are as fast as those measured.",
    "A worker has a core to itself, and its time is its processor time.",
    "Each further worker of a machine slows all others by as much as the second slows the first.",
    "A coordinator has a core in addition to those of the workers, and takes as long for a row of "
    "Ray's workers as for a row of processes.",
    "The link of a coordinator carries the rows of all machines but its own; tables are on disks "
    "that are never the limit.",
    "All workers start at once; a machine has a worker for each core; no worker fails.",
)
"""The assumptions under which predictions are right."""


@dataclass(frozen=True)
class ScaleFigures:
    """Figures of one artifact on one machine."""

    block_rows: int
    row_seconds: float
    """Processor seconds of a worker for a row, if it runs alone."""
    row_seconds_of_two: float
    """The same, if two workers run."""
    coordinator_seconds: float
    """Processor seconds of a coordinator for a row."""
    row_bytes: float
    """Bytes of a row that go to a worker and come back."""
    start_seconds: float
    """Seconds from the start of a worker to its first block."""
    one_process_bytes: float
    further_process_bytes: float

    @property
    def contention(self) -> float:
        """The share by which a second worker slows the first; 0 if it measured as faster."""
        return max(0.0, self.row_seconds_of_two / self.row_seconds - 1)


@dataclass(frozen=True)
class Layout:
    """Workers on machines, and the coordinators that give them rows."""

    name: str
    machines: int
    workers: int
    """The number of workers on each machine."""
    coordinators: int
    """The number of coordinators in all. One for several machines sends rows over its link."""


def layouts(cores: int, machines: int) -> Sequence[Layout]:
    """Return one and two processes, a full machine, and many machines with and without a
    coordinator each."""
    return (
        Layout("1 process", 1, 1, 1),
        Layout("2 processes", 1, 2, 1),
        Layout("1 machine", 1, cores, 1),
        Layout(f"{machines} machines, a coordinator each", machines, cores, machines),
        Layout(f"{machines} machines, one coordinator", machines, cores, 1),
    )


@dataclass(frozen=True)
class Prediction:
    """The rates and the memory that the model predicts for a layout."""

    rates: Mapping[str, float]
    """Rows per second that each resource allows."""
    machine_bytes: float
    """Memory of the workers of a machine."""
    job_seconds: float

    @property
    def limit(self) -> str:
        """The resource that allows the fewest rows per second."""
        return min(self.rates, key=self.rates.__getitem__)

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rates[self.limit]


def predict(
    figures: ScaleFigures, layout: Layout, *, rows: int, link: float, contention: float
) -> Prediction:
    """Predict a layout's rate, and its time for ``rows`` rows.

    ``link`` is in bytes per second. ``contention`` is the share by which each further worker of a
    machine slows the others.
    """
    seconds = figures.row_seconds * (1 + contention * (layout.workers - 1))
    workers = layout.machines * layout.workers
    rates = {"workers": workers / seconds}
    rates["coordinator"] = layout.coordinators / figures.coordinator_seconds
    remote = 1 - layout.coordinators / layout.machines
    if remote:
        rates["link"] = link / figures.row_bytes / remote
    rounds = math.ceil(rows / figures.block_rows / workers)
    busy = max(rounds * figures.block_rows * seconds, *(rows / rate for rate in rates.values()))
    further = (layout.workers - 1) * figures.further_process_bytes
    memory = figures.one_process_bytes + further
    return Prediction(rates, memory, figures.start_seconds + busy)
