"""Fair timing: equal inputs, interleaved turns, medians."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.support.versions import installed
from tessella.targets import threads
from tessella.targets.machine import processor_name

Array = npt.NDArray[Any]

_WINDOW, _LONGEST = 0.005, 1.0
"""Seconds for which the load of the process is observed, and the most seconds of waiting until it
is idle."""

_IDLE = 0.05
"""The fraction of a core that an idle process uses at most."""


@dataclass(frozen=True)
class CallTimes:
    """Times of a call in seconds, one for each turn."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median in seconds."""
        return median(self.seconds)

    @property
    def p90(self) -> float:
        """The 90th percentile in seconds."""
        return float(np.percentile(self.seconds, 90))

    @property
    def spread(self) -> float:
        """The interquartile range as a fraction of the median."""
        if len(self.seconds) < 2:
            return 0.0
        low, _, high = quantiles(self.seconds, n=4)
        return (high - low) / self.median


def settle() -> None:
    """Wait until the process is idle.

    After their work, some runtimes' threads spin for up to 50 ms, on cores that the next contestant
    needs.
    """
    end = time.perf_counter() + _LONGEST
    while time.perf_counter() < end:
        used, began = time.process_time(), time.perf_counter()
        time.sleep(_WINDOW)
        if time.process_time() - used < _IDLE * (time.perf_counter() - began):
            return


def interleave(
    contestants: Mapping[str, Callable[[], object]],
    *,
    repeat: int,
    warmup: int = 2,
    turn: float = 0.0,
    evict: Callable[[], object] | None = None,
) -> dict[str, CallTimes]:
    """Time ``repeat`` turns of each contestant, interleaved, after ``warmup`` untimed rounds.

    Interleaving exposes all contestants to a disturbance of the machine. A turn is a pause, untimed
    calls that refill the caches, and the same number of timed calls: one, or as many as fit into
    ``turn`` seconds, so that short calls are timed together. If ``evict`` is given, it is called
    instead of the untimed calls, and one call is timed with cold caches.
    """
    counts = {name: 1 if evict else _calls_in(turn, call) for name, call in contestants.items()}
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for round in range(warmup + repeat):
        for name, call in contestants.items():
            settle()
            if evict is not None:
                evict()
            else:
                _seconds(call, counts[name])
            elapsed = _seconds(call, counts[name])
            if round >= warmup:
                seconds[name].append(elapsed)
    return {name: CallTimes(tuple(times)) for name, times in seconds.items()}


def _seconds(call: Callable[[], object], count: int) -> float:
    """Return the seconds of one call, averaged over ``count`` calls."""
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def _calls_in(seconds: float, call: Callable[[], object]) -> int:
    """Return how many calls take about ``seconds`` in total, at least 1."""
    if not seconds:
        return 1
    once = min(_seconds(call, 1) for _ in range(3))
    return max(1, round(seconds / once))


def relative_error(found: Sequence[Array], expected: Sequence[Array]) -> float:
    """Return the largest difference over an output's largest value; infinite if shapes differ."""
    if [output.shape for output in found] != [output.shape for output in expected]:
        return math.inf
    pairs = zip(found, expected, strict=True)
    return max(float(np.abs(ours - theirs).max() / np.abs(theirs).max()) for ours, theirs in pairs)


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive numbers, at least one."""
    return math.exp(sum(map(math.log, values)) / len(values))


def machine() -> dict[str, Any]:
    """Return the facts about this machine on which measurements depend, under the names that
    reports use, and its load."""
    packages = ("numpy", "onnxruntime", "openvino", "ncnn", "jax", "numba", "llvmlite", "tessella")
    return {
        "processor": processor_name(),
        "cores": threads.cores(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "versions": {
            "python": platform.python_version(),
            **{name: version for name in packages if (version := installed(name))},
        },
    }


def peak_memory() -> int:
    """Return the peak resident memory of this process in bytes.

    ``getrusage`` is unsuitable: there, a process starts with the peak of its parent.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmHWM")
