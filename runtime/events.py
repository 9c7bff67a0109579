"""Events that segments write while a model is profiled: which operation begins, and when.

Each thread that runs a segment has a context, a block of addresses and settings
(``runtime.pool.CONTEXT``). If the context has memory for events, the thread writes an event before
each kernel, barrier and copy, and some events at the end of the segment. An event is the time and
the number of the operation that begins. Without profiling, contexts have no such memory, and
threads only test for it.

Times are ticks of the processor's counter, which is five times as fast to read as the system's
clock. Both are read at the end of a segment, so that ticks can be converted. Where the counter is
not known to be steady, the clock supplies the ticks too.
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

EVENT = np.dtype([("time", "i8"), ("number", "i8")])
"""The dtype of an event: the time at which an operation begins, in ticks, and the operation's
number: an index into ``Program.calls``, or one of the codes below."""
NUMBER = 8
"""Offset of an event's number in the event, in bytes."""
END, CLOCK, AFTER = -1, -2, -3
"""Codes: the end of a segment; the system's clock in nanoseconds instead of ticks; and the ticks
after the clock was read."""


@dataclass(frozen=True)
class CallEvent:
    """An operation of a segment, from one event to the next."""

    kernel: str
    """The kernel that the operation calls; empty for operations that call no kernel."""
    kind: str
    """The kind of the operation: ``kernel``, ``barrier`` or ``copy``."""
    nodes: tuple[str, ...] = ()
    """The nodes that the operation computes."""
    divided: bool = False
    """True if all threads take part in the operation."""


@dataclass(frozen=True)
class Work:
    """The work of a kernel call."""

    operations: Size
    """Arithmetic operations; a multiply-add counts as two."""
    bytes: Size
    """Bytes read and written, each counted once."""
    bits: int
    """Width of the elements that the kernel computes with, in bits."""
    seconds: float
    """Estimated seconds on one thread of the machine that the kernel was compiled for, at the usual
    values of symbols."""

    def at(self, values: Mapping[str, int]) -> Work:
        """Return the work for values of the symbols. The estimated time grows in proportion to the
        sum of operations and bytes."""
        operations, size = (value_of(each, values) for each in (self.operations, self.bytes))
        usual = estimated(self.operations) + estimated(self.bytes)
        share = (operations + size) / usual if usual else 1.0
        return Work(operations, size, self.bits, self.seconds * share)


class Stream:
    """The events that threads write, with a row of memory for each thread."""

    def __init__(self, contexts: Array, room: int, *, counter: bool | None = None) -> None:
        """Allocate memory for ``room`` events for each thread. ``contexts`` has the context of each
        thread.

        ``counter`` says whether the threads read the processor's counter instead of the system's
        clock; by default, they do if the counter is known to be steady.
        """
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
        """True if the memory for a thread's events is full, so that events may be missing."""
        return bool((self._slots["event"] >= self._slots["events_end"]).any())

    def written(self) -> list[Array]:
        """Return the events of each thread so far."""
        counts = (self._slots["event"] - self._starts) // EVENT.itemsize
        return [events[:count] for events, count in zip(self.events, counts, strict=True)]


@dataclass(frozen=True)
class Scale:
    """The conversion of ticks to nanoseconds."""

    tick: int
    """A reading of the processor's counter, in ticks."""
    nanosecond: int
    """The time of the reading ``tick``, in nanoseconds."""
    rate: float
    """Nanoseconds per tick."""

    @classmethod
    def of(cls, written: Iterable[Array]) -> Scale:
        """Fit the conversion of ticks to the events that threads have written.

        It is the line through the first and the last end of a segment, among the half of them in
        which both clocks were read fast.
        """
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
        """Convert ticks to nanoseconds of the clock that ``now`` reads."""
        return self.nanosecond + np.rint((ticks - self.tick) * self.rate).astype(np.int64)


def _ends(events: Array) -> Array:
    """Return three readings at each end of a segment: the counter's ticks, the clock's nanoseconds,
    and the counter's ticks again."""
    last = np.flatnonzero(events["number"] == AFTER)
    return events["time"][last[:, None] + np.array([-2, -1, 0])]
