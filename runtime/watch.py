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
"""The entries that native code finds in the memory of a `Watch`, 8 bytes each.

They are the iterations until the clock is read; the times of the last reading and of the last
callback, in nanoseconds; and the addresses of the function that reads the clock and of the
callback. Only the calling thread accesses them.
"""
STEPS, SHORT = 64, 1_000_000
"""The usual number of iterations between readings of the clock, and a time in nanoseconds. If more
time has passed since the last reading, the clock is read again after 1 iteration."""
PERIOD = 50_000_000
"""Nanoseconds between callbacks into Python, which may have to wait for other threads."""
INTERRUPTED = -1
"""The status of a call that ends early."""

_ASK = ctypes.CFUNCTYPE(ctypes.c_int64)


class Watch:
    """The state by which the loops of a native call find out whether they must end. One call at a
    time uses it, and none after a call that ended early."""

    def __init__(self) -> None:
        self._raised: list[BaseException] = []
        self._memory = (ctypes.c_int64 * len(WATCH))()
        self.address = ctypes.addressof(self._memory) if _clock() else 0
        """The address of the memory, for native code; 0 if the system has no clock for it."""
        self._memory[WATCH.index("clock")] = _clock()
        asked = _asked(self._raised)
        next(asked)
        # A partial object instead of a Python function: ctypes drops an exception that is raised
        # where a Python function begins.
        self._function = _ASK(partial(next, asked, 1))
        self._memory[WATCH.index("ask")] = ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def check(self) -> None:
        """Raise the exception that ended a loop, if any."""
        if self._raised:
            raise self._raised.pop()


def _asked(raised: list[BaseException]) -> Generator[int]:
    """Yield 0 for each callback, until the interpreter raises an exception here. The exception is
    appended to ``raised``, and the end of the generator tells the loop to end."""
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
