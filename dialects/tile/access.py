"""Affine expressions of named indices, called forms, and accesses, which are lists of forms.

An access has one form for each logical dimension of a tensor: ``[n, ci, y + i - 1, 2*x + j]``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.parser import AttrParser

from tessella.dialects.sizes import Sizes, parse_size
from tessella.support.conditions import UndecidedSizeError, decided
from tessella.support.decisions import decided_zero
from tessella.support.sizes import Size, expression


@dataclass(frozen=True)
class Linear:
    """An affine expression with integer coefficients: ``sum(coefficient * index) + constant`` over
    named integer indices."""

    terms: tuple[tuple[str, int], ...] = ()
    constant: Size = 0

    @staticmethod
    def of(name: str, coefficient: int = 1) -> Linear:
        """Return the affine expression ``coefficient * index`` of a single index."""
        return Linear(((name, coefficient),)) if coefficient else Linear()

    def coefficient(self, name: str) -> int:
        """Return the coefficient of an index; 0 if the index does not occur."""
        return next((c for n, c in self.terms if n == name), 0)

    def __add__(self, other: Linear | Size) -> Linear:
        if not isinstance(other, Linear):
            return Linear(self.terms, self.constant + other)
        sums = dict(self.terms)
        for name, c in other.terms:
            sums[name] = sums.get(name, 0) + c
        terms = tuple((n, c) for n, c in sums.items() if c)
        return Linear(terms, self.constant + other.constant)

    def __mul__(self, factor: int) -> Linear:
        if factor == 0:
            return Linear()
        return Linear(tuple((n, c * factor) for n, c in self.terms), self.constant * factor)

    def __sub__(self, other: Linear | Size) -> Linear:
        return self + (other * -1 if isinstance(other, Linear) else -other)

    def substitute(self, forms: Mapping[str, Linear]) -> Linear:
        """Return the expression with some indices replaced by affine expressions, which ``forms``
        maps by index name."""
        result = Linear((), self.constant)
        for name, c in self.terms:
            result += forms.get(name, Linear.of(name)) * c
        return result

    def with_sizes(self, of: Sizes) -> Linear:
        """Return the form with its constant replaced by the result of ``of``."""
        return Linear(self.terms, of(self.constant))

    def bounds(self, ranges: Mapping[str, Size]) -> tuple[Size, Size]:
        """Return the least and the greatest value of the expression if each index satisfies 0 <=
        index < range."""
        low: Size = self.constant
        high: Size = self.constant
        for name, c in self.terms:
            span = c * (ranges[name] - 1)
            low, high = (low + span, high) if c < 0 else (low, high + span)
        return low, high

    @property
    def single(self) -> str | None:
        """The name of the index if the expression is a single index with coefficient 1 and constant
        0, otherwise None."""
        if self.constant == 0 and len(self.terms) == 1 and self.terms[0][1] == 1:
            return self.terms[0][0]
        return None

    def __str__(self) -> str:
        text = ""
        for name, c in self.terms:
            sign = "-" if c < 0 else "+" if text else ""
            factor = "" if abs(c) == 1 else f"{abs(c)}*"
            text += f" {sign} {factor}{name}" if text else f"{sign}{factor}{name}"
        if expression(self.constant) is not None:
            text += f" + {self.constant:d}" if text else f"{self.constant:d}"
        elif not decided_zero(self.constant) or not text:
            sign = "-" if decided(self.constant < 0) else "+"
            text += f" {sign} {abs(self.constant)}" if text else str(self.constant)
        return text


Access = tuple[Linear, ...]


def stays_inside(access: Access, shape: Sequence[Size], ranges: Mapping[str, Size]) -> bool:
    """Return whether an access is in bounds of a tensor of this shape for all values of the
    indices."""
    bounds = (form.bounds(ranges) for form in access)
    return all(
        low >= 0 and high < extent for (low, high), extent in zip(bounds, shape, strict=True)
    )


def may_stay_inside(access: Access, shape: Sequence[Size], ranges: Mapping[str, Size]) -> bool:
    """Return whether an access is in bounds of a tensor of this shape for all values of the
    indices, or may be for some values of the symbols."""
    try:
        return stays_inside(access, shape, ranges)
    except UndecidedSizeError:
        return True


def access(*forms: Linear | str | int) -> Access:
    """Return an access, given an affine expression, an index name or a constant for each
    dimension."""
    return tuple(
        f if isinstance(f, Linear) else Linear.of(f) if isinstance(f, str) else Linear((), f)
        for f in forms
    )


def parse_linear(parser: AttrParser) -> Linear:
    """Parse ``2*x + i - 1``."""
    result = Linear()
    sign = -1 if parser.parse_optional_punctuation("-") else 1
    while True:
        result += _parse_term(parser) * sign
        if parser.parse_optional_punctuation("+"):
            sign = 1
        elif parser.parse_optional_punctuation("-"):
            sign = -1
        else:
            return result


def _parse_term(parser: AttrParser) -> Linear:
    if parser.parse_optional_punctuation("[") is not None:
        size = parse_size(parser)
        parser.parse_punctuation("]")
        return Linear((), size)
    number = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    if number is None:
        return Linear.of(parser.parse_identifier(" an index or a number"))
    if parser.parse_optional_punctuation("*"):
        return Linear.of(parser.parse_identifier(" an index"), number)
    return Linear((), number)


def parse_access(parser: AttrParser) -> Access:
    """Parse ``[n, ci, y + i - 1]``."""
    forms = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_linear(parser))
    return tuple(forms)


def print_access(forms: Access) -> str:
    """Return the text that ``parse_access`` reads."""
    return f"[{', '.join(map(str, forms))}]"
