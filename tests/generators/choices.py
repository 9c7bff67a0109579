"""Random choices, from one `Random` that a seed or Hypothesis makes."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt


class Choices:
    """The random choices of generators.

    Hypothesis shrinks what it draws towards 0: the first choice, the lowest number, no chance.
    """

    def __init__(self, random: Random) -> None:
        self.random = random

    def one_of(self, *choices: Any) -> Any:
        """Return a choice; all are equally likely."""
        return choices[self.random.randrange(len(choices))]

    def between(self, low: int, high: int) -> int:
        """An integer; both bounds are possible."""
        return self.random.randint(low, high)

    def chance(self, percent: int) -> bool:
        """True in so many of a hundred cases."""
        return self.random.randrange(100) >= 100 - percent

    def coin(self) -> bool:
        """True in every second case."""
        return self.chance(50)

    def generator(self) -> np.random.Generator:
        """A generator of NumPy's, for whole arrays."""
        return np.random.default_rng(self.random.getrandbits(32))

    def integers(self, shape: Sequence[int], low: int, high: int) -> npt.NDArray[np.int64]:
        """int64 [shape], between the bounds; both are possible."""
        return np.asarray(self.generator().integers(low, high, tuple(shape), endpoint=True))
