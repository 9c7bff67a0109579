"""Constraints on integer variables: merging of parallel ones, and the bounds that all of them
imply."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd

from tessella.dialects.tile.access import Linear
from tessella.dialects.tile.maths.limits import Budget
from tessella.dialects.tile.maths.propagation import Bound
from tessella.dialects.tile.maths.simplex import Simplex
from tessella.support.conditions import decided
from tessella.support.decisions import known

Constraint = tuple[Linear, int]
"""``0 <= form < extent``."""


@dataclass(frozen=True)
class Interval:
    """``low <= form <= high`` for a form of coprime coefficients, without a constant."""

    form: Linear
    low: int
    high: int

    @property
    def constraint(self) -> Constraint:
        return self.form - self.low, self.high - self.low + 1

    def intersect(self, other: Interval) -> Interval | None:
        """The intersection with an interval of the same form or its negative; None if it is
        empty."""
        low, high = other.low, other.high
        name, c = self.form.terms[0]
        if other.form.coefficient(name) != c:
            low, high = -high, -low
        low, high = max(self.low, low), min(self.high, high)
        return Interval(self.form, low, high) if low <= high else None


def merge(constraints: Iterable[Constraint]) -> tuple[Interval, ...] | None:
    """The constraints with parallel ones merged, in the direction of the first.

    Constraints that always hold are dropped. None if one never holds, or parallel ones exclude each
    other.
    """
    merged: dict[frozenset[tuple[str, int]], Interval] = {}
    for form, extent in constraints:
        if not form.terms:
            if not (decided(form.constant >= 0) and decided(form.constant < extent)):
                return None
            continue
        interval = _interval(form, extent)
        key = _direction(interval.form)
        both = merged[key].intersect(interval) if key in merged else interval
        if both is None or both.low > both.high:
            return None
        merged[key] = both
    return tuple(merged.values())


def _interval(form: Linear, extent: int) -> Interval:
    """The form only takes multiples of the greatest common divisor of its coefficients."""
    divisor = gcd(*(c for _, c in form.terms))
    constant = known(form.constant)
    low = -(constant // divisor)
    high = (extent - 1 - constant) // divisor
    return Interval(Linear(tuple((n, c // divisor) for n, c in form.terms)), low, high)


def _direction(form: Linear) -> frozenset[tuple[str, int]]:
    """A key that is the same for a form and its negative."""
    _, first = min(form.terms)
    return frozenset((n, c if first > 0 else -c) for n, c in form.terms)


def bounds(constraints: Iterable[Constraint]) -> dict[str, tuple[int, int]] | None:
    """The least and the greatest value of each variable at the integer points of the constraints.

    None if there are no such points. Raises `ResourceError` if the search takes too long.
    """
    intervals = merge(constraints)
    if intervals is None:
        return None
    budget = Budget()
    found: dict[str, tuple[int, int]] = {}
    for part in _independent(intervals):
        names = list(dict.fromkeys(name for x in part for name, _ in x.form.terms))
        simplex = _simplex(names, part, budget)
        for i, name in enumerate(names):
            ends = simplex.range_of(i)
            if ends is None:
                return None
            found[name] = ends
    return found


def _independent(intervals: Sequence[Interval]) -> list[list[Interval]]:
    """The intervals in groups that share no variables."""
    groups: list[tuple[set[str], list[Interval]]] = []
    for interval in intervals:
        names = {name for name, _ in interval.form.terms}
        members = [interval]
        apart: list[tuple[set[str], list[Interval]]] = []
        for group in groups:
            if names.isdisjoint(group[0]):
                apart.append(group)
            else:
                names |= group[0]
                members = group[1] + members
        groups = [*apart, (names, members)]
    return [members for _, members in groups]


def _simplex(names: Sequence[str], intervals: Sequence[Interval], budget: Budget) -> Simplex:
    sides: dict[str, tuple[Bound, Bound]] = dict.fromkeys(names, (None, None))
    forms: list[tuple[list[int], int, int]] = []
    for x in intervals:
        if len(x.form.terms) > 1:
            forms.append(([x.form.coefficient(n) for n in names], x.low, x.high))
            continue
        for name, c in x.form.terms:
            sides[name] = (x.low, x.high) if c > 0 else (-x.high, -x.low)
    return Simplex([sides[name] for name in names], forms, budget)
