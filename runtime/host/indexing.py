"""NumPy semantics of gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tessella.runtime.checks import FED
from tessella.runtime.host.registry import Array, kernel
from tessella.support.errors import ExecutionError

_COMBINE: dict[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def _wrapped(indices: Array, size: int) -> Array:
    """Return the indices with negative ones, which count from the end, replaced by the equal
    indices from the front. Raises ExecutionError if an index is out of range."""
    wide = indices.astype(np.int64)
    wrong = (wide < -size) | (wide >= size)
    if wrong.any():
        raise ExecutionError(
            "an index is out of range",
            expected=f"in [{-size}, {size})",
            found=str(int(wide[wrong][0])),
            hint=FED,
        )
    return np.where(wide < 0, wide + size, wide)


@kernel("gather", of_bits=True)
def gather(data: Array, indices: Array, *, axis: int) -> Array:
    """Return the slices of ``data`` at ``indices`` along an axis, as NumPy's take does."""
    return np.take(data, _wrapped(indices, data.shape[axis]), axis=axis)


def _grid(shape: Sequence[int]) -> list[Array]:
    """Return the indices of each dimension, shaped to broadcast to ``shape``."""
    return [np.arange(n).reshape(-1, *[1] * (len(shape) - 1 - d)) for d, n in enumerate(shape)]


def _positions(data: Array, indices: Array, axis: int) -> tuple[Array, ...]:
    """Return coordinates in ``data`` for every element of ``indices``: the element's position, with
    the coordinate along ``axis`` replaced by the element."""
    own: list[Any] = list(_grid(indices.shape))
    own[axis] = _wrapped(indices, data.shape[axis])
    return tuple(own)


@kernel("gather_elements", of_bits=True)
def gather_elements(data: Array, indices: Array, *, axis: int) -> Array:
    """Return the element of ``data`` at each position of ``indices``, with the coordinate along
    ``axis`` replaced by the element of ``indices``."""
    return data[_positions(data, indices, axis)]


def _tuples(shape: Sequence[int], indices: Array) -> tuple[Array, ...]:
    """Return the index tuples in the last dimension of indices, as one array for each dimension."""
    return tuple(_wrapped(indices[..., d], shape[d]) for d in range(indices.shape[-1]))


@kernel("gather_nd", of_bits=True)
def gather_nd(data: Array, indices: Array, *, batch_dims: int) -> Array:
    """Return the slices of ``data`` at the index tuples in the last dimension of ``indices``; the
    first ``batch_dims`` dimensions of both correspond."""
    rest = indices.ndim - 1 - batch_dims
    own = [b.reshape(*b.shape, *[1] * rest) for b in _grid(data.shape[:batch_dims])]
    return data[(*own, *_tuples(data.shape[batch_dims:], indices))]


def _scatter(data: Array, at: tuple[Array, ...], updates: Array, reduction: str) -> Array:
    result = np.array(data)
    if reduction == "none":
        result[at] = updates
    else:
        _COMBINE[reduction].at(result, at, updates)
    return result


@kernel("scatter_elements")
def scatter_elements(
    data: Array, indices: Array, updates: Array, *, axis: int, reduction: str
) -> Array:
    """Return a copy of ``data`` with each element of ``updates`` stored, or combined by
    ``reduction``, at its own position, with the coordinate along ``axis`` read from ``indices``."""
    return _scatter(data, _positions(data, indices, axis), updates, reduction)


@kernel("scatter_nd")
def scatter_nd(data: Array, indices: Array, updates: Array, *, reduction: str) -> Array:
    """Return a copy of ``data`` with the slices ``updates`` stored, or combined by ``reduction``,
    at the index tuples in the last dimension of ``indices``."""
    return _scatter(data, _tuples(data.shape, indices), updates, reduction)
