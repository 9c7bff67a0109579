"""Affine forms with rational coefficients over named indices: the index expressions of Tile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from tessella.dialects.tile.access import Linear
from tessella.support.errors import InternalError, InvalidModelError

Number = int | Fraction

_ZERO = Fraction(0)


@dataclass(frozen=True)
class Affine:
    """``sum(coefficient * index) + constant``.

    Terms keep their order, as in a `Linear`: ``x + i`` and ``i + x`` are not equal.
    """

    terms: tuple[tuple[str, Fraction], ...] = ()
    """Each index occurs once, with a nonzero coefficient."""
    constant: Fraction = _ZERO

    @staticmethod
    def of(name: str, coefficient: Number = 1) -> Affine:
        """The form of a single index."""
        return Affine(((name, Fraction(coefficient)),)) if coefficient else Affine()

    @staticmethod
    def number(value: Number) -> Affine:
        """The form of a constant."""
        return Affine((), Fraction(value))

    @property
    def names(self) -> tuple[str, ...]:
        """The indices that occur."""
        return tuple(name for name, _ in self.terms)

    def coefficient(self, name: str) -> Fraction:
        """The coefficient of an index; 0 if it does not occur."""
        return next((c for n, c in self.terms if n == name), _ZERO)

    def __add__(self, other: Affine | Number) -> Affine:
        if not isinstance(other, Affine):
            return Affine(self.terms, self.constant + other)
        sums = dict(self.terms)
        for name, c in other.terms:
            sums[name] = sums.get(name, _ZERO) + c
        terms = tuple((n, c) for n, c in sums.items() if c)
        return Affine(terms, self.constant + other.constant)

    __radd__ = __add__

    def __neg__(self) -> Affine:
        return self * -1

    def __sub__(self, other: Affine | Number) -> Affine:
        return self + -other

    def __rsub__(self, other: Number) -> Affine:
        return -self + other

    def __mul__(self, factor: Number) -> Affine:
        if not factor:
            return Affine()
        return Affine(tuple((n, c * factor) for n, c in self.terms), self.constant * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Number) -> Affine:
        if not divisor:
            raise InvalidModelError(f"the index expression {self} is divided by 0")
        return self * Fraction(1, divisor)

    def substitute(self, forms: Mapping[str, Affine]) -> Affine:
        """The form with some indices replaced by forms."""
        result = Affine((), self.constant)
        for name, c in self.terms:
            result += forms[name] * c if name in forms else Affine.of(name, c)
        return result

    @property
    def integral(self) -> bool:
        """Whether all coefficients are integers. The form is then an integer at all integer
        points."""
        return self.constant.denominator == 1 and all(c.denominator == 1 for _, c in self.terms)

    def linear(self) -> Linear:
        """The same form as a `Linear`, if it is integral."""
        if not self.integral:
            raise InternalError(f"{self} is not integral")
        terms = tuple((name, c.numerator) for name, c in self.terms)
        return Linear(terms, self.constant.numerator)

    def __str__(self) -> str:
        parts = [(c, _monomial(name, abs(c))) for name, c in self.terms]
        if self.constant or not parts:
            parts.append((self.constant, str(abs(self.constant))))
        (first, head), *rest = parts
        text = f"-{head}" if first < 0 else head
        return text + "".join(f" {'-' if c < 0 else '+'} {part}" for c, part in rest)


def _monomial(name: str, c: Fraction) -> str:
    """``x``, ``2*x``, ``x/2``, ``3*x/2``."""
    factor = "" if c.numerator == 1 else f"{c.numerator}*"
    divisor = "" if c.denominator == 1 else f"/{c.denominator}"
    return factor + name + divisor
