"""Memory for calls: aligned blocks, workspaces, recycled arrays for outputs, and the addresses of
arrays."""

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
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from tessella.runtime.devices import Fields, Memory, device
from tessella.support.errors import ResourceError

Array = npt.NDArray[Any]

ALIGNMENT = 64
"""Alignment of weights and arenas, in bytes."""
LARGE = 16 * 1024
"""Outputs of at least this many bytes are aligned and recycled.

For smaller ones, recycling takes longer than the alignment saves.
"""
HUGE_PAGE = 2 * 1024 * 1024
"""Bytes of a huge page on x86 and AArch64."""
KEPT = 2
"""The number of memory blocks that a recycler caches: one for the current array, and one for the
array before it."""
MOST_SPARE = 64 * 1024 * 1024
"""Limit on the bytes of memory beyond the size that is needed."""
WINDOW = 61
"""The number of calls after which workspaces shrink.

Only workspaces that no call uses shrink. The number is odd, so that each of several alternating
callers ends a window now and then.
"""


def aligned(size: int, alignment: int = ALIGNMENT) -> Array:
    """Return a block of ``size`` bytes with the given alignment. Raises ResourceError if it cannot
    be allocated."""
    try:
        if size >= HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
            return _huge(size)
        block = np.empty(size + alignment, np.uint8)
    except (MemoryError, ValueError, OSError, OverflowError) as error:
        raise ResourceError(f"cannot allocate {size} bytes") from error
    start = -block.ctypes.data % alignment
    return block[start : start + size]


def _huge(size: int) -> Array:
    """Allocate a block on huge pages, if the system offers them for private memory.

    Huge pages are faulted in sooner, and reads with long strides miss the TLB far less often.
    """
    mapping = mmap.mmap(-1, size + HUGE_PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # Linux without transparent huge pages refuses the advice.
        mapping.madvise(mmap.MADV_HUGEPAGE)
    block = np.frombuffer(mapping, np.uint8)
    start = -block.ctypes.data % HUGE_PAGE
    return block[start : start + size]


class Workspaces:
    """Memory for calls that may run at the same time; each call uses a workspace alone.

    After every ``WINDOW`` calls, each workspace shrinks to what the largest call of the last two
    windows needed, and a workspace that neither window used is freed.
    """

    def __init__(self) -> None:
        self.free: deque[Workspace] = deque()
        """Workspaces that no call uses, the most recently used one at the right.

        A call returns its workspace to the deque that it was taken from.
        """
        self.left = WINDOW
        """The number of calls until workspaces shrink."""

    def shrink(self) -> None:
        """End a window of calls: shrink the free workspaces, and free the workspaces that the last
        two windows did not use. Other threads may take workspaces meanwhile."""
        self.left, free = WINDOW, self.free
        for _ in range(len(free)):
            try:
                workspace = free.popleft()
            except IndexError:
                return
            if workspace.shrink():
                free.append(workspace)

    def release(self) -> None:
        """Free the memory of all workspaces. The memory of a running call is freed when the call
        ends."""
        self.left, self.free = WINDOW, deque()


class Workspace:
    """Memory that one call at a time uses. Calls of several programs may use it in turn.

    A workspace holds an arena as large as the largest program needs, recyclers for outputs, and a
    frame for each program: the program's steps, bound to this memory.
    """

    def __init__(self) -> None:
        self.frames: dict[object, Any] = {}
        """The frames of the programs that used this memory in the current window of calls, by the
        programs' keys.

        No frame refers to its workspace or program, so that no reference cycle delays freeing
        either.
        """
        self._older: dict[object, Any] = {}
        """Frames that were last used in the previous window."""
        self._recyclers: defaultdict[int, Recycler] = defaultdict(Recycler)
        self.need = PeakRequest()
        """The requests for the arena."""
        self.address = 0
        """The address of the arena; 0 if there is none."""
        self._arena, self._room = aligned(0), 0
        self._device_arenas = WeakValueDictionary[tuple[str, Fields], Memory]()
        """The memory of intermediate values on devices, by the device and the fields of its places,
        such as ``memory``. A program's frame that uses the memory keeps it alive."""

    def frame(self, key: object, make: Callable[[], Any]) -> Any:
        """Return the frame of the program ``key``, which has not requested it in this window yet:
        the frame of the previous window, otherwise a new one from ``make``."""
        found = self.frames[key] = self._older.pop(key, None) or make()
        return found

    def arena(self, size: int) -> int:
        """Return the address of an arena of at least ``size`` bytes. Raises ResourceError if it
        cannot be allocated.

        The address is valid until more bytes are requested or the workspace shrinks.
        """
        if size > self.need.now:
            if size > self._room or not self.address:
                room = max(_grown(size, self._room), self.need.before)
                self._free_arena()  # frees the old arena before the new one is allocated
                self._arena, self._room = aligned(room), room
                self.address = address(self._arena)
            self.need.now = size
        return self.address

    def device_arena(self, name: str, fields: Fields, size: int) -> Memory:
        """Return an arena of at least ``size`` bytes on a device, for values whose places have
        these device-defined fields (such as a memory space). Raises ResourceError if it cannot be
        allocated."""
        found = self._device_arenas.get((name, fields))
        if found is None or found.size < size:
            found = self._device_arenas[name, fields] = Memory(device(name), size, fields)
        return found

    def recycler(self, number: int) -> Recycler:
        """Return the recycler for the output with this number."""
        return self._recyclers[number]

    def shrink(self) -> bool:
        """End a window of calls, and free memory that the last two windows did not need.

        Returns whether one of these windows used the workspace.
        """
        most = self.need.end()
        if self._room > _spacious(most):
            self._free_arena()
        self._older, self.frames = self.frames, {}
        for recycler in self._recyclers.values():
            recycler.shrink()
        return most >= 0

    def _free_arena(self) -> None:
        self.need.now = -1
        self.address = self._room = 0
        self._arena = aligned(0)


class PeakRequest:
    """The largest request, in bytes, of the current window of calls and of the previous one; -1 for
    a window without requests."""

    __slots__ = ("before", "now")

    def __init__(self) -> None:
        self.now = self.before = -1

    def end(self) -> int:
        """End the current window. Returns the largest request of this window and the previous one;
        -1 without requests."""
        most = max(self.now, self.before)
        self.now, self.before = -1, self.now
        return most


class Recycler:
    """An allocator of arrays for one user at a time, which reuses memory once no array refers to
    it.

    The system faults in fresh memory page by page, which takes longer than writing it. At most
    ``KEPT`` blocks are cached: one for the current array, and one for the array before it.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[Array, int, int]] = [(np.empty(0, np.uint8), 0, -1)]
        """Cached blocks of memory, each with the offset of its arrays in the block and the bytes of
        the largest array that fits.

        The first block is never handed out. Its reference count is that of unused memory, which
        depends on the version of Python.
        """
        self._need = PeakRequest()

    def maker(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[], Array]:
        """Return a function that creates uninitialised arrays.

        Large arrays are aligned, as storing a vector across a cache line halves the speed.
        """
        size = math.prod(shape) * dtype.itemsize
        if size < LARGE:
            return partial(np.empty, shape, dtype)
        return partial(self._array, shape, dtype, size)

    def _array(self, shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> Array:
        memory, start = self._memory(size)
        return np.ndarray(shape, dtype, memory, start)

    def shrink(self) -> None:
        """End a window of calls, and drop the cached blocks that are larger than recent arrays
        need. A dropped block is freed with the arrays that refer to it."""
        most = _spacious(self._need.end())
        self._kept[1:] = [each for each in self._kept[1:] if each[2] <= most]

    def _memory(self, size: int) -> tuple[Array, int]:
        if size > self._need.now:
            self._need.now = size
        unused, small = 0, 0
        for i, (memory, start, room) in enumerate(self._kept):
            # Arrays on the block, and their views, refer to the block itself: NumPy collapses
            # chains of bases.
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
    """Return the bytes to allocate, at least ``size``, in place of a memory of ``before`` bytes
    that is too small.

    If sizes grow from call to call, the allocation doubles, which limits the page faults.
    """
    return max(size, _spacious(before))


def _spacious(size: int) -> int:
    """Return the bytes of the largest memory that may serve a request of ``size`` bytes."""
    return min(2 * size, size + MOST_SPARE)


ELEMENTS = object.__basicsize__
"""The offset of the address of an array's elements in the array object: that of the first field of
`PyArrayObject` in NumPy's C interface."""
pointer_at: Callable[[int], ctypes.c_size_t] = ctypes.c_size_t.from_address
"""A function that returns the pointer in memory at an address."""


def address(array: Array) -> int:
    """Return the address of an array's elements."""
    # a tenth of the time of array.ctypes.data; an object's id is its address
    return pointer_at(id(array) + ELEMENTS).value
