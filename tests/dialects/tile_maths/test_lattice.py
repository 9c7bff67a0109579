"""Hermite normal forms and dual lattices against enumeration."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tessella.dialects.tile.maths.lattice import digits, hermite
from tessella.dialects.tile.maths.rowspace import RowSpace

Rows = list[list[int]]


def matrices(width: int, entries: st.SearchStrategy[int]) -> st.SearchStrategy[Rows]:
    return st.lists(st.lists(entries, min_size=width, max_size=width), max_size=4)


@st.composite
def lattices(draw: st.DrawFn) -> tuple[Rows, int, int]:
    width = draw(st.integers(1, 3))
    return draw(matrices(width, st.integers(-9, 9))), draw(st.integers(1, 6)), width


def spanned(rows: Sequence[Sequence[int]], modulus: int, width: int) -> set[tuple[int, ...]]:
    """The lattice's points modulo the modulus, by adding rows until nothing is new."""
    found = {(0,) * width}
    pending = list(found)
    while pending:
        point = pending.pop()
        for row in rows:
            fresh = tuple((a + b) % modulus for a, b in zip(point, row, strict=True))
            if fresh not in found:
                found.add(fresh)
                pending.append(fresh)
    return found


@given(lattices())
def test_hermite_spans_the_same(lattice: tuple[Rows, int, int]) -> None:
    rows, modulus, width = lattice
    basis = hermite(rows, modulus, width)
    points = spanned(rows, modulus, width)
    assert spanned(basis, modulus, width) == points
    # As large as the lattice and no larger: the determinant counts the points of the quotient.
    determinant = 1
    for at, row in enumerate(basis):
        determinant *= row[at]
        assert row[at] > 0
        assert not any(row[:at])
        assert all(0 <= above[at] < row[at] for above in basis[:at])
    assert determinant * len(points) == modulus**width


def test_hermite_form_of_mathematica() -> None:
    """The case of PlaidML's tests. The determinant is 72, so its multiples are in the lattice."""
    rows = [
        [2, 6, -3, 2],
        [2, 6, -3, 2],
        [2, 18, 3, 2],
        [-6, -3, -6, 2],
        [8, 9, -3, 4],
        [4, 9, -3, 2],
    ]
    assert hermite(rows, 72, 4) == [[2, 0, 3, 0], [0, 3, 3, 0], [0, 0, 6, 0], [0, 0, 0, 2]]


_FRACTIONS = st.builds(Fraction, st.integers(-4, 4), st.integers(1, 4))


@given(st.data(), st.integers(1, 3))
def test_digits_are_the_points(data: st.DataObject, width: int) -> None:
    """Each point where all rows are integers is one sum of digits and steps, and no others are."""
    row = st.lists(_FRACTIONS, min_size=width, max_size=width)
    rows = data.draw(st.lists(row, max_size=3))
    found = digits(rows, width)
    for point in itertools.product(range(-3, 4), repeat=width):
        integers = all(
            sum(map(Fraction.__mul__, row, map(Fraction, point))).denominator == 1 for row in rows
        )
        rest = list(point)
        for at in range(width - 1, -1, -1):
            own = [digit for digit in found if digit.coordinate == at]
            whole, remainder = divmod(rest[at], own[0].step[at])
            if remainder:
                break
            for digit in own:
                value = whole if digit.extent is None else whole % digit.extent
                whole = 0 if digit.extent is None else whole // digit.extent
                rest = [a - value * b for a, b in zip(rest, digit.step, strict=True)]
        assert (not any(rest)) == integers


@given(st.integers(1, 4).flatmap(lambda width: matrices(width, st.integers(-3, 3))))
def test_row_space_inverts(rows: Rows) -> None:
    """Rows beside unit vectors become unit vectors beside the inverse."""
    width = len(rows[0]) if rows else 0
    space = RowSpace(width)
    chosen: Rows = []
    for row in rows:
        unit = [int(at == len(chosen)) for at in range(width + 1)]
        if space.rank < width and space.add([*row, *unit]):
            chosen.append(row)
    for pivot, result in space.rows.items():
        weights = result[width : width + len(chosen)]
        combined = [
            sum(w * row[at] for w, row in zip(weights, chosen, strict=True)) for at in range(width)
        ]
        assert combined == result[:width]
        assert combined[pivot] != 0
        assert all(space.rows[pivot][other] == 0 for other in space.rows if other != pivot)
    assert all(space.determines(at) for at in range(width)) == (len(chosen) == width)
