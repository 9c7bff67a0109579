"""NumPy functions whose result sizes depend on values: steps after a graph break."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tessella.runtime.elements import widened
from tessella.runtime.texts import STRING
from tessella.runtime.values import Array, Value
from tessella.support.errors import ShapeError


def non_zero(inputs: Sequence[Value]) -> Sequence[Array]:
    """Return the indices of nonzero elements: a row for each dimension, a column for each
    element."""
    found = np.nonzero(np.atleast_1d(widened(inputs[0])))
    return [np.array(found, np.int64)[: inputs[0].ndim]]


def unique(inputs: Sequence[Value], *, axis: int | None, is_sorted: bool) -> Sequence[Array]:
    """Return the distinct elements, or slices along an axis, sorted or in order of first
    occurrence.

    Further results are the index of each distinct element's first occurrence, the index of each
    element's value among the distinct elements, and the number of occurrences of each distinct
    element.
    """
    x = inputs[0].reshape(-1) if axis is None else inputs[0]
    at = axis or 0
    numbers = widened(x)
    if x.dtype == STRING:  # NumPy has no slices of strings in order
        numbers = np.unique(x, return_inverse=True)[1].reshape(x.shape)
    _, first, inverse, counts = np.unique(
        numbers, return_index=True, return_inverse=True, return_counts=True, axis=at
    )
    order = np.arange(len(first)) if is_sorted else np.argsort(first)
    rank = np.argsort(order)
    first, counts = first[order], counts[order]
    return [
        np.take(x, first, at),
        *(a.astype(np.int64) for a in (first, rank[inverse.reshape(-1)], counts)),
    ]


def compress(inputs: Sequence[Value], *, axis: int | None) -> Sequence[Array]:
    """Return the slices of an array along an axis for which a condition is true; without an axis,
    the elements. Raises ShapeError if the condition is true beyond the array."""
    x, condition = inputs
    chosen = np.flatnonzero(condition)
    size = x.size if axis is None else x.shape[axis]
    if chosen.size and chosen[-1] >= size:
        raise ShapeError(
            "the condition is longer than the data, and chooses beyond it",
            expected=f"places below {size}",
            found=str(chosen[-1]),
        )
    return [np.take(x, chosen, axis)]


FINDING: Mapping[str, Callable[..., Sequence[Value]]] = {
    "non_zero": non_zero,
    "unique": unique,
    "compress": compress,
}
