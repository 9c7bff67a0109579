"""Bounds of rounding errors in results, from runs with random errors.

Every op that rounds has its operands and results moved at random by a few times the distance of
neighbouring numbers. The spread of the final results is what such errors grow to. Where a choice
hangs on them (a comparison, a position, a conversion to an integer), the spread is large, and such
elements are not compared. This is Monte Carlo arithmetic: Parker, *Monte Carlo Arithmetic*, 1997.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tests.fuzz.elements import FLOATS, Array

UNITS = 4.0
"""By how many times the distance of neighbouring numbers an error moves a number."""
SAFETY = 6.0
"""By how much the tolerance is larger than the largest of a few spreads."""
SAMPLES = 3
MORE_SAMPLES = 24
"""Before a result is called wrong, so many are taken, of errors that are larger."""
MORE_UNITS = 32.0


class Noise:
    """Errors of a size: 0 for none."""

    def __init__(self, seed: int, units: float) -> None:
        self._rng = np.random.default_rng(seed)
        self._units = units

    def __call__(
        self, array: Array, epsilon: float, least: float = 0.0, tiny: float = 0.0
    ) -> Array:
        """Each float moved, relatively to itself and to the ``least`` magnitude that matters."""
        if not self._units or array.dtype.kind != "f" or not array.size:
            return array
        with np.errstate(all="ignore"):
            size = ((np.abs(array) + least) * epsilon + tiny) * self._units
            moved = array + self._rng.uniform(-1, 1, array.shape) * size
        return np.where(np.isfinite(array), moved, array)


def least(arrays: Iterable[Array]) -> float:
    """Below the largest of some numbers, but no more than 1, small ones cancel out."""
    magnitudes = [np.abs(a[np.isfinite(a)]).max(initial=0) for a in arrays if a.dtype.kind == "f"]
    return float(min(max(magnitudes, default=0.0), 1.0))


@dataclass(frozen=True)
class Expected:
    """The elements that are right, how far from them others are right too, and which are known."""

    array: Array
    tolerance: Array
    known: Array

    def wrong(self, found: Array) -> Array:
        """Return which elements are wrong."""
        if self.array.dtype.kind != "f":
            return self.known & (found != self.array)
        with np.errstate(all="ignore"):
            near = np.abs(found - self.array) <= self.tolerance
        same = near | (found == self.array) | (np.isnan(found) & np.isnan(self.array))
        return self.known & ~same


Run = Callable[[Noise], Sequence[Array]]


def expected(
    run: Run, codes: Sequence[int], samples: int = SAMPLES, units: float = UNITS
) -> list[Expected]:
    """Return the expected results of a program. ``codes`` are the types of its results."""
    plain = run(Noise(0, 0.0))
    try:
        noisy = [run(Noise(seed, units)) for seed in range(samples)]
    except Exception:  # a reference that fails on a NaN, such as a MaxPool of nothing else
        return [Expected(y, np.zeros(y.shape), np.zeros(y.shape, bool)) for y in plain]
    return [_expected(y, [other[i] for other in noisy], codes[i]) for i, y in enumerate(plain)]


def more_expected(run: Run, codes: Sequence[int]) -> list[Expected]:
    """The same with more care."""
    return expected(run, codes, MORE_SAMPLES, MORE_UNITS)


def _expected(plain: Array, others: Sequence[Array], code: int) -> Expected:
    if plain.dtype.kind != "f":
        known = np.all([other == plain for other in others], axis=0)
        return Expected(plain, np.zeros(plain.shape), known)
    with np.errstate(all="ignore"):
        finite = np.isfinite(plain)
        spread = np.max([np.abs(np.where(finite, other - plain, 0)) for other in others], axis=0)
        tolerance = SAFETY * spread + FLOATS[code] * np.abs(plain)
    kinds = [(np.isnan(o) == np.isnan(plain)) & (np.isfinite(o) == finite) for o in others]
    known = np.all(kinds, axis=0) & ~np.isnan(spread)
    # with an error as large as the number itself, nothing is known
    return Expected(plain, np.where(finite, tolerance, 0), known & (spread < 1e-1 + abs(plain)))
