"""The lattice of the integer points at which rational forms are integers.

The forms span a lattice, and the points are the dual lattice. The Hermite basis of the first
lattice is triangular, and the dual basis is triangular too: each coordinate of a point is its own
number plus contributions of the later coordinates. A later coordinate contributes only by its
remainder, so it is split into digits, and only its low digits contribute. See H. Cohen, A Course in
Computational Algebraic Number Theory (1993), 2.4, and PlaidML 0.7's `defract`.
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
    """A digit: an integer variable times a vector ``step``. Each point of the lattice is the sum of
    ``digit * step`` over all digits, for exactly one value of each digit."""

    coordinate: int
    """The number of the last coordinate that the digit changes."""
    step: tuple[int, ...]
    extent: int | None
    """The number of values of the digit, ``0 <= digit < extent``; None if it may be any integer."""


def hermite(rows: Sequence[Sequence[int]], modulus: int, width: int) -> Matrix:
    """Return the Hermite normal form of the lattice that ``rows`` and ``modulus * Z^width`` span.

    It is upper triangular with a positive diagonal. Entries above a diagonal entry are reduced
    modulo that entry. Numbers stay below ``modulus`` during the computation.
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
    """Apply Euclid's algorithm to two rows, and return them: their entries in ``column`` become the
    greatest common divisor and 0.

    Entries after the column are reduced modulo ``modulus``, as the lattice contains its multiples.
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
    """Return a basis of the points for which the product with each row of an upper triangular
    ``basis`` is a multiple of ``modulus``.

    The result lists the basis as columns, which are also upper triangular, and reduced as by
    `hermite`. ``basis`` must span all multiples of the modulus.
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
    """Reduce the first ``below`` entries of a column modulo the diagonal entries of ``columns``, in
    place."""
    for i in range(below - 1, -1, -1):
        _subtract(column, columns[i], column[i] // columns[i][i])


def digits(rows: Sequence[Sequence[Fraction]], width: int) -> list[Digit]:
    """Return digits that enumerate all points of ``Z^width`` at which the products with ``rows``
    are integers: the points are the sums over independent digits.

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
    """Return the weights of the digits of coordinate ``j``, each a multiple of the one before.

    A weight is, for some ``i``, the least number of steps along the coordinate that gives a point
    of the lattice, if the first ``i`` coordinates are ignored. This number is the common
    denominator of the coefficients of the unit vector in the dual basis, which are entries of
    ``basis`` itself.
    """
    weights = [1]
    for i in range(j - 1, -1, -1):
        weight = lcm(weights[-1], Fraction(basis[i][j], basis[j][j]).denominator)
        if weight != weights[-1]:
            weights.append(weight)
    return weights
