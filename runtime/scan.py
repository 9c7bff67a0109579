"""The meaning of a scan: a body that runs once for each element of sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Body = Callable[[Sequence[Array]], Sequence[Array]]
"""From carried values, elements of sequences and values that stay, to the next carried values, and
elements of the sequences that are returned."""


@dataclass(frozen=True)
class Loop:
    """How many operands are carried, how many after them are sequences, and the numbers of the
    sequences, those that are taken and then those that are returned, that run from the last element
    to the first."""

    carried: int
    scanned: int
    backward: tuple[int, ...] = ()

    def run(self, body: Body, arrays: Sequence[Array]) -> list[Array]:
        """The last carried values, and the sequences that are returned."""
        first, after = self.carried, self.carried + self.scanned
        state, sequences, others = arrays[:first], arrays[first:after], arrays[after:]
        elements: list[Sequence[Array]] = []
        for step in range(len(sequences[0])):
            taken = [x[self._index(i, step, len(x))] for i, x in enumerate(sequences)]
            results = body([*state, *map(np.asarray, taken), *others])
            state = results[:first]
            elements.append(results[first:])
        columns = enumerate(zip(*elements, strict=True), self.scanned)
        return [*state, *(self._stacked(i, column) for i, column in columns)]

    def _index(self, sequence: int, step: int, steps: int) -> int:
        return steps - 1 - step if sequence in self.backward else step

    def _stacked(self, sequence: int, column: Sequence[Array]) -> Array:
        return np.stack(column[::-1] if sequence in self.backward else column)
