"""NumPy semantics of products of groups of rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tessella.runtime.host.registry import Array, kernel


def _groups(ends: Array, count: int) -> Iterator[slice]:
    """Yield the rows of each group."""
    limited = np.maximum.accumulate(np.clip(ends, 0, count))
    for start, end in zip([0, *limited[:-1]], limited, strict=True):
        yield slice(start, end)


@kernel("grouped_matmul")
def grouped_matmul(x: Array, w: Array, ends: Array) -> Array:
    """Return the product of each row of x[S, K] and the matrix of its group, w[E, K, N]; 0 for rows
    after the last group."""
    found = np.zeros((x.shape[0], w.shape[2]), np.result_type(x, w))
    for rows, matrix in zip(_groups(ends, x.shape[0]), w, strict=True):
        found[rows] = np.matmul(x[rows], matrix)
    return found


@kernel("grouped_outer")
def grouped_outer(a: Array, b: Array, ends: Array) -> Array:
    """Return the product of the transposed rows of a[S, M] and those of b[S, N] for each group."""
    parts = (np.matmul(a[rows].T, b[rows]) for rows in _groups(ends, a.shape[0]))
    return np.stack([*parts])
