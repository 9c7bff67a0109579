"""Aligned memory, and where arrays are in memory."""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import sys
from collections import defaultdict, deque
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
"""Bytes of a huge page on x86 and AArch64."""
KEPT = 2
"""Blocks of memory that are kept: for the current array and the one before it."""
MOST_SPARE = 64 * 1024 * 1024
"""Bytes that memory has to spare at most where it has grown."""
WINDOW = 61
"""Calls after which workspaces shrink. The number is odd so that of callers that alternate, each is
the last of a window now and then: only workspaces that no call uses shrink."""


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


class Workspaces:
    """Memory for calls that may run at the same time, each in a workspace that it has for itself.

    After every ``WINDOW`` calls, each workspace keeps what the largest of the last two windows has
    needed, and one that neither has used is freed.
    """

    def __init__(self) -> None:
        self.free: deque[Workspace] = deque()
        """Those that no call uses, the one used last at the right. A call returns its workspace to
        the deque that it was taken from."""
        self.left = WINDOW
        """Calls until they shrink."""

    def shrink(self) -> None:
        """End a window. Other threads may take workspaces meanwhile."""
        self.left, free = WINDOW, self.free
        for _ in range(len(free)):
            try:
                workspace = free.popleft()
            except IndexError:
                return
            if workspace.shrink():
                free.append(workspace)

    def release(self) -> None:
        """Free all memory: that of a call which is running once the call has ended."""
        self.left, self.free = WINDOW, deque()


class Workspace:
    """Memory for one call at a time, of any of several programs: an arena as large as the largest
    needs, recyclers for outputs, and the frames of the programs."""

    def __init__(self) -> None:
        self.frames: dict[object, Any] = {}
        """What programs have bound to this memory, by their keys, as used in this window. No frame
        refers to the workspace or to its program, so that no cycle delays the end of either."""
        self._older: dict[object, Any] = {}
        """Those that were only used in the window before."""
        self._recyclers: defaultdict[int, Recycler] = defaultdict(Recycler)
        self._need = Need()
        self._arena = aligned(0)
        self._address = self._room = 0

    def frame(self, key: object, make: Callable[[], Any]) -> Any:
        """The frame of a program that has not asked for it in this window yet."""
        found = self.frames[key] = self._older.pop(key, None) or make()
        return found

    def arena(self, size: int) -> int:
        """The address of at least so many bytes. It is valid until more are asked for, or the
        workspace shrinks. Raises ResourceError."""
        if size > self._need.now:
            if size > self._room or not self._address:
                room = max(_grown(size, self._room), self._need.before)
                self._free_arena()  # not both at a time
                self._arena, self._room = aligned(room), room
                self._address = address(self._arena)
            self._need.now = size
        return self._address

    def recycler(self, number: int) -> Recycler:
        """The recycler for the outputs of this number."""
        return self._recyclers[number]

    def shrink(self) -> bool:
        """End a window, and free what it and the one before did not need. Returns whether the
        workspace was used in them."""
        most = self._need.end()
        if self._room > _spacious(most):
            self._free_arena()
        self._older, self.frames = self.frames, {}
        for recycler in self._recyclers.values():
            recycler.shrink()
        return most >= 0

    def _free_arena(self) -> None:
        self._need.now = -1
        self._address = self._room = 0
        self._arena = aligned(0)


class Need:
    """The most bytes that were asked for in this window of calls, and in the one before; -1 where
    none were."""

    __slots__ = ("before", "now")

    def __init__(self) -> None:
        self.now = self.before = -1

    def end(self) -> int:
        """End the window. Returns the most of both."""
        most = max(self.now, self.before)
        self.now, self.before = -1, self.now
        return most


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
        self._need = Need()

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

    def shrink(self) -> None:
        """End a window of calls. Memory that is larger than arrays need by now is no longer kept:
        it is freed with the arrays on it."""
        most = _spacious(self._need.end())
        self._kept[1:] = [each for each in self._kept[1:] if each[2] <= most]

    def _memory(self, size: int) -> tuple[Array, int]:
        if size > self._need.now:
            self._need.now = size
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
    return max(size, _spacious(before))


def _spacious(size: int) -> int:
    """How much memory may be in the place of so much that is needed."""
    return min(2 * size, size + MOST_SPARE)


_address: Callable[[Any], int] = ctypes.addressof
_first_byte: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer


def address(array: Array) -> int:
    """Where a contiguous array's elements are in memory."""
    try:
        # four times as fast as array.ctypes, but not for arrays that are empty or read-only
        return _address(_first_byte(array))
    except (TypeError, ValueError):
        return array.ctypes.data
