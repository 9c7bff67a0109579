"""NumPy semantics of ops whose result sizes depend on values."""

from __future__ import annotations

import numpy as np

from tessella.runtime.elements import widened
from tessella.runtime.host.registry import Array, kernel
from tessella.runtime.texts import STRING


@kernel("unique", of_bits=True)
def unique(x: Array, *, axis: int, sorted: bool, sizes: object) -> tuple[Array, ...]:
    """Return the distinct slices along an axis, the index of each one's first occurrence, the index
    of each slice of x among the distinct ones, and the number of occurrences of each one."""
    numbers = widened(x)
    if x.dtype == STRING:  # NumPy has no slices of strings in order
        numbers = np.unique(x, return_inverse=True)[1].reshape(x.shape)
    _, first, inverse, counts = np.unique(
        numbers, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    order = np.arange(len(first)) if sorted else np.argsort(first)
    rank = np.argsort(order)
    first, counts = first[order], counts[order]
    numbered = (a.astype(np.int64) for a in (first, rank[inverse.reshape(-1)], counts))
    return np.take(x, first, axis), *numbered
