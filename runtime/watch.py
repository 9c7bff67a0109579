"""Interrupting long native calls: a loop with a computed trip count checks now and then.

Native code counts iterations, reads the clock after some of them, and calls back into Python every
`PERIOD`. The interpreter then runs signal handlers, and raises exceptions that other threads have
set for this one. An exception ends the loop, all enclosing loops, and then the call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from functools import cache, partial

from tessella.support import libc

WATCH = ("left", "last", "asked", "clock", "ask")
"""The entries that native code finds in memory, 8 bytes each.

They are the iterations until the clock is read; the times of the last reading and of the last
callback, in nanoseconds; and the functions. Only the calling thread accesses them.
"""
STEPS, SHORT = 64, 1_000_000
"""Iterations between readings of the clock, or 1 if more than this time has passed since the last
one."""
PERIOD = 50_000_000
"""Nanoseconds between callbacks into Python, which may have to wait for other threads."""
INTERRUPTED = -1
"""The status of a call that ends early."""

_ASK = ctypes.CFUNCTYPE(ctypes.c_int64)


class Watch:
    """The state that the loops of one call at a time check."""

    def __init__(self) -> None:
        self._raised: list[BaseException] = []
        self._memory = (ctypes.c_int64 * len(WATCH))()
        self.address = ctypes.addressof(self._memory) if _clock() else 0
        """The address of the memory, for native code; 0 if the system has no clock for it."""
        self._memory[WATCH.index("clock")] = _clock()
        self._begin()

    def _begin(self) -> None:
        asked = _asked(self._raised)
        next(asked)
        # Not a Python function: ctypes drops exceptions raised where one begins.
        self._function = _ASK(partial(next, asked, 1))
        self._memory[WATCH.index("ask")] = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def check(self) -> None:
        """Raise the exception that ended a loop, if any."""
        if self._raised:
            error = self._raised[0]
            self.clear()
            raise error

    def clear(self) -> None:
        """Drop an exception from an earlier run."""
        if self._raised:
            self._begin()  # first, as an exception may be raised here too
            self._raised.clear()


def _asked(raised: list[BaseException]) -> Generator[int]:
    """Yield zeros until a loop must end. An exception of the interpreter is stored."""
    try:
        while True:  # an exception may also be raised at the jump back
            yield 0
    except GeneratorExit:
        return
    except BaseException as error:
        raised.append(error)


@cache
def _clock() -> int:
    return 0 if libc.function("clock_gettime") is None else libc.address("clock_gettime")
