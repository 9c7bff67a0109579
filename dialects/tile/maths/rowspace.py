"""The independent rows of a rational matrix, and the unknowns that they determine."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd


class RowSpace:
    """The span of integer rows, in reduced echelon form.

    Only the first ``width`` entries of a row are eliminated; the entries after them are carried
    along. Rows of ``[A | I]`` end as rows of ``[1 | inverse of A]``, each times an integer.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.rows: dict[int, list[int]] = {}
        """The rows by pivot, the column in which all other rows are 0."""

    def add(self, row: Sequence[int]) -> bool:
        """Add a row to the span. Returns False if the row is already in the span."""
        rest = list(row)
        for pivot, known in self.rows.items():
            rest = _cancel(rest, known, pivot)
        pivot = next((i for i in range(self.width) if rest[i]), None)
        if pivot is None:
            return False
        self.rows = {p: _cancel(known, rest, pivot) for p, known in self.rows.items()}
        self.rows[pivot] = rest
        return True

    @property
    def rank(self) -> int:
        return len(self.rows)

    def determines(self, column: int) -> bool:
        """Return whether the unit vector of the column is in the span."""
        row = self.rows.get(column)
        return row is not None and not any(row[i] for i in range(self.width) if i != column)


def _cancel(row: list[int], by: Sequence[int], pivot: int) -> list[int]:
    """Return a multiple of the row plus a multiple of ``by``, such that the entry at the pivot is
    0."""
    if not row[pivot]:
        return row
    a, b = by[pivot], row[pivot]
    result = [a * x - b * y for x, y in zip(row, by, strict=True)]
    divisor = gcd(*result) or 1
    return [x // divisor for x in result]
