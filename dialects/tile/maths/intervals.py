"""Constraints on integer variables: merging of parallel constraints, and the bounds that all
constraints imply together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd

from tessella.dialects.tile.access import Linear
from tessella.dialects.tile.maths.limits import Budget
from tessella.dialects.tile.maths.propagation import Bound, inequalities, propagate
from tessella.dialects.tile.maths.simplex import Simplex
from tessella.support.conditions import UndecidedSizeError, decided
from tessella.support.decisions import decided_max, decided_min, known
from tessella.support.sizes import Size, symbols_of

Constraint = tuple[Linear, Size]
"""A pair (form, extent) for the constraint ``0 <= form < extent``."""


@dataclass(frozen=True)
class Interval:
    """A constraint ``low <= form <= high`` on a form with coprime coefficients and without a
    constant."""

    form: Linear
    low: Size
    high: Size

    @property
    def constraint(self) -> Constraint:
        return self.form - self.low, self.high - self.low + 1

    def intersect(self, other: Interval) -> Interval | None:
        """Return the intersection with an interval of the same form or of its negative; None if it
        is empty."""
        low, high = other.low, other.high
        name, c = self.form.terms[0]
        if other.form.coefficient(name) != c:
            low, high = -high, -low
        low, high = decided_max(self.low, low), decided_min(self.high, high)
        return Interval(self.form, low, high) if decided(low <= high) else None


def merge(constraints: Iterable[Constraint]) -> tuple[Interval, ...] | None:
    """Return the constraints as intervals, with parallel constraints merged into one interval, in
    the direction of the first.

    Constraints on constants are dropped if they hold. None if a constraint never holds, or if
    parallel constraints exclude each other.
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
        if both is None or decided(both.low > both.high):
            return None
        merged[key] = both
    return tuple(merged.values())


def _interval(form: Linear, extent: Size) -> Interval:
    """Return a constraint as an interval of its form divided by the greatest common divisor of the
    coefficients.

    The bounds are rounded inwards, as the divided form is an integer.
    """
    divisor = gcd(*(c for _, c in form.terms))
    low = -(form.constant // divisor)
    high = (extent - 1 - form.constant) // divisor
    return Interval(Linear(tuple((n, c // divisor) for n, c in form.terms)), low, high)


def _direction(form: Linear) -> frozenset[tuple[str, int]]:
    """Return a key of a form that is the same for its negative."""
    _, first = min(form.terms)
    return frozenset((n, c if first > 0 else -c) for n, c in form.terms)


def bounds(constraints: Iterable[Constraint]) -> dict[str, tuple[Size, Size]] | None:
    """Return the least and the greatest value of each variable at the integer points at which all
    constraints hold; None if there are no points. If the constraints depend on symbols, the
    result is a lower and an upper bound.

    Raises `ResourceError` if the search takes too long, and `UndecidedSizeError` if a decision
    depends on the values of symbols.
    """
    intervals = merge(constraints)
    if intervals is None:
        return None
    budget = Budget()
    found: dict[str, tuple[Size, Size]] = {}
    for part in _independent(intervals):
        names = list(dict.fromkeys(name for x in part for name, _ in x.form.terms))
        symbols = symbols_of(end for x in part for end in (x.low, x.high))
        ranges = _propagated(names, part) if symbols else _exact(names, part, budget)
        if ranges is None:
            return None
        found |= zip(names, ranges, strict=True)
    return found


def _exact(
    names: Sequence[str], intervals: Sequence[Interval], budget: Budget
) -> Sequence[tuple[int, int]] | None:
    sides, forms = _columns(names, intervals)
    numbers = [(row, known(low), known(high)) for row, low, high in forms]
    simplex = Simplex([(_known(low), _known(high)) for low, high in sides], numbers, budget)
    found: list[tuple[int, int]] = []
    for i in range(len(names)):
        ends = simplex.range_of(i)
        if ends is None:
            return None
        found.append(ends)
    return found


def _known(bound: Bound) -> int | None:
    return None if bound is None else known(bound)


def _propagated(
    names: Sequence[str], intervals: Sequence[Interval]
) -> Sequence[tuple[Size, Size]] | None:
    """Return the ranges of the variables that the propagation of bounds finds, which looks at one
    linear form at a time; None if a range is empty. Raises UndecidedSizeError if a variable has no
    bound."""
    sides, forms = _columns(names, intervals)
    low: list[Bound] = [*(least for least, _ in sides), *(least for _, least, _ in forms)]
    high: list[Bound] = [*(most for _, most in sides), *(most for _, _, most in forms)]
    if not propagate(inequalities([row for row, _, _ in forms]), low, high):
        return None
    found: list[tuple[Size, Size]] = []
    for name, least, most in zip(names, low, high, strict=False):
        if least is None or most is None:
            symbols = symbols_of(end for x in intervals for end in (x.low, x.high))
            what = f"the range of the index {name!r} needs the numbers"
            raise UndecidedSizeError(what, (symbol.name for symbol in symbols))
        found.append((least, most))
    return found


def _independent(intervals: Sequence[Interval]) -> list[list[Interval]]:
    """Return the intervals in groups. Different groups do not share variables."""
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


Form = tuple[list[int], Size, Size]
"""The coefficients of a form, one for each variable, and its least and its greatest value."""


def _columns(
    names: Sequence[str], intervals: Sequence[Interval]
) -> tuple[list[tuple[Bound, Bound]], list[Form]]:
    """Return the bounds of each variable from intervals of a single variable, and the forms of the
    intervals of several variables."""
    sides: dict[str, tuple[Bound, Bound]] = dict.fromkeys(names, (None, None))
    forms: list[Form] = []
    for x in intervals:
        if len(x.form.terms) > 1:
            forms.append(([x.form.coefficient(n) for n in names], x.low, x.high))
            continue
        for name, c in x.form.terms:
            sides[name] = (x.low, x.high) if c > 0 else (-x.high, -x.low)
    return [sides[name] for name in names], forms
