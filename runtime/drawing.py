"""Random draws: steps after a graph break, so that each call draws anew.

With a seed, all calls draw the same numbers: those of NumPy's ``RandomState``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tessella.runtime.elements import converted, dtype_named, widened
from tessella.runtime.values import Array, Value
from tessella.support.errors import ExecutionError

Shape = Sequence[int] | None
"""The shape of the draws; None for that of the operand."""


def _draws(seed: int | None) -> np.random.RandomState:
    return np.random.RandomState(None if seed is None else seed % (1 << 32))


def _shape(inputs: Sequence[Value], shape: Shape) -> Sequence[int]:
    return inputs[0].shape if shape is None else shape


def uniform(
    inputs: Sequence[Value],
    *,
    shape: Shape,
    low: float,
    high: float,
    seed: int | None,
    element: str,
) -> Sequence[Array]:
    """Return numbers between ``low`` and ``high``."""
    drawn = _draws(seed).uniform(low, high, _shape(inputs, shape))
    return [converted(np.asarray(drawn), dtype_named(element))]


def normal(
    inputs: Sequence[Value],
    *,
    shape: Shape,
    mean: float,
    scale: float,
    seed: int | None,
    element: str,
) -> Sequence[Array]:
    """Return numbers of a normal distribution."""
    drawn = _draws(seed).normal(mean, scale, _shape(inputs, shape))
    return [converted(np.asarray(drawn), dtype_named(element))]


def bernoulli(inputs: Sequence[Value], *, seed: int | None, element: str) -> Sequence[Array]:
    """Return 1 with the probability that the operand gives, otherwise 0."""
    likely = widened(inputs[0])
    drawn = _draws(seed).uniform(size=likely.shape) < likely
    return [converted(np.asarray(drawn), dtype_named(element))]


def multinomial(
    inputs: Sequence[Value], *, count: int, seed: int | None, element: str
) -> Sequence[Array]:
    """Return ``count`` classes for each row of logarithms of probabilities, which need not be
    normalized. Raises ExecutionError for a row without a probability."""
    logits = widened(inputs[0]).astype(np.float64)
    with np.errstate(invalid="ignore"):
        weights = np.exp(logits - logits.max(1, keepdims=True, initial=-np.inf))
    totals = np.cumsum(weights, 1)
    if not (np.isfinite(totals).all() and totals.shape[1]):
        raise ExecutionError("a row of a Multinomial has no probabilities")
    drawn = _draws(seed).uniform(size=(len(totals), count)) * totals[:, -1:]
    classes = (drawn[:, :, None] >= totals[:, None, :]).sum(2)
    return [classes.astype(dtype_named(element))]


def dropout(inputs: Sequence[Value], *, ratio: float, seed: int | None) -> Sequence[Array]:
    """Return the elements that are not dropped, divided by their share, and the mask of them."""
    x: Array = inputs[0]
    mask: Array = np.asarray(_draws(seed).uniform(size=x.shape) >= ratio)
    kept = np.where(mask, widened(x) / (1 - ratio if ratio < 1 else 1), 0)
    return [converted(kept, x.dtype), mask]


DRAWING: Mapping[str, Callable[..., Sequence[Value]]] = {
    "uniform": uniform,
    "normal": normal,
    "bernoulli": bernoulli,
    "multinomial": multinomial,
    "dropout": dropout,
}
