"""What native code did, and when: the events that segments write when they are profiled.

Beside each segment stands a second one that writes an event before each kernel, barrier and copy,
and some at its end: the time, and the number of what begins. What is not profiled runs the first
one, and pays nothing.

Times are ticks of the processor's counter, which costs a fifth of the system's clock to read. At
the end of a segment both are read, so that ticks can be converted. Where the counter is not known
to be steady, the clock gives the ticks, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.runtime.arena import address
from tessella.runtime.pool import CONTEXT, CONTEXT_SLOTS
from tessella.support import clock, libc
from tessella.support.sizes import Size, estimated, value_of
from tessella.targets.machine import has_steady_counter

Array = npt.NDArray[Any]

PROFILED = ".profiled"
"""The end of the name of a segment that writes events."""

EVENT = np.dtype([("time", "i8"), ("number", "i8")])
"""When something begins, in ticks, and what: a number in ``Program.calls``, or one of these."""
NUMBER = 8
"""Bytes before the number."""
END, CLOCK, AFTER = -1, -2, -3
"""The end of a segment; then, instead of ticks, the system's clock in nanoseconds; and the time
after the clock was read."""


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


class Stream:
    """The events of threads, which write them one after the other."""

    def __init__(self, contexts: Array, room: int, *, counter: bool | None = None) -> None:
        """Let threads with these contexts write so many events each. ``counter`` says whether they
        read the processor's counter; by default if it is known to be steady."""
        slots = contexts.reshape(-1, CONTEXT_SLOTS)
        self._slots = {name: slots[:, number] for number, name in enumerate(CONTEXT)}
        self.events: Array = np.empty((len(slots), room), EVENT)
        self._slots["clock_gettime"][:] = libc.address("clock_gettime")
        self._slots["clock_id"][:] = clock.ID
        self._slots["counts"][:] = has_steady_counter() if counter is None else counter
        self._starts = np.array([address(events) for events in self.events])
        self._slots["event"][:] = self._starts
        self._slots["events_end"][:] = self._starts + room * EVENT.itemsize

    @property
    def is_full(self) -> bool:
        """Whether a thread has no room, so that events may be missing."""
        return bool((self._slots["event"] >= self._slots["events_end"]).any())

    def written(self) -> list[Array]:
        """The events of each thread so far."""
        counts = (self._slots["event"] - self._starts) // EVENT.itemsize
        return [events[:count] for events, count in zip(self.events, counts, strict=True)]


@dataclass(frozen=True)
class Scale:
    """Nanoseconds of ticks."""

    tick: int
    """One of them."""
    nanosecond: int
    """When that was."""
    rate: float
    """Nanoseconds of a tick."""

    @classmethod
    def of(cls, written: Iterable[Array]) -> Scale:
        """That of events: the line through the first and the last end of a segment of those where
        both clocks were read fast, which is half of them."""
        ends = np.concatenate([_ends(events) for events in written] or [np.zeros((0, 3), int)])
        if not len(ends):
            return cls(0, 0, 1.0)
        widths = ends[:, 2] - ends[:, 0]
        ends = ends[widths <= np.median(widths)]
        first, last = (ends[which(ends[:, 0])].tolist() for which in (np.argmin, np.argmax))
        ticks, nanoseconds = last[0] - first[0], last[1] - first[1]
        middle = (first[0] + first[2]) // 2
        return cls(middle, first[1], nanoseconds / ticks if ticks else 1.0)

    def nanoseconds(self, ticks: Array) -> Array:
        """Of the clock that ``now`` reads."""
        return self.nanosecond + np.rint((ticks - self.tick) * self.rate).astype(np.int64)


def _ends(events: Array) -> Array:
    """Ticks, the clock, and ticks again, at each end of a segment."""
    last = np.flatnonzero(events["number"] == AFTER)
    return events["time"][last[:, None] + np.array([-2, -1, 0])]
