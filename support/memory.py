"""Memory of the operating system: checking that it is available, and returning it."""

from __future__ import annotations

import ctypes
import mmap

from tessella.support import libc


def require(size: int) -> None:
    """Raise MemoryError unless the process may allocate ``size`` more bytes under ``RLIMIT_AS``.

    Call it before libraries that abort the process when an allocation fails.
    """
    try:
        mmap.mmap(-1, size).close()
    except (OSError, ValueError, OverflowError) as error:
        raise MemoryError(f"the system does not give {size} bytes") from error


def give_back() -> None:
    """Return free heap memory to the operating system, if there is much of it.

    glibc keeps a heap for each thread, and compiling leaves tens of megabytes there. The call takes
    a few milliseconds.
    """
    trim = libc.function("malloc_trim")
    if trim is not None:
        trim(0)


def discard(start: int, size: int) -> None:
    """Return the whole pages in a range of memory to the operating system.

    The range stays allocated; its contents are undefined afterwards.
    """
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    last = (start + size) // mmap.PAGESIZE * mmap.PAGESIZE
    advise = libc.function("madvise")
    if first < last and advise is not None and hasattr(mmap, "MADV_DONTNEED"):
        advise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), mmap.MADV_DONTNEED)
