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
    """Return the least and the greatest value of a sum plus a number in ``[least, most]``.

    Each variable is rewritten as its lower bound plus a nonnegative offset, so that ``n * m - n``
    is found to be nonnegative.
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
    """Multiply each product by ``atom.low + (atom - atom.low)``.

    The offset ``atom - atom.low`` is the new variable. Its text sorts after the text of the
    existing ones.
    """
    found: dict[tuple[V, ...], Factor] = {}
    for atoms, factor in parts.items():
        found[atoms] = found.get(atoms, 0) + factor * atom.low
        found[*atoms, atom] = found.get((*atoms, atom), 0) + factor
    return found
