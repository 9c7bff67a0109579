"""Bounds on the time and memory of what may not end."""

from __future__ import annotations

import resource
import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


class TooLongError(BaseException):
    """The work took more of the processor's time than it may; nothing catches this by mistake."""


@contextmanager
def seconds(most: float) -> Generator[None]:
    """Raise TooLongError after so many seconds of the processor's time in Python's code."""

    def stop(signal: int, frame: FrameType | None) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, most)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def gigabytes(more: float) -> Generator[None]:
    """Let this process have so much more address space: whatever takes more is a MemoryError."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + int(more * 2**30), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
