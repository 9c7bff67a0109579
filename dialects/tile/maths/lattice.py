"""The integer points at which rational forms are integers, as a lattice.

The forms span a lattice; the points are its dual. A Hermite basis of it is triangular, and so is
the dual basis: each coordinate of a point is a number of its own plus contributions of the later
coordinates. They contribute only their remainders. Coordinates therefore split into digits, and
only the low digits contribute. See H. Cohen, A Course in Computational Algebraic Number Theory
(1993), 2.4, and PlaidML 0.7's `defract`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from tessella.dialects.tile.maths.limits import check_numbers

Matrix = list[list[int]]


@dataclass(frozen=True)
class Digit:
    """A number that moves a point. Points are sums of ``digit * step``, and the sum is unique."""

    coordinate: int
    """The last coordinate that it moves."""
    step: tuple[int, ...]
    extent: int | None
    """The digit is in ``0 <= digit < extent``; None if it may be any integer."""


def hermite(rows: Sequence[Sequence[int]], modulus: int, width: int) -> Matrix:
    """The Hermite normal form of the lattice of the rows and ``modulus * Z^width``.

    It is upper triangular with a positive diagonal. Entries above the diagonal are reduced modulo
    it. Numbers stay below the modulus.
    """
    pending = [[x % modulus for x in row] for row in rows]
    basis: Matrix = []
    for column in range(width):
        pivot = [modulus if i == column else 0 for i in range(width)]
        for k, row in enumerate(pending):
            pivot, pending[k] = _combine(pivot, row, column, modulus)
        basis.append(pivot)
    for i, pivot in enumerate(basis):
        for row in basis[:i]:
            _subtract(row, pivot, row[i] // pivot[i])
    return basis


def _combine(
    pivot: list[int], row: list[int], column: int, modulus: int
) -> tuple[list[int], list[int]]:
    """Euclid's algorithm on two rows: their entries become the gcd in the first, 0 in the second.

    Entries after the column are reduced modulo the modulus, as the lattice contains its multiples.
    """
    while row[column]:
        _subtract(pivot, row, pivot[column] // row[column])
        pivot = [x % modulus if i > column else x for i, x in enumerate(pivot)]
        pivot, row = row, pivot
    return pivot, row


def _subtract(row: list[int], other: Sequence[int], factor: int) -> None:
    if factor:
        row[:] = [x - factor * y for x, y in zip(row, other, strict=True)]


def dual(basis: Matrix, modulus: int) -> Matrix:
    """The points whose products with all rows of an upper triangular basis are multiples of the
    modulus: a basis in columns, also upper triangular and reduced as by `hermite`.

    The basis must span all multiples of the modulus.
    """
    width = len(basis)
    columns: Matrix = []
    for j in range(width):
        column = [0] * width
        column[j] = modulus // basis[j][j]
        for i in range(j - 1, -1, -1):
            rest = sum(basis[i][k] * column[k] for k in range(i + 1, j + 1))
            column[i] = -rest // basis[i][i]
        columns.append(column)
        _reduce(column, columns, j)
    return columns


def _reduce(column: list[int], columns: Matrix, below: int) -> None:
    """Reduce the first entries of a column modulo the diagonal."""
    for i in range(below - 1, -1, -1):
        _subtract(column, columns[i], column[i] // columns[i][i])


def digits(rows: Sequence[Sequence[Fraction]], width: int) -> list[Digit]:
    """All points of ``Z^width`` at which the rows are integers, as sums over independent digits.

    A coordinate depends only on its own digits and those of later coordinates.
    """
    modulus = lcm(*(x.denominator for row in rows for x in row))
    check_numbers([modulus], "the common denominator of its index expressions")
    scaled = [[x.numerator * (modulus // x.denominator) for x in row] for row in rows]
    basis = hermite(scaled, modulus, width)
    columns = dual(basis, modulus)
    result: list[Digit] = []
    for j in range(width):
        weights = _weights(basis, j)
        for weight, following in zip(weights, [*weights[1:], None], strict=True):
            step = [weight * x for x in columns[j]]
            _reduce(step, columns, j)
            extent = following // weight if following is not None else None
            result.append(Digit(j, tuple(step), extent))
    return result


def _weights(basis: Matrix, j: int) -> list[int]:
    """The weights of a coordinate's digits, each a multiple of the one before.

    For each ``i``: the least number of steps along coordinate ``j`` that is a lattice point except
    in its first ``i`` coordinates. It is the common denominator of the unit vector's coefficients
    in the dual basis. Those are entries of the basis itself.
    """
    weights = [1]
    for i in range(j - 1, -1, -1):
        weight = lcm(weights[-1], Fraction(basis[i][j], basis[j][j]).denominator)
        if weight != weights[-1]:
            weights.append(weight)
    return weights
