"""Aligned memory, and where arrays are in memory."""

from __future__ import annotations

import ctypes
import math
import mmap
import sys
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tessella.support.errors import ResourceError

Array = npt.NDArray[Any]

ALIGNMENT = 64
"""Bytes: weights and arena start at a multiple of this."""
LARGE = 4096
"""Bytes from which on outputs are aligned, and recycled."""
HUGE_PAGE = 2 * 1024 * 1024
KEPT = 2


def aligned(size: int) -> Array:
    """A block of bytes that starts at a multiple of ALIGNMENT. Raises ResourceError."""
    try:
        if size >= HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
            return _huge(size)
        block = np.empty(size + ALIGNMENT, np.uint8)
    except (MemoryError, ValueError, OSError, OverflowError) as error:
        raise ResourceError(f"cannot allocate {size} bytes") from error
    start = -block.ctypes.data % ALIGNMENT
    return block[start : start + size]


def _huge(size: int) -> Array:
    """A block on huge pages, where the system has them to give: far fewer misses when it is read
    with long strides."""
    mapping = mmap.mmap(-1, size + HUGE_PAGE)
    mapping.madvise(mmap.MADV_HUGEPAGE)
    block = np.frombuffer(mapping, np.uint8)
    start = -block.ctypes.data % HUGE_PAGE
    return block[start : start + size]


class Recycler:
    """Arrays of one shape and dtype for one user at a time; the memory of an array that nobody
    refers to any more is used again.

    A fresh array of some size comes from the system page by page, which takes longer than to
    write it. At most ``KEPT`` blocks are kept: for the array at work and the one before it.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = shape, dtype
        self.size = math.prod(shape) * dtype.itemsize
        self._kept: list[tuple[Array, int]] = [(np.empty(0, np.uint8), 0)]
        """Memory, and where in it the array starts. The first is never handed out: it shows how
        many references memory has that nobody uses, which depends on the version of Python."""

    def array(self) -> Array:
        """An array with any values; aligned where it is large, as a vector that lies across two
        lines of the cache is stored at half the speed."""
        if self.size < LARGE:
            return np.empty(self.shape, self.dtype)
        memory, start = self._memory()
        return np.ndarray(self.shape, self.dtype, memory, start)

    def _memory(self) -> tuple[Array, int]:
        unused = 0
        for memory, start in self._kept:
            # arrays on it, and their views, refer to the memory itself: NumPy keeps no chains
            count = sys.getrefcount(memory)
            if count == unused:
                return memory, start
            unused = unused or count
        block = aligned(self.size)
        memory = block.base
        assert isinstance(memory, np.ndarray)
        found = memory, address(block) - address(memory)
        if len(self._kept) <= KEPT:
            self._kept.append(found)
        return found


def address(array: Array) -> int:
    """Where a contiguous array's elements are in memory."""
    try:
        # three times as fast as array.ctypes, but not for arrays that are empty or read-only
        return ctypes.addressof(ctypes.c_char.from_buffer(cast(bytearray, array)))
    except (TypeError, ValueError):
        return array.ctypes.data
