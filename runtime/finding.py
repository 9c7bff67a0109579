"""Functions in NumPy whose results have sizes that depend on values: what steps do, where a program
is cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tessella.runtime.elements import widened
from tessella.runtime.values import Array, Value
from tessella.support.errors import ShapeError


def non_zero(inputs: Sequence[Value]) -> Sequence[Array]:
    """The positions of elements that are not zero."""
    return [np.array(np.nonzero(np.atleast_1d(widened(inputs[0]))), np.int64)]


def unique(inputs: Sequence[Value], *, axis: int | None, is_sorted: bool) -> Sequence[Array]:
    """The different elements, or slices along an axis, sorted or in the order of the first ones;
    where each is first, which each is, and how many there are of each."""
    x = inputs[0].reshape(-1) if axis is None else inputs[0]
    at = axis or 0
    _, first, inverse, counts = np.unique(
        widened(x), return_index=True, return_inverse=True, return_counts=True, axis=at
    )
    order = np.arange(len(first)) if is_sorted else np.argsort(first)
    rank = np.argsort(order)
    first, counts = first[order], counts[order]
    return [
        np.take(x, first, at),
        *(a.astype(np.int64) for a in (first, rank[inverse.reshape(-1)], counts)),
    ]


def compress(inputs: Sequence[Value], *, axis: int | None) -> Sequence[Array]:
    """The slices along an axis, or the elements, for which a condition holds."""
    x, condition = inputs
    chosen = np.flatnonzero(condition)
    if chosen.size and chosen[-1] >= (x.size if axis is None else x.shape[axis]):
        raise ShapeError("the condition is longer than the data", found=str(condition.shape))
    return [np.take(x, chosen, axis)]


FINDING: Mapping[str, Callable[..., Sequence[Value]]] = {
    "non_zero": non_zero,
    "unique": unique,
    "compress": compress,
}
