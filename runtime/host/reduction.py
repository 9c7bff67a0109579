"""NumPy semantics of the reductions, softmax, cumulative sums and topk."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tessella.runtime.host.registry import Array, kernel
from tessella.runtime.host.values import greatest, least, wide


@kernel("reduce_sum")
def reduce_sum(x: Array, *, axes: Sequence[int], keepdims: bool) -> Array:
    """Return the sum over ``axes``. Floats are summed in float64 and rounded once."""
    return np.sum(x, axis=tuple(axes), dtype=wide(x), keepdims=keepdims).astype(x.dtype)


@kernel("reduce_prod")
def reduce_prod(x: Array, *, axes: Sequence[int], keepdims: bool) -> Array:
    """Return the product over ``axes``. Floats are multiplied in float64 and rounded once."""
    return np.prod(x, axis=tuple(axes), dtype=wide(x), keepdims=keepdims).astype(x.dtype)


@kernel("reduce_mean")
def reduce_mean(x: Array, *, axes: Sequence[int], keepdims: bool) -> Array:
    """Return the mean over ``axes``. The mean of floats is computed in float64 and rounded once,
    that of complex numbers in complex128; the mean of integers is rounded towards zero."""
    count = math.prod(x.shape[axis] for axis in axes)
    if x.dtype.kind in "fc":
        total = np.sum(x, axis=tuple(axes), dtype=wide(x), keepdims=keepdims)
        return (total / np.float64(count)).astype(x.dtype)
    total = np.sum(x, axis=tuple(axes), keepdims=keepdims)
    return (np.sign(total) * (np.abs(total) // total.dtype.type(max(count, 1)))).astype(x.dtype)


@kernel("reduce_max")
def reduce_max(x: Array, *, axes: Sequence[int], keepdims: bool) -> Array:
    """Return the largest element over ``axes``; NaN if an element is NaN."""
    return np.max(x, axis=tuple(axes), keepdims=keepdims, initial=least(x.dtype))


@kernel("reduce_min")
def reduce_min(x: Array, *, axes: Sequence[int], keepdims: bool) -> Array:
    """Return the smallest element over ``axes``; NaN if an element is NaN."""
    return np.min(x, axis=tuple(axes), keepdims=keepdims, initial=greatest(x.dtype))


@kernel("arg_max")
def arg_max(x: Array, *, axis: int, keepdims: bool, select_last_index: bool) -> Array:
    """Return the index of the largest element along an axis, as NumPy's argmax does; with
    ``select_last_index``, that of the last of equal elements."""
    if not select_last_index:
        return np.argmax(x, axis=axis, keepdims=keepdims)
    return x.shape[axis] - 1 - np.argmax(np.flip(x, axis), axis=axis, keepdims=keepdims)


@kernel("arg_min")
def arg_min(x: Array, *, axis: int, keepdims: bool, select_last_index: bool) -> Array:
    """Return the index of the smallest element along an axis, as NumPy's argmin does; with
    ``select_last_index``, that of the last of equal elements."""
    if not select_last_index:
        return np.argmin(x, axis=axis, keepdims=keepdims)
    return x.shape[axis] - 1 - np.argmin(np.flip(x, axis), axis=axis, keepdims=keepdims)


def _shifted(x: Array, axis: int) -> Array:
    """Return ``x`` in float64 minus its largest element along an axis, so that no exponential
    overflows."""
    exact = x.astype(np.float64)
    return exact - np.max(exact, axis=axis, keepdims=True, initial=-np.inf)


@kernel("softmax")
def softmax(x: Array, *, axis: int) -> Array:
    """Return e^x / sum(e^x) along an axis, in float64 and rounded once."""
    powers = np.exp(_shifted(x, axis))
    return (powers / np.sum(powers, axis=axis, keepdims=True)).astype(x.dtype)


@kernel("log_softmax")
def log_softmax(x: Array, *, axis: int) -> Array:
    """Return x - log(sum(e^x)) along an axis, in float64 and rounded once."""
    shifted = _shifted(x, axis)
    return (shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))).astype(x.dtype)


def _along(axis: int, start: int, end: int | None) -> tuple[slice, ...]:
    """Return the NumPy index that selects the range from ``start`` to ``end`` along an axis."""
    return (*[slice(None)] * axis, slice(start, end))


@kernel("cumsum")
def cumsum(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Return the cumulative sums along an axis. Floats are summed in float64 and rounded once."""
    return _cumulative(np.add, x.astype(wide(x)), 0, axis, exclusive, reverse).astype(x.dtype)


@kernel("cumprod")
def cumprod(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Return the cumulative products along an axis. Floats are multiplied in float64 and rounded
    once."""
    return _cumulative(np.multiply, x.astype(wide(x)), 1, axis, exclusive, reverse).astype(x.dtype)


@kernel("cummax")
def cummax(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Return the cumulative maxima along an axis. NaN stays NaN."""
    return _cumulative(np.maximum, x, _least(x.dtype), axis, exclusive, reverse)


@kernel("cummin")
def cummin(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Return the cumulative minima along an axis. NaN stays NaN."""
    return _cumulative(np.minimum, x, _greatest(x.dtype), axis, exclusive, reverse)


def _least(dtype: np.dtype) -> float:
    """Return the least value of a dtype: the identity of max."""
    return -np.inf if dtype.kind == "f" else 0 if dtype.kind == "b" else np.iinfo(dtype).min


def _greatest(dtype: np.dtype) -> float:
    """Return the greatest value of a dtype: the identity of min."""
    return np.inf if dtype.kind == "f" else 1 if dtype.kind == "b" else np.iinfo(dtype).max


def _cumulative(
    aggregate: np.ufunc, x: Array, identity: float, axis: int, exclusive: bool, reverse: bool
) -> Array:
    """Return the aggregate of the elements up to each one along an axis, in the dtype of ``x``. An
    exclusive aggregate omits the element itself; ``reverse`` begins at the end."""
    ordered = np.flip(x, axis) if reverse else x
    total = aggregate.accumulate(ordered, axis, dtype=x.dtype)
    if exclusive:
        before = np.full_like(total, identity)
        before[_along(axis, 1, None)] = total[_along(axis, 0, -1)]
        total = before
    return np.flip(total, axis) if reverse else total


@kernel("topk")
def topk(x: Array, *, k: int, axis: int, largest: bool) -> tuple[Array, Array]:
    """Return the ``k`` largest or smallest elements along an axis, in order, and their indices.
    Equal elements keep their order; NaN counts as the largest."""
    if largest:
        # A stable sort of the reversed array, read backwards, keeps equal elements in order.
        mirrored = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
        order = np.flip(x.shape[axis] - 1 - mirrored, axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    indices = order[_along(axis, 0, k)].astype(np.int64)
    return np.take_along_axis(x, indices, axis), indices
