"""Aligned memory, and arenas that calls borrow."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.support.errors import ResourceError

Array = npt.NDArray[Any]

ALIGNMENT = 64
"""Bytes: weights and arena start at a multiple of this."""


def aligned(size: int) -> Array:
    """A block of bytes that starts at a multiple of ALIGNMENT. Raises ResourceError."""
    try:
        block = np.empty(size + ALIGNMENT, np.uint8)
    except (MemoryError, ValueError) as error:
        raise ResourceError(f"cannot allocate {size} bytes") from error
    start = -block.ctypes.data % ALIGNMENT
    return block[start : start + size]


class AlignedPool:
    """Arenas of one size: a call has one to itself, and gives it back for the next call."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._free: deque[Array] = deque()

    @contextmanager
    def borrow(self) -> Generator[Array]:
        """An arena that nobody else uses until the block ends."""
        try:
            arena = self._free.pop()
        except IndexError:
            arena = aligned(self.size)
        try:
            yield arena
        finally:
            self._free.append(arena)
