"""Aligned memory, and where arrays are in memory."""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.support.errors import ResourceError

Array = npt.NDArray[Any]

ALIGNMENT = 64
"""Weights and arenas start at a multiple of so many bytes."""
LARGE = 4096
"""Outputs of at least so many bytes are aligned and recycled."""
HUGE_PAGE = 2 * 1024 * 1024
KEPT = 2
MOST_SPARE = 64 * 1024 * 1024
"""Bytes that memory has to spare at most where it has grown."""


def aligned(size: int, alignment: int = ALIGNMENT) -> Array:
    """A block of bytes that starts at a multiple of so many. Raises ResourceError."""
    try:
        if size >= HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
            return _huge(size)
        block = np.empty(size + alignment, np.uint8)
    except (MemoryError, ValueError, OSError, OverflowError) as error:
        raise ResourceError(f"cannot allocate {size} bytes") from error
    start = -block.ctypes.data % alignment
    return block[start : start + size]


def _huge(size: int) -> Array:
    """A block on huge pages, where the system has some for private memory: it is there sooner, and
    reads with long strides miss far less often."""
    mapping = mmap.mmap(-1, size + HUGE_PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # kernels without transparent huge pages refuse the advice
        mapping.madvise(mmap.MADV_HUGEPAGE)
    block = np.frombuffer(mapping, np.uint8)
    start = -block.ctypes.data % HUGE_PAGE
    return block[start : start + size]


class Workspace:
    """Memory for one call at a time, of any of several programs: an arena as large as the largest
    has needed so far, and recyclers for outputs."""

    def __init__(self) -> None:
        self._arena = aligned(0)
        self._address = 0
        self._recyclers: defaultdict[int, Recycler] = defaultdict(Recycler)

    def arena(self, size: int) -> int:
        """The address of at least so many bytes. It is valid until more are asked for. Raises
        ResourceError."""
        if size > self._arena.size or not self._address:
            room = _grown(size, self._arena.size)
            self._address, self._arena = 0, aligned(0)  # not both at a time
            self._arena = aligned(room)
            self._address = address(self._arena)
        return self._address

    def recycler(self, number: int) -> Recycler:
        """The recycler for the outputs of this number."""
        return self._recyclers[number]


class Recycler:
    """Arrays for one user at a time. Memory that no array refers to any more is used again.

    The system gives fresh memory page by page, which takes longer than writing it. At most ``KEPT``
    blocks are kept: for the current array and the one before it.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[Array, int, int]] = [(np.empty(0, np.uint8), 0, -1)]
        """Blocks of memory, where their arrays start, and how large these can be. The first block
        is never handed out. It shows how many references unused memory has, which depends on the
        version of Python."""

    def maker(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[], Array]:
        """Makes arrays of undefined values. Large ones are aligned, as a vector that crosses a
        cache line is stored at half the speed."""
        size = math.prod(shape) * dtype.itemsize
        if size < LARGE:
            return partial(np.empty, shape, dtype)
        return partial(self._array, shape, dtype, size)

    def _array(self, shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> Array:
        memory, start = self._memory(size)
        return np.ndarray(shape, dtype, memory, start)

    def _memory(self, size: int) -> tuple[Array, int]:
        unused, small = 0, 0
        for i, (memory, start, room) in enumerate(self._kept):
            # arrays on it, and their views, refer to the memory itself: NumPy keeps no chains
            count = sys.getrefcount(memory)
            if count == unused:
                if size <= room:
                    return memory, start
                small = i
            unused = unused or count
        room = size
        if small:
            room = _grown(size, self._kept.pop(small)[2])
        block = aligned(room)
        memory = block.base
        assert isinstance(memory, np.ndarray)
        start = address(block) - address(memory)
        if len(self._kept) <= KEPT:
            self._kept.append((memory, start, room))
        return memory, start


def _grown(size: int, before: int) -> int:
    """How much memory to ask for in the place of some that is too small. Where sizes grow from call
    to call, the pages that the system has to give come from twice as much at a time."""
    return max(size, min(2 * before, before + MOST_SPARE))


_address: Callable[[Any], int] = ctypes.addressof
_first_byte: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer


def address(array: Array) -> int:
    """Where a contiguous array's elements are in memory."""
    try:
        # four times as fast as array.ctypes, but not for arrays that are empty or read-only
        return _address(_first_byte(array))
    except (TypeError, ValueError):
        return array.ctypes.data
