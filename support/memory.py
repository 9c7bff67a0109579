"""Memory that is free, but not the system's again."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable


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
