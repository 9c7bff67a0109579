"""Numbers in another precision than that of their dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessella.dialects.nn.core import Array

_KINDS = {
    "f": ("float", (16, 32, 64)),
    "i": ("int", (8, 16, 32, 64)),
    "ui": ("uint", (8, 16, 32, 64)),
}
_DTYPES: dict[str, np.dtype[Any]] = {
    "bool": np.dtype(np.bool_),
    **{f"{k}{n}": np.dtype(f"{kind}{n}") for k, (kind, bits) in _KINDS.items() for n in bits},
}


def rounded(array: Array, precision: str) -> Array | None:
    """The values that an array has in a precision, as its own dtype; None for a precision that
    NumPy does not have."""
    dtype = _DTYPES.get(precision)
    if dtype is None or dtype == array.dtype:
        return None if dtype is None else array
    with np.errstate(over="ignore"):  # beyond the range is infinity
        return array.astype(dtype).astype(array.dtype)
