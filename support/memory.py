"""Memory of the system: whether there is some, and how it gets some back."""

from __future__ import annotations

import ctypes
import mmap

from tessella.support import libc


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
    trim = libc.function("malloc_trim")
    if trim is not None:
        trim(0)


def discard(start: int, size: int) -> None:
    """Give the system the whole pages of memory at an address, which stays allocated. It holds
    undefined values from then on."""
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    last = (start + size) // mmap.PAGESIZE * mmap.PAGESIZE
    advise = libc.function("madvise")
    if first < last and advise is not None and hasattr(mmap, "MADV_DONTNEED"):
        advise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), mmap.MADV_DONTNEED)
