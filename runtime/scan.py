"""The semantics of a scan: a body that runs for each element of sequences, or while a condition is
true."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Body = Callable[[Sequence[Array]], Sequence[Array]]
"""A function that maps carried values, elements of sequences and loop-invariant values to the next
carried values and the elements of the returned sequences."""


@dataclass(frozen=True)
class Loop:
    """The signature of a loop.

    ``carried`` is the number of carried operands, and ``scanned`` the number of sequences after
    them. ``backward`` has the numbers of the sequences (the inputs, then the outputs) that run
    backward. The first carried value of a ``conditional`` loop is a boolean: the loop ends when it
    is false.
    """

    carried: int
    scanned: int
    backward: tuple[int, ...] = ()
    conditional: bool = False

    def run(self, body: Body, arrays: Sequence[Array], rows: Sequence[Array] = ()) -> list[Array]:
        """Run the loop. Return the last carried values, and the output sequences.

        ``arrays`` are the first carried values, the input sequences, and loop-invariant values.
        ``rows`` are the output sequences, filled with zeros; each iteration that runs writes its
        elements.
        """
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
