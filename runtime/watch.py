"""How long calls of native code are interrupted: a loop whose end is computed asks now and then.

Native code counts steps, looks at the clock after some of them, and calls back into Python every
`PERIOD`. There the interpreter does what waits for the thread: it runs the handlers of signals, and
raises what another thread has set for this one. What is raised ends the loop, all loops around it,
then the call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from functools import cache, partial

from tessella.support import libc

WATCH = ("left", "last", "asked", "clock", "ask")
"""What native code finds in memory, 8 bytes each: how many steps it runs before it looks at the
clock; when it looked last, and when it asked last, in nanoseconds; and the functions. Only the
thread that calls touches it."""
STEPS, SHORT = 64, 1_000_000
"""So many steps lie between looks at the clock; one, if it is not such a short time since the
last."""
PERIOD = 50_000_000
"""Nanoseconds between calls of Python, which may have to wait for other threads."""
INTERRUPTED = -1
"""The status of a call that ends early."""

_ASK = ctypes.CFUNCTYPE(ctypes.c_int64)


class Watch:
    """What the loops of one call at a time ask."""

    def __init__(self) -> None:
        self._raised: list[BaseException] = []
        self._memory = (ctypes.c_int64 * len(WATCH))()
        self.address = ctypes.addressof(self._memory) if _clock() else 0
        """For native code; 0 where the system has no clock for it."""
        self._memory[WATCH.index("clock")] = _clock()
        self._begin()

    def _begin(self) -> None:
        asked = _asked(self._raised)
        next(asked)
        # no function of Python: what is raised where one begins, ctypes drops
        self._function = _ASK(partial(next, asked, 1))
        self._memory[WATCH.index("ask")] = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def check(self) -> None:
        """Raise what ended a loop, if anything was raised."""
        if self._raised:
            error = self._raised[0]
            self.clear()
            raise error

    def clear(self) -> None:
        """Forget what was raised, as before a run."""
        if self._raised:
            self._begin()  # before it is forgotten: something may be raised here, too
            self._raised.clear()


def _asked(raised: list[BaseException]) -> Generator[int]:
    """Zeros, until a loop has to end. What the interpreter raises as this goes on is kept."""
    try:
        while True:  # where this jumps back, something may be raised, too
            yield 0
    except GeneratorExit:
        return
    except BaseException as error:
        raised.append(error)


@cache
def _clock() -> int:
    return 0 if libc.function("clock_gettime") is None else libc.address("clock_gettime")
