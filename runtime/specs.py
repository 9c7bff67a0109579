"""Static facts about a program's values: shapes, dtypes, and which are weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.runtime.elements import of_bytes
from tessella.support.decisions import known_all
from tessella.support.sizes import Size, value_of, with_symbols

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class TensorSpec:
    """Shape and dtype of a value."""

    shape: tuple[Size, ...]
    dtype: np.dtype[Any]

    @property
    def numbers(self) -> tuple[int, ...]:
        """The shape in numbers. Raises UndecidedSizeError if it depends on symbols."""
        return known_all(self.shape)

    def at(self, values: Mapping[str, int]) -> TensorSpec:
        """Return shape and dtype for values of the symbols."""
        return TensorSpec(tuple(value_of(size, values) for size in self.shape), self.dtype)

    def within(self, values: Mapping[str, int]) -> TensorSpec:
        """Return shape and dtype for values of some symbols. Other symbols remain."""
        return TensorSpec(tuple(with_symbols(size, values) for size in self.shape), self.dtype)


@dataclass(frozen=True)
class Constant:
    """A constant value of a program, stored as a whole weight. A weight of one element represents
    all elements of the value."""

    slot: int
    spec: TensorSpec

    def at(self, values: Mapping[str, int]) -> Constant:
        """Return the constant for values of the symbols."""
        return Constant(self.slot, self.spec.at(values))

    def array(self, weights: Sequence[Array]) -> Array:
        """Return the constant as an array in the memory of its weight. The array must not be
        modified."""
        return of_bytes(weights[self.slot], self.spec.numbers, self.spec.dtype)
