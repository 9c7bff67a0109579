"""Affine forms with rational coefficients over named indices: the index expressions of Tile.

The constant of a form may be a size that depends on symbols. UndecidedSizeError is raised if an
operation needs the value of that size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from tessella.dialects.tile.access import Linear
from tessella.support.conditions import UndecidedSizeError
from tessella.support.decisions import is_multiple, known
from tessella.support.errors import InternalError, InvalidModelError
from tessella.support.sizes import Expr, Size

Number = int | Fraction
Constant = Fraction | Expr

_ZERO = Fraction(0)


def constant(value: Number | Size) -> Constant:
    """Return a number or a size as the constant of a form."""
    return value if isinstance(value, Expr) else Fraction(value)


def _sum(a: Constant, b: Constant) -> Constant:
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a + b
    return constant(_whole(a) + _whole(b))


def _product(a: Constant, b: Constant) -> Constant:
    if isinstance(a, Expr):
        return constant(a * b) if isinstance(b, Expr) else _scaled(a, b)
    return _scaled(b, a) if isinstance(b, Expr) else a * b


def _scaled(size: Expr, factor: Fraction) -> Constant:
    times = size * factor.numerator
    if not is_multiple(times, factor.denominator):
        what = f"{times} is not known to be a multiple of {factor.denominator}"
        raise UndecidedSizeError(what, size.names)
    return constant(times // factor.denominator)


def _whole(a: Constant) -> Size:
    """Return a constant as an integer or a symbolic size, so that a symbolic size can be added to
    it. Raises UndecidedSizeError for a fraction."""
    if isinstance(a, Expr):
        return a
    if a.denominator != 1:
        raise UndecidedSizeError(f"{a} is added to a size", ())
    return a.numerator


@dataclass(frozen=True)
class Affine:
    """An affine form with rational coefficients: ``sum(coefficient * index) + constant``.

    Terms keep their order, as in a `Linear`: ``x + i`` and ``i + x`` are not equal.
    """

    terms: tuple[tuple[str, Fraction], ...] = ()
    """The indices with their coefficients. Each index occurs once, with a nonzero coefficient."""
    constant: Constant = _ZERO

    @staticmethod
    def of(name: str, coefficient: Number = 1) -> Affine:
        """Return the affine expression ``coefficient * index`` of a single index."""
        return Affine(((name, Fraction(coefficient)),)) if coefficient else Affine()

    @staticmethod
    def number(value: Number | Size) -> Affine:
        """Return the form that is the constant ``value``."""
        return Affine((), constant(value))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the indices that occur in the form."""
        return tuple(name for name, _ in self.terms)

    def coefficient(self, name: str) -> Fraction:
        """Return the coefficient of an index; 0 if the index does not occur."""
        return next((c for n, c in self.terms if n == name), _ZERO)

    def __add__(self, other: Affine | Number | Size) -> Affine:
        if not isinstance(other, Affine):
            return Affine(self.terms, _sum(self.constant, constant(other)))
        sums = dict(self.terms)
        for name, c in other.terms:
            sums[name] = sums.get(name, _ZERO) + c
        terms = tuple((n, c) for n, c in sums.items() if c)
        return Affine(terms, _sum(self.constant, other.constant))

    __radd__ = __add__

    def __neg__(self) -> Affine:
        return self * -1

    def __sub__(self, other: Affine | Number | Size) -> Affine:
        return self + -other

    def __rsub__(self, other: Number | Size) -> Affine:
        return -self + other

    def __mul__(self, factor: Number | Size) -> Affine:
        scale = constant(factor)
        if scale == 0:
            return Affine()
        by = Fraction(known(scale)) if isinstance(scale, Expr) and self.terms else scale
        terms = tuple((n, c * by) for n, c in self.terms if isinstance(by, Fraction))
        return Affine(terms, _product(self.constant, by))

    __rmul__ = __mul__

    def __truediv__(self, divisor: Number | Size) -> Affine:
        if divisor == 0:
            raise InvalidModelError(f"the index expression {self} is divided by 0")
        scale = divisor if isinstance(divisor, Fraction) else known(divisor)
        return self * Fraction(1, scale)

    def substitute(self, forms: Mapping[str, Affine]) -> Affine:
        """Return the expression with some indices replaced by affine expressions, which ``forms``
        maps by index name."""
        result = Affine((), self.constant)
        for name, c in self.terms:
            result += forms[name] * c if name in forms else Affine.of(name, c)
        return result

    @property
    def integral(self) -> bool:
        """True if all coefficients and the constant are integers. The form is then an integer at
        all integer points."""
        whole = isinstance(self.constant, Expr) or self.constant.denominator == 1
        return whole and all(c.denominator == 1 for _, c in self.terms)

    def linear(self) -> Linear:
        """Return the same form as a `Linear`. Raises InternalError if it is not integral."""
        if not self.integral:
            raise InternalError(f"{self} is not integral")
        terms = tuple((name, c.numerator) for name, c in self.terms)
        return Linear(terms, _whole(self.constant))

    def __str__(self) -> str:
        parts = [(c, _monomial(name, abs(c))) for name, c in self.terms]
        if isinstance(self.constant, Expr):
            parts.append((Fraction(1), f"[{self.constant}]"))
        elif self.constant or not parts:
            parts.append((self.constant, str(abs(self.constant))))
        (first, head), *rest = parts
        text = f"-{head}" if first < 0 else head
        return text + "".join(f" {'-' if c < 0 else '+'} {part}" for c, part in rest)


def _monomial(name: str, c: Fraction) -> str:
    """Return the text of an index times a positive coefficient: ``x``, ``2*x``, ``x/2``,
    ``3*x/2``."""
    factor = "" if c.numerator == 1 else f"{c.numerator}*"
    divisor = "" if c.denominator == 1 else f"/{c.denominator}"
    return factor + name + divisor
