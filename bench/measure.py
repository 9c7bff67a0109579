"""Timing that is fair to all: same inputs, turn by turn, medians."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from statistics import median, quantiles
from typing import Any

# After their work, the threads of some runtimes spin for a while before they sleep.
_PAUSE = 0.005


@dataclass(frozen=True)
class Timing:
    """Times of single calls, in seconds."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Half of the calls took no longer than this, in seconds."""
        return median(self.seconds)

    @property
    def spread(self) -> float:
        """The distance between the quartiles, as a fraction of the median."""
        if len(self.seconds) < 2:
            return 0.0
        low, _, high = quantiles(self.seconds, n=4)
        return (high - low) / self.median


def interleave(
    contestants: Mapping[str, Callable[[], object]], *, repeat: int, warmup: int = 2
) -> dict[str, Timing]:
    """Time ``repeat`` calls of each contestant, one each in turn, after ``warmup`` untimed rounds.

    Interleaved, a disturbance of the machine hits all of them. A turn is a pause, an untimed call,
    which takes the caches back from the one before, and a timed one.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(warmup + repeat):
        for name, call in contestants.items():
            time.sleep(_PAUSE)
            call()
            start = time.perf_counter()
            call()
            elapsed = time.perf_counter() - start
            if turn >= warmup:
                seconds[name].append(elapsed)
    return {name: Timing(tuple(times)) for name, times in seconds.items()}


def machine() -> dict[str, Any]:
    """What the figures depend on: the processor, the load on it, and versions."""
    packages = ("numpy", "onnxruntime", "openvino", "llvmlite", "tessella")
    return {
        "cpu": _cpu_name(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: version for name in packages if (version := _version(name))},
    }


def _cpu_name() -> str:
    """The processor's name, as Linux tells it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def peak_memory() -> int:
    """The most memory that this process has had resident so far, in bytes.

    Not ``getrusage``: there, a process starts with the peak of the one that launched it.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmHWM")
