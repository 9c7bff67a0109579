"""Aligned memory, and where arrays are in memory."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.support.errors import ResourceError

Array = npt.NDArray[Any]

ALIGNMENT = 64
"""Bytes: weights and arena start at a multiple of this."""
LARGE = 4096
"""Bytes from which on outputs are aligned too."""


def aligned(size: int) -> Array:
    """A block of bytes that starts at a multiple of ALIGNMENT. Raises ResourceError."""
    try:
        block = np.empty(size + ALIGNMENT, np.uint8)
    except (MemoryError, ValueError) as error:
        raise ResourceError(f"cannot allocate {size} bytes") from error
    start = -block.ctypes.data % ALIGNMENT
    return block[start : start + size]


def aligned_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array with any values, aligned where it is large: a vector that lies across two lines of
    the cache is stored at half the speed."""
    size = math.prod(shape) * dtype.itemsize
    if size < LARGE:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, aligned(size))


def address(array: Array) -> int:
    """Where a contiguous array's elements are in memory."""
    try:
        # three times as fast as array.ctypes, but not for arrays that are empty or read-only
        return ctypes.addressof(ctypes.c_char.from_buffer(array))
    except (TypeError, ValueError):
        return array.ctypes.data
