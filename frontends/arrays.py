"""Conversion of numbers, and of arrays of other libraries, to NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.runtime.sparse import check_dense
from tessella.runtime.tensors import as_numpy


def as_array(value: Any) -> npt.NDArray[Any] | None:
    """Return a number, or an array of another library, as a NumPy array; None if ``value`` is
    neither. Raises InputError for a sparse array."""
    if type(value) is int:
        return np.asarray(value, np.int64) if -(1 << 63) <= value < 1 << 63 else None
    if isinstance(value, bool | float | complex | np.generic):
        return np.asarray(value)
    check_dense(value)
    value = as_numpy(value)
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        return np.asarray(value)
    return np.from_dlpack(value) if hasattr(value, "__dlpack__") else None
