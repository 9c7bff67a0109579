"""What native code did, and when: the events that segments write when they are profiled.

Beside each segment stands a second one that writes an event before each kernel, barrier and copy,
and one at its end: the time, as the system's clock gives it, and the number of what begins. What is
not profiled runs the first one, and pays nothing.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.runtime.arena import address
from tessella.runtime.pool import CONTEXT, CONTEXT_SLOTS
from tessella.support.errors import OptionError
from tessella.support.sizes import Size, estimated, value_of

Array = npt.NDArray[Any]

PROFILED = ".profiled"
"""The end of the name of a segment that writes events."""

EVENT = np.dtype([("seconds", "i8"), ("nanoseconds", "i8"), ("number", "i8")])
"""The time, as ``clock_gettime`` writes it, and what begins: a number in ``Program.calls``."""
NUMBER = 16
"""Bytes before the number."""
END = -1
"""The number of the end of a segment."""

CLOCK, CLOCK_ID, NEXT, LAST = (
    CONTEXT.index(name) for name in ("clock", "clock_id", "event", "events_end")
)
"""The slots of a context: the function and the clock that it reads; where the next event goes, and
where there is no more room."""


@dataclass(frozen=True)
class Call:
    """What a segment does from one event to the next."""

    kernel: str
    """The kernel that it calls; empty for others."""
    kind: str
    """``kernel``, ``barrier`` or ``copy``."""
    nodes: tuple[str, ...] = ()
    """What the call computes."""
    divided: bool = False
    """Whether all threads take part."""


@dataclass(frozen=True)
class Work:
    """What a call of a kernel has to do."""

    operations: Size
    """Of arithmetic; a multiply-add is two."""
    bytes: Size
    """That it reads and writes, each once."""
    bits: int
    """Of the elements that it computes with."""
    seconds: float
    """That it takes on one thread, by the model of the machine that it was compiled for; for usual
    values of symbols."""

    def at(self, values: Mapping[str, int]) -> Work:
        """The work for values of the symbols, in a time that is proportional to it."""
        operations, size = (value_of(each, values) for each in (self.operations, self.bytes))
        usual = estimated(self.operations) + estimated(self.bytes)
        share = (operations + size) / usual if usual else 1.0
        return Work(operations, size, self.bits, self.seconds * share)


def now() -> int:
    """Nanoseconds, of the clock that events have."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Stream:
    """The events of threads, which write them one after the other."""

    def __init__(self, contexts: Array, room: int) -> None:
        """Let threads with these contexts write so many events each."""
        self._slots = contexts.reshape(-1, CONTEXT_SLOTS)
        self.events: Array = np.empty((len(self._slots), room), EVENT)
        self._slots[:, CLOCK] = _clock()
        self._slots[:, CLOCK_ID] = time.CLOCK_MONOTONIC
        starts = [address(events) for events in self.events]
        self._slots[:, NEXT] = self._starts = np.array(starts)
        self._slots[:, LAST] = self._starts + room * EVENT.itemsize

    @property
    def is_full(self) -> bool:
        """Whether a thread has no room, so that events may be missing."""
        return bool((self._slots[:, NEXT] >= self._slots[:, LAST]).any())

    def written(self) -> list[Array]:
        """The events of each thread so far."""
        counts = (self._slots[:, NEXT] - self._starts) // EVENT.itemsize
        return [events[:count] for events, count in zip(self.events, counts, strict=True)]


def _clock() -> int:
    try:
        function = ctypes.CDLL(None).clock_gettime
    except (AttributeError, OSError, TypeError) as error:
        raise OptionError(
            "this system has no clock that native code could read", expected="clock_gettime"
        ) from error
    return ctypes.cast(function, ctypes.c_void_p).value or 0
