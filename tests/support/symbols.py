"""Sizes that depend on a symbol: polynomials over it and over what is divided.

A prototype of what ``tessella.support.sizes.Size`` may become. It shows that code on sizes needs no
numbers: comparisons hold for all values of the symbol, or raise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Monomial = tuple["Atom", ...]


class UndecidedError(Exception):
    """A comparison that holds for some values of the symbols."""


@dataclass(frozen=True)
class Atom:
    """A symbol, or what is left of a division, with bounds that both belong to it."""

    name: str
    low: int
    high: int
    value: Callable[[Mapping[str, int]], int]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __lt__(self, other: Atom) -> bool:
        return self.name < other.name


class Symbolic:
    """A sum of products of atoms."""

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = {atoms: c for atoms, c in terms.items() if c}

    @staticmethod
    def of(value: Symbolic | int) -> Symbolic:
        return value if isinstance(value, Symbolic) else Symbolic({(): value})

    @staticmethod
    def symbol(name: str, low: int, high: int) -> Symbolic:
        return Symbolic({(Atom(name, low, high, lambda env: env[name]),): 1})

    def at(self, **env: int) -> int:
        """The number for values of the symbols."""
        return sum(c * math.prod(a.value(env) for a in atoms) for atoms, c in self.terms.items())

    def bounds(self) -> tuple[int, int]:
        low = high = 0
        for atoms, c in self.terms.items():
            ends = [c * math.prod(a.low for a in atoms), c * math.prod(a.high for a in atoms)]
            low, high = low + min(ends), high + max(ends)
        return low, high

    # ** arithmetic **

    def __add__(self, other: Symbolic | int) -> Symbolic:
        terms = dict(self.terms)
        for atoms, c in Symbolic.of(other).terms.items():
            terms[atoms] = terms.get(atoms, 0) + c
        return Symbolic(terms)

    def __mul__(self, other: Symbolic | int) -> Symbolic:
        total = Symbolic({})
        for a, x in self.terms.items():
            for b, y in Symbolic.of(other).terms.items():
                total += Symbolic({tuple(sorted(a + b)): x * y})
        return total

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Symbolic:
        return self * -1

    def __sub__(self, other: Symbolic | int) -> Symbolic:
        return self + -Symbolic.of(other)

    def __rsub__(self, other: int) -> Symbolic:
        return -self + other

    def __floordiv__(self, divisor: int) -> Symbolic:
        whole = Symbolic({a: c // divisor for a, c in self.terms.items() if c % divisor == 0})
        rest = Symbolic({a: c for a, c in self.terms.items() if c % divisor})
        if not rest.terms:
            return whole
        low, high = rest.bounds()
        atom = Atom(
            f"({rest}) // {divisor}",
            low // divisor,
            high // divisor,
            lambda env: rest.at(**env) // divisor,
        )
        return whole + Symbolic({(atom,): 1})

    def __mod__(self, divisor: int) -> Symbolic:
        return self - (self // divisor) * divisor

    def __str__(self) -> str:
        parts = (
            "*".join([str(c), *(a.name for a in atoms)]) for atoms, c in sorted(self.terms.items())
        )
        return " + ".join(parts) or "0"

    __repr__ = __str__

    # ** what holds for all values **

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Symbolic | int) and not (self - other).terms

    def __hash__(self) -> int:
        return hash(str(self))

    def __lt__(self, other: Symbolic | int) -> bool:
        low, high = (self - other).bounds()
        if high < 0:
            return True
        if low >= 0:
            return False
        raise UndecidedError(f"{self} < {other}")

    def __ge__(self, other: Symbolic | int) -> bool:
        return not self < other

    def __gt__(self, other: Symbolic | int) -> bool:
        return Symbolic.of(other) < self

    def __le__(self, other: Symbolic | int) -> bool:
        return not self > other


def size(name: str, low: int, high: int) -> Any:
    """A size from ``low`` to ``high`` that is not known yet."""
    return Symbolic.symbol(name, low, high)


def at(value: Any, **env: int) -> int:
    """The number that a size is for values of its symbols."""
    return Symbolic.of(value).at(**env)
