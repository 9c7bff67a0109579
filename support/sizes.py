"""Sizes: index ranges, strides and element counts of buffers.

A size is a number or an expression of symbols: a sum of products of symbols and of floor divisions
by constants, such as ``64 * seq + 1`` or ``batch * ((seq + 15) floordiv 16)``. A symbol is a
dynamic dimension of a program, with a lower and an upper bound.

Code computes with sizes by ``+ - * // %`` and the functions in this module. ``==`` compares
expressions structurally: different expressions may have equal values. ``a < b`` is a ``Condition``
(``support/conditions.py``), which may be true for some values of the symbols only.

``support/decisions.py`` answers questions on sizes and converts a size to the number that an
``int`` needs. ``estimated`` returns the number that costs are modelled for. ``value_of`` evaluates
a size for values of its symbols.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, reduce
from typing import Any, NoReturn, TypeAlias, TypeVar, cast

from tessella.support.bounds import Factor, bounds_of_terms
from tessella.support.conditions import Condition, UndecidedSizeError, decided

MOST = (1 << 31) - 1
"""The upper bound of a symbol without declared bounds."""
MOST_FACTORS, MOST_TERMS = 10, 1024
"""Limits on the factors of a product and the terms of a sum.

Bounding a product takes one step for each subset of its factors.
"""
USUAL = 128
"""The value of a symbol for which costs are estimated, unless the symbol's bounds exclude it."""
SPREAD = 8
"""The ratio of the largest value at which kernels are compared to the usual one."""


@dataclass(frozen=True, order=True)
class Symbol:
    """A dynamic dimension from ``low`` to ``high``, both inclusive."""

    name: str
    low: int
    high: int

    @property
    def size(self) -> Size:
        """The symbol as a size: a number if its bounds are equal."""
        return self.low if self.low == self.high else Expr.of({(self,): 1})

    @property
    def range(self) -> str:
        """The bounds, as messages print them."""
        return f"from {self.low}" + (f" to {self.high}" if self.high < MOST else "")

    @property
    def usual(self) -> int:
        """The value of the symbol for which costs are estimated."""
        if self.high > USUAL:
            return max(self.low, USUAL)
        return max((self.low + self.high) // 2, min(1, self.high))  # empty arrays cost nothing

    @property
    def samples(self) -> tuple[int, int, int]:
        """The values of the symbol for which kernels are compared: the usual value, the least one
        (but at least 1), and a large one."""
        return self.usual, max(1, self.low), min(self.high, SPREAD * self.usual)

    def evaluate(self, symbol: Callable[[Symbol], int]) -> int:
        return symbol(self)

    @property
    def symbols(self) -> frozenset[Symbol]:
        return frozenset({self})

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Quotient:
    """A quotient that is rounded down: ``numerator floordiv divisor``."""

    numerator: Expr
    divisor: int

    @property
    def low(self) -> int:
        return self.numerator.bounds[0] // self.divisor

    @property
    def high(self) -> int:
        return self.numerator.bounds[1] // self.divisor

    def evaluate(self, symbol: Callable[[Symbol], int]) -> int:
        return self.numerator.evaluate(symbol) // self.divisor

    @property
    def symbols(self) -> frozenset[Symbol]:
        return self.numerator.symbols

    def __str__(self) -> str:
        whole = str(self.numerator)
        inner = whole if whole.isidentifier() else f"({whole})"
        return f"({inner} floordiv {self.divisor})"


Atom: TypeAlias = "Symbol | Quotient"
Monomial = tuple[Atom, ...]
"""Factors of a product, sorted by their text. The empty tuple is 1."""


def _monomial(atoms: Monomial) -> Monomial:
    return atoms if len(atoms) < 2 else tuple(sorted(atoms, key=str))


class Expr:
    """A sum of products of symbols: immutable, and never a plain number."""

    __slots__ = ("__dict__", "_hash", "terms")

    terms: Mapping[Monomial, int]

    @staticmethod
    def of(terms: Mapping[Monomial, int]) -> Expr | int:
        """Return the sum of products with coefficients: a number if it has no symbol."""
        left = {atoms: factor for atoms, factor in terms.items() if factor}
        if left.keys() <= {()}:
            return left.get((), 0)
        made = object.__new__(Expr)
        made.terms = left
        made._hash = hash(frozenset(left.items()))
        return made

    # ** arithmetic **

    def __add__(self, other: Expr | int) -> Size:
        terms = dict(self.terms)
        for atoms, factor in self._terms_of(other).items():
            terms[atoms] = terms.get(atoms, 0) + factor
        return Expr.of(terms)

    def __mul__(self, other: Expr | int) -> Size:
        if type(other) is int:  # the common case
            return Expr.of({atoms: factor * other for atoms, factor in self.terms.items()})
        terms: dict[Monomial, int] = {}
        others = self._terms_of(other)
        if len(self.terms) * len(others) > MOST_TERMS:
            raise UndecidedSizeError("a size is a sum of too many products", self.names)
        for a, x in self.terms.items():
            for b, y in others.items():
                atoms = _monomial(a + b)
                if len(atoms) > MOST_FACTORS:
                    raise UndecidedSizeError("a size is a product of too many sizes", self.names)
                terms[atoms] = terms.get(atoms, 0) + x * y
        return Expr.of(terms)

    __radd__, __rmul__ = __add__, __mul__

    def _terms_of(self, other: Expr | int) -> Mapping[Monomial, int]:
        try:
            return terms_of(other)
        except TypeError:
            self._number()

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: Expr | int) -> Size:
        return self + -other

    def __rsub__(self, other: int) -> Size:
        return -self + other

    def __floordiv__(self, divisor: Expr | int) -> Size:
        if isinstance(divisor, Expr):
            return _exact(self, divisor)
        if divisor <= 0:
            raise UndecidedSizeError(f"{self} is divided by {divisor}", self.names)
        # Each coefficient is divided with truncation, so that -n stays -n.
        left = {a: c % divisor if c > 0 else -(-c % divisor) for a, c in self.terms.items()}
        whole = Expr.of({a: (c - left[a]) // divisor for a, c in self.terms.items()})
        rest = Expr.of(left)
        if isinstance(rest, Expr):
            return whole + Expr.of({(_quotient(rest, divisor),): 1})
        return whole + rest // divisor

    def __rfloordiv__(self, other: int) -> Size:
        if other == 0 and decided(self > 0):
            return 0
        raise UndecidedSizeError(f"{other} is divided by {self}", self.names)

    def __mod__(self, divisor: Expr | int) -> Size:
        return self - (self // divisor) * divisor

    def __rmod__(self, other: int) -> Size:
        return other - (other // self) * self

    def __divmod__(self, divisor: Expr | int) -> tuple[Size, Size]:
        return self // divisor, self % divisor

    def __rdivmod__(self, other: int) -> tuple[Size, Size]:
        return other // self, other % self

    def __abs__(self) -> Size:
        return -self if decided(self < 0) else self

    # ** bounds and signs **

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """A lower and an upper bound of the value."""
        low, high = bounds_of_terms(self.terms)
        terms: Mapping[Monomial, Factor] = self.terms
        least = most = Fraction(0)
        # the outermost quotients first, so that terms can cancel those inside them
        while depth := max(map(_depth, terms), default=0):
            terms, *remainders = _without_quotients(terms, depth)
            least, most = least + remainders[0], most + remainders[1]
            rounded = bounds_of_terms(terms, least, most)
            low, high = max(low, rounded[0]), min(high, rounded[1])
        return low, high

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __lt__(self, other: Size) -> bool | Condition:
        return _compared(self, "<", other)

    def __ge__(self, other: Size) -> bool | Condition:
        return _compared(self, ">=", other)

    def __gt__(self, other: Size) -> bool | Condition:
        return _compared(self, ">", other)

    def __le__(self, other: Size) -> bool | Condition:
        return _compared(self, "<=", other)

    def __bool__(self) -> object:
        """Return whether the size is not 0.

        The annotated type is not `bool`, so that type checkers refuse ``if size``: call
        `decided_zero`.
        """
        return not self.decided_zero()

    def decided_zero(self) -> bool:
        """Return whether the value is 0. Raises UndecidedSizeError if symbols' values decide."""
        low, high = self.bounds
        if low > 0 or high < 0:
            return False
        raise UndecidedSizeError(f"{self} is 0 for some sizes only", self.names, _is_zero_at(self))

    @property
    def negative(self) -> bool | None:
        """True if the value is below 0 for all values of the symbols, False if it is for none, and
        None if neither is known."""
        low, high = self.bounds
        return high < 0 if high < 0 or low >= 0 else None

    @property
    def sign_changes(self) -> int | None:
        """The value of the expression's only symbol at which the sign changes; None unless the
        expression has the form ``factor * symbol + number``."""
        match _linear(self):
            case (_, factor, number):
                return -(number // factor) if factor > 0 else number // -factor + 1
            case None:
                return None

    # ** numbers **

    def evaluate(self, symbol: Callable[[Symbol], int]) -> int:
        """Evaluate the expression for the values that a function gives to symbols."""
        total = 0
        for atoms, product in self.terms.items():  # loops are twice as fast as generators
            for atom in atoms:
                product *= atom.evaluate(symbol)
            total += product
        return total

    def _number(self) -> NoReturn:
        raise UndecidedSizeError(f"a number is needed for the size {self}", self.names)

    def __index__(self) -> int:
        self._number()

    def __int__(self) -> int:
        self._number()

    def __float__(self) -> float:
        self._number()

    def __truediv__(self, other: object) -> float:
        self._number()

    __rtruediv__ = __pow__ = __rpow__ = __truediv__

    @property
    def symbols(self) -> frozenset[Symbol]:
        return frozenset(s for atoms in self.terms for atom in atoms for s in atom.symbols)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(symbol.name for symbol in self.symbols)

    # ** text **

    def __str__(self) -> str:
        text = ""
        for atoms, factor in sorted(self.terms.items(), key=_order):
            sign = ("- " if text else "-") if factor < 0 else ("+ " if text else "")
            text += f"{' ' if text else ''}{sign}{_product(atoms, abs(factor))}"
        return text

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        """Format a size. The format ``d`` puts an expression in brackets, as in
        ``tensor<[n]x64xf32>``."""
        return f"[{self}]" if spec == "d" else format(str(self), spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return Expr.of, (self.terms,)


def _compared(left: Size, relation: str, right: Size) -> bool | Condition:
    apart = left - right if relation in ("<", "<=") else right - left
    negative = apart - 1 if relation in ("<=", ">=") else apart
    if isinstance(negative, Expr):
        return Condition(left, relation, right, negative)
    return negative < 0


Size: TypeAlias = int | Expr
"""A number, or an expression of symbols."""


def terms_of(size: Size) -> Mapping[Monomial, int]:
    """Return the products in a size, a sum, with their coefficients. The empty product has the
    constant."""
    return size.terms if isinstance(size, Expr) else {(): operator.index(size)}


def expression(size: object) -> Expr | None:
    """Return the size as an expression; None for a number."""
    return size if isinstance(size, Expr) else None


def bounds_of(size: Size) -> tuple[int, int]:
    """Return a lower and an upper bound of a size."""
    return size.bounds if isinstance(size, Expr) else (size, size)


def symbols_of(sizes: Iterable[object]) -> frozenset[Symbol]:
    """Return the symbols in sizes."""
    return frozenset(s for size in sizes if isinstance(size, Expr) for s in size.symbols)


def product(sizes: Iterable[Size]) -> Size:
    """Return the product of sizes; 1 for no sizes."""
    return reduce(lambda a, b: a * b, sizes, cast(Size, 1))


def total(sizes: Iterable[Size]) -> Size:
    """Return the sum of sizes; 0 for no sizes."""
    return reduce(lambda a, b: a + b, sizes, cast(Size, 0))


N = TypeVar("N", int, "int | Expr")
"""A type variable for sizes: functions return an ``int`` for an ``int``."""


def ceil_div(size: N, divisor: N) -> N:
    """Return the quotient rounded up: the number of tiles of length ``divisor`` that cover a
    size."""
    return (size + divisor - 1) // divisor


def round_up(size: N, multiple: N) -> N:
    """Round a size up to a multiple of ``multiple``."""
    return ceil_div(size, multiple) * multiple


def estimated(size: Size) -> int:
    """Return the number for which costs that depend on a size are estimated: each symbol has its
    usual value."""
    if type(size) is int:  # the common case
        return size
    return size.evaluate(lambda symbol: symbol.usual) if isinstance(size, Expr) else size


def value_of(size: Size, values: Mapping[str, int]) -> int:
    """Evaluate a size for values of its symbols, by name."""
    if type(size) is int:  # the common case, at each call with a new size
        return size
    if isinstance(size, Expr):
        return size.evaluate(lambda symbol: values[symbol.name])
    return size


def with_symbols(size: Size, replaced: Mapping[str, Size]) -> Size:
    """Return a size with sizes substituted for its symbols, by name."""
    if not isinstance(size, Expr):
        return size
    total: Size = 0
    for atoms, factor in size.terms.items():
        parts = (_replaced(atom, replaced) for atom in atoms)
        total = total + factor * product(parts)
    return total


def _replaced(atom: Atom, replaced: Mapping[str, Size]) -> Size:
    if isinstance(atom, Symbol):
        return replaced.get(atom.name, atom.size)
    return with_symbols(atom.numerator, replaced) // atom.divisor


# ** text **


def _order(term: tuple[Monomial, int]) -> tuple[int, list[str]]:
    return -len(term[0]), [str(atom) for atom in term[0]]


def _product(atoms: Monomial, factor: int) -> str:
    return " * ".join([*([str(factor)] if factor != 1 or not atoms else []), *map(str, atoms)])


# ** division **


def _quotient(numerator: Expr, divisor: int) -> Quotient:
    """Return the quotient of an expression and a number, with common factors cancelled."""
    common = math.gcd(divisor, *numerator.terms.values())
    reduced = Expr.of({atoms: factor // common for atoms, factor in numerator.terms.items()})
    assert isinstance(reduced, Expr)
    return Quotient(reduced, divisor // common)


def _exact(dividend: Expr, divisor: Expr) -> Size:
    """Return the quotient of two polynomials. Raises UndecidedSizeError if a remainder is left."""
    lead, factor = min(divisor.terms.items(), key=_order)
    rest: Size = dividend
    found: Size = 0
    while expression(rest) is not None:
        fitting = (_over(a, lead, c, factor) for a, c in sorted(terms_of(rest).items(), key=_order))
        term = next((each for each in fitting if each is not None), None)
        if term is None:
            break
        found, rest = found + term, rest - term * divisor
    if rest == 0:
        return found
    names = dividend.names | divisor.names
    raise UndecidedSizeError(f"{dividend} is not known to be a multiple of {divisor}", names)


def _over(atoms: Monomial, lead: Monomial, factor: int, divisor: int) -> Size | None:
    """Return the quotient of ``factor * atoms`` and ``divisor * lead``, two products of symbols;
    None if it is not a product of symbols with an integer factor."""
    left = list(atoms)
    for atom in lead:
        if atom not in left:
            return None
        left.remove(atom)
    return None if factor % divisor else Expr.of({tuple(left): factor // divisor})


# ** where decisions change **


def _linear(size: Expr) -> tuple[Symbol, int, int] | None:
    """Return symbol, coefficient and constant of a size of the form ``factor * symbol + number``;
    None for any other size."""
    match sorted(size.terms.items(), key=_order):
        case [((Symbol() as symbol,), factor)]:
            return symbol, factor, 0
        case [((Symbol() as symbol,), factor), ((), number)]:
            return symbol, factor, number
        case _:
            return None


def _is_zero_at(size: Expr) -> int | None:
    """Return the value of the single symbol at which ``size`` is 0, or the next value if this one
    is the symbol's least; None unless ``size`` has the form ``factor * symbol + number``."""
    match _linear(size):
        case (symbol, factor, number):
            root = -number // factor
            return root if root > symbol.low else root + 1
        case None:
            return None


# ** bounds **


def _quotient_of(atoms: Monomial) -> Quotient | None:
    """Return the quotient that is the only factor of a product; None for any other product."""
    return atoms[0] if len(atoms) == 1 and isinstance(atoms[0], Quotient) else None


def _depth(atoms: Monomial) -> int:
    """Return how many quotients are nested in a product that is a quotient; 0 for any other
    product."""
    quotient = _quotient_of(atoms)
    return 1 + max(map(_depth, quotient.numerator.terms), default=0) if quotient else 0


def _without_quotients(
    terms: Mapping[Monomial, Factor], depth: int
) -> tuple[Mapping[Monomial, Factor], Fraction, Fraction]:
    """Replace each term ``n floordiv d`` of this depth by ``n / d - r / d``, with a remainder ``r``
    in ``[0, d - 1]``.

    The replacement lets terms cancel. Returns the terms without remainders, and the least and the
    greatest sum of all terms with remainders.
    """
    found: dict[Monomial, Factor] = {}
    least = most = Fraction(0)
    for atoms, factor in terms.items():
        if (quotient := _quotient_of(atoms)) and _depth(atoms) == depth:
            share = Fraction(factor, quotient.divisor)
            for inner, c in quotient.numerator.terms.items():
                found[inner] = found.get(inner, 0) + share * c
            ends = Fraction(0), -share * (quotient.divisor - 1)
            least, most = least + min(ends), most + max(ends)
        else:
            found[atoms] = found.get(atoms, 0) + factor
    return found, least, most
