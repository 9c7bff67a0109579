"""What the machine can do on several threads: loops of native code, one on each, that run at once.

A thread of Python runs each loop, on a core of its own where there are enough. The pool of tessella
has no part in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from time import perf_counter

from tessella.driver.calibrate import Probe, Probes
from tessella.targets import Target

LONG = 0.002
"""Seconds that a run takes at the least, so that the start of threads does not show."""


@dataclass(frozen=True)
class Roof:
    """Loops that run at once, each of them several times."""

    probes: Sequence[Probe]
    turns: int
    threads: ThreadPoolExecutor

    @property
    def amount(self) -> float:
        """Operations, or bytes, of one run."""
        return self.turns * sum(probe.amount for probe in self.probes)

    def __call__(self) -> None:
        list(self.threads.map(self._run, self.probes))

    def _run(self, probe: Probe) -> None:
        for _ in range(self.turns):
            probe()


class Roofs:
    """The roofs of a target for so many threads. Sizes are those of all threads together."""

    def __init__(self, target: Target, threads: int) -> None:
        self.count = threads
        self._probes = Probes(target)
        self._threads = _pinned(threads)

    def flops(self) -> Roof:
        """Independent multiply-adds on vectors of f32; in floating-point operations."""
        return self._roof(lambda _: self._probes.flops(), 0)

    def read(self, size: int) -> Roof:
        """Read so many bytes."""
        return self._roof(self._probes.read, size)

    def copy(self, size: int) -> Roof:
        """Copy one half of so many bytes to the other; in bytes read and written."""
        return self._roof(self._probes.copy, size)

    def add(self, size: int) -> Roof:
        """Add two thirds of so many bytes to the last one; in bytes read and written."""
        return self._roof(self._probes.add, size)

    def _roof(self, probe: Callable[[int], Probe], size: int) -> Roof:
        # a thread's buffers are first written to by itself, on the node of its core
        parts = list(self._threads.map(probe, [-(-size // self.count)] * self.count))
        return Roof(parts, _turns(parts[0]), self._threads)


def _turns(probe: Probe) -> int:
    start = perf_counter()
    probe()
    return max(1, round(LONG / (perf_counter() - start)))


def _pinned(threads: int) -> ThreadPoolExecutor:
    """Threads that are kept on a core each, in turn."""
    cores, numbers = sorted(os.sched_getaffinity(0)), count()

    def pin() -> None:
        os.sched_setaffinity(0, {cores[next(numbers) % len(cores)]})

    return ThreadPoolExecutor(threads, initializer=pin)
