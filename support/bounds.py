"""Bounds of sums of products of variables that have bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Protocol, TypeVar


class Variable(Protocol):
    """What is between two numbers."""

    @property
    def low(self) -> int: ...

    @property
    def high(self) -> int: ...


V = TypeVar("V", bound=Variable)
Factor = int | Fraction


def bounds_of_terms(
    terms: Mapping[tuple[V, ...], Factor], least: Factor = 0, most: Factor = 0
) -> tuple[int, int]:
    """The least and greatest value of a sum, to which something from ``least`` to ``most`` is
    added. Each atom counts from its least value on, so that ``n * m - n`` is seen to be positive.
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
    """Products with ``atom.low + (atom - atom.low)``, the second being the new variable; its text
    comes after those of theirs."""
    found: dict[tuple[V, ...], Factor] = {}
    for atoms, factor in parts.items():
        found[atoms] = found.get(atoms, 0) + factor * atom.low
        found[*atoms, atom] = found.get((*atoms, atom), 0) + factor
    return found
