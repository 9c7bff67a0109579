"""Conversion of numbers, and of arrays of other libraries, to NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.support.errors import InputError


def as_array(value: Any) -> npt.NDArray[Any] | None:
    """Return a number, or an array of another library, as a NumPy array; None if ``value`` is
    neither. Raises InputError for a sparse array."""
    if type(value) is int:
        return np.asarray(value, np.int64) if -(1 << 63) <= value < 1 << 63 else None
    if isinstance(value, bool | float | complex | np.generic):
        return np.asarray(value)
    if (layout := _sparse_layout(value)) is not None:
        raise InputError(
            "sparse arrays are not supported",
            expected="a dense array",
            found=f"{type(value).__name__} with the layout {layout}",
            hint="convert it, by x.to_dense() in PyTorch and x.toarray() in SciPy",
        )
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        return np.asarray(value)
    return np.from_dlpack(value) if hasattr(value, "__dlpack__") else None


def _sparse_layout(value: Any) -> str | None:
    """Return the layout of a sparse array of PyTorch or SciPy; None for any other value."""
    layout = str(getattr(value, "layout", ""))
    if layout.startswith("torch.sparse"):
        return layout
    is_scipys = hasattr(value, "toarray") and hasattr(value, "nnz")
    return str(getattr(value, "format", "sparse")) if is_scipys else None
