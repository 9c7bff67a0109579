"""The meaning of a scan: a body that runs once for each element of sequences, or while a condition
holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
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
    to the first. The first value that a ``conditional`` loop carries is a boolean: the loop ends
    where it is false."""

    carried: int
    scanned: int
    backward: tuple[int, ...] = ()
    conditional: bool = False

    def run(self, body: Body, arrays: Sequence[Array], rows: Sequence[Array] = ()) -> list[Array]:
        """The last carried values, and the sequences that are returned: ``rows``, which hold zeros,
        with the elements of the steps that ran."""
        first, after = self.carried, self.carried + self.scanned
        state, sequences, others = arrays[:first], arrays[first:after], arrays[after:]
        for step in range(len(sequences[0])) if sequences else count():
            if self.conditional and not state[0].item():
                break
            taken = [x[self._index(i, step, len(x))] for i, x in enumerate(sequences)]
            results = body([*state, *map(np.asarray, taken), *others])
            state = results[:first]
            made = zip(rows, results[first:], strict=True)
            for i, (sequence, element) in enumerate(made, self.scanned):
                sequence[self._index(i, step, len(sequence))] = element
        return [*state, *rows]

    def _index(self, sequence: int, step: int, steps: int) -> int:
        return steps - 1 - step if sequence in self.backward else step
