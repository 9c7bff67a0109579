"""The machine's limits on several threads: native loops that run at once, one on each.

A Python thread runs each loop, on its own core if there are enough. tessella's pool takes no
part.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from time import perf_counter

from tessella.driver.tune.calibrate import Probe, Probes
from tessella.targets import Target

LONG = 0.002
"""The least seconds of a run, which makes the start of threads negligible."""


@dataclass(frozen=True)
class Roof:
    """Loops that run at once, each several times."""

    probes: Sequence[Probe]
    turns: int
    threads: ThreadPoolExecutor

    @property
    def amount(self) -> float:
        """Operations or bytes of one run."""
        return self.turns * sum(probe.amount for probe in self.probes)

    def rate(self, seconds: float) -> float:
        """Run the loops repeatedly for ``seconds``, and return the highest rate of a run, in
        operations or bytes per second."""
        end, best = perf_counter() + seconds, 0.0
        while best == 0.0 or perf_counter() < end:
            start = perf_counter()
            self()
            best = max(best, self.amount / (perf_counter() - start))
        return best

    def __call__(self) -> None:
        list(self.threads.map(self._run, self.probes))

    def _run(self, probe: Probe) -> None:
        for _ in range(self.turns):
            probe()


class Roofs:
    """The limits of a target for a number of threads. Sizes are totals over all threads."""

    def __init__(self, target: Target, threads: int) -> None:
        self.count = threads
        self._probes = Probes(target)
        self._threads = _pinned(threads)

    def flops(self) -> Roof:
        """Independent multiply-adds on f32 vectors; counted in floating-point operations."""
        return self._roof(lambda _: self._probes.flops(), 0)

    def read(self, size: int) -> Roof:
        """Read ``size`` bytes."""
        return self._roof(self._probes.read, size)

    def copy(self, size: int) -> Roof:
        """Copy one half of ``size`` bytes to the other; counts bytes read and written."""
        return self._roof(self._probes.copy, size)

    def add(self, size: int) -> Roof:
        """Add two thirds of ``size`` bytes into the last third; counts bytes read and written."""
        return self._roof(self._probes.add, size)

    def _roof(self, probe: Callable[[int], Probe], size: int) -> Roof:
        # Each thread first writes its buffers itself, which places them on its NUMA node.
        parts = list(self._threads.map(probe, [-(-size // self.count)] * self.count))
        return Roof(parts, _turns(parts[0]), self._threads)


def _turns(probe: Probe) -> int:
    start = perf_counter()
    probe()
    return max(1, round(LONG / (perf_counter() - start)))


def _pinned(threads: int) -> ThreadPoolExecutor:
    """Return threads that are pinned to a core each."""
    cores, numbers = sorted(os.sched_getaffinity(0)), count()

    def pin() -> None:
        os.sched_setaffinity(0, {cores[next(numbers) % len(cores)]})

    return ThreadPoolExecutor(threads, initializer=pin)
