"""Bounds of polynomials in bounded variables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Protocol, TypeVar


class Variable(Protocol):
    """A variable with a least and a greatest value."""

    @property
    def low(self) -> int: ...

    @property
    def high(self) -> int: ...


V = TypeVar("V", bound=Variable)
Factor = int | Fraction


def bounds_of_terms(
    terms: Mapping[tuple[V, ...], Factor], least: Factor = 0, most: Factor = 0
) -> tuple[int, int]:
    """Return a lower and an upper bound of a sum of products, plus a number in ``[least, most]``.

    ``terms`` has the factor of each product of variables. Each variable is rewritten as its lower
    bound plus a nonnegative offset, so that ``n * m - n`` is found to be nonnegative.
    """
    shifted: dict[tuple[V, ...], Factor] = {}
    for atoms, factor in terms.items():
        parts: Mapping[tuple[V, ...], Factor] = {(): factor}
        for atom in atoms:
            parts = _times(parts, atom)
        for key, value in parts.items():
            shifted[key] = shifted.get(key, 0) + value
    constant = shifted.pop((), 0)
    ends = [c * math.prod(a.high - a.low for a in atoms) for atoms, c in shifted.items()]
    low = constant + least + sum(end for end in ends if end < 0)
    high = constant + most + sum(end for end in ends if end > 0)
    return math.ceil(low), math.floor(high)


def _times(parts: Mapping[tuple[V, ...], Factor], atom: V) -> Mapping[tuple[V, ...], Factor]:
    """Multiply each product of ``parts`` by ``atom.low + (atom - atom.low)``.

    In the results, ``atom`` stands for the offset ``atom - atom.low``. It is appended to the
    variables of a product, as its text sorts after theirs.
    """
    found: dict[tuple[V, ...], Factor] = {}
    for atoms, factor in parts.items():
        found[atoms] = found.get(atoms, 0) + factor * atom.low
        found[*atoms, atom] = found.get((*atoms, atom), 0) + factor
    return found
