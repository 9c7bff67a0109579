"""NumPy semantics of random draws."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessella.runtime.host.registry import Array, kernel
from tessella.support.errors import ExecutionError


def _draws(seed: int | None) -> np.random.RandomState:
    return np.random.RandomState(None if seed is None else seed % (1 << 32))


@kernel("random_uniform")
def random_uniform(
    *,
    shape: Sequence[int],
    to: np.dtype[np.generic],
    low: float,
    high: float,
    seed: int | None = None,
) -> Array:
    """Return numbers between ``low`` and ``high``."""
    return np.asarray(_draws(seed).uniform(low, high, shape))


@kernel("random_normal")
def random_normal(
    *,
    shape: Sequence[int],
    to: np.dtype[np.generic],
    mean: float,
    scale: float,
    seed: int | None = None,
) -> Array:
    """Return numbers of a normal distribution."""
    return np.asarray(_draws(seed).normal(mean, scale, shape))


@kernel("choose_classes")
def choose_classes(logits: Array, draws: Array) -> Array:
    """Return samples of classes: each number of ``draws``, between 0 and 1, selects a class of its
    row by the cumulative probabilities of the classes. Raises ExecutionError for a row without a
    positive probability."""
    logits = logits.astype(np.float64)
    weights = np.exp(logits - logits.max(1, keepdims=True, initial=-np.inf))
    totals: Array = weights.cumsum(1)
    if not (np.isfinite(totals).all() and totals.shape[1]):
        raise ExecutionError("a row of logits has no probabilities")
    chosen = (draws * totals[:, -1:])[:, :, None] >= totals[:, None, :]
    return chosen.sum(2, dtype=np.int64)
