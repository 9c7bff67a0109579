"""Memory of the system: whether there is some, and how it gets some back."""

from __future__ import annotations

import ctypes
import functools
import mmap
from collections.abc import Callable


def require(size: int) -> None:
    """Raise MemoryError unless the system would give this process so many bytes more, by its limits
    (``RLIMIT_AS``). For libraries that end the process where they get none."""
    try:
        mmap.mmap(-1, size).close()
    except (OSError, ValueError, OverflowError) as error:
        raise MemoryError(f"the system does not give {size} bytes") from error


def give_back() -> None:
    """Give the system what the C library keeps for later, where it keeps much: glibc has a heap
    for each thread, and compiling leaves tens of megabytes there. A few milliseconds."""
    _trim()(0)


@functools.cache
def _trim() -> Callable[[int], object]:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return lambda _: None
