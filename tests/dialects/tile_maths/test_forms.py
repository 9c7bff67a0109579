"""Rational forms: arithmetic against evaluation, and print-outs."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessella.dialects.tile.access import access
from tessella.dialects.tile.maths import Affine
from tessella.support.errors import InternalError, InvalidModelError

i, x = Affine.of("i"), Affine.of("x")
half = Fraction(1, 2)


def value(form: Affine, point: dict[str, Fraction]) -> Fraction:
    assert isinstance(form.constant, Fraction)
    return form.constant + sum((c * point[n] for n, c in form.terms), Fraction(0))


_NUMBERS = st.one_of(st.integers(-5, 5), st.fractions(-3, 3, max_denominator=6))
_FORMS = st.builds(
    lambda a, b, c: Affine.of("i", a) + Affine.of("x", b) + c, _NUMBERS, _NUMBERS, _NUMBERS
)
_POINTS = st.fixed_dictionaries({"i": st.fractions(-4, 4), "x": st.fractions(-4, 4)})


@given(_FORMS, _FORMS, _NUMBERS, _POINTS)
def test_arithmetic(a: Affine, b: Affine, number: int | Fraction, at: dict[str, Fraction]) -> None:
    assert value(a + b, at) == value(a, at) + value(b, at)
    assert value(a - b, at) == value(a, at) - value(b, at)
    assert value(-a, at) == -value(a, at)
    assert value(number * a + number, at) == value(a * number, at) + number
    assert value(number - a, at) == number - value(a, at)
    assert all(c for _, c in (a - b).terms)
    if number:
        assert value(a / number, at) == value(a, at) / number


@given(_FORMS, _FORMS, _POINTS)
def test_substitution(a: Affine, b: Affine, at: dict[str, Fraction]) -> None:
    assert value(a.substitute({"i": b}), at) == value(a, at | {"i": value(b, at)})


@pytest.mark.parametrize(
    "form, text",
    [
        (3 * x - i + 4, "3*x - i + 4"),
        (x / 3 - i + 4, "x/3 - i + 4"),
        ((x - i + 4) / 3, "x/3 - i/3 + 4/3"),
        ((x / 3 - i) / 5 + 4, "x/15 - i/5 + 4"),
        (-3 * x / 2 - half, "-3*x/2 - 1/2"),
        (x - x, "0"),
        (Affine.number(-half), "-1/2"),
    ],
    ids=str,
)
def test_text(form: Affine, text: str) -> None:
    assert str(form) == text


def test_linear() -> None:
    assert (2 * x + i - 1).linear() == access("x")[0] * 2 + access("i")[0] - 1
    assert (x / 2 * 2).integral
    assert not (x + half).integral
    with pytest.raises(InternalError, match="x/2"):
        (x / 2).linear()


def test_division_by_zero() -> None:
    with pytest.raises(InvalidModelError, match=r"x \+ 1 is divided by 0"):
        _ = (x + 1) / 0
