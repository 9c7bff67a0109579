"""Propagation of bounds between integer variables by linear inequalities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

from tessella.support.conditions import always, decided
from tessella.support.sizes import Size

Bound = Size | None
"""A bound; None if there is none."""
Inequality = Mapping[int, int]
"""The coefficient of each variable in the inequality ``sum(coefficient * variable) <= 0``."""

MAX_ROUNDS = 16
"""The maximum number of rounds of propagation. Some bounds approach a limit without reaching it,
and others move by 1 per round."""


def inequalities(forms: Sequence[Sequence[int]]) -> list[Inequality]:
    """Introduce a variable for each linear form, numbered after the form's own variables, and
    return the inequalities that make it equal to the form, whose coefficients are a row of
    ``forms``."""
    found: list[Inequality] = []
    for i, row in enumerate(forms, len(forms[0]) if forms else 0):
        equation = {j: c for j, c in enumerate(row) if c} | {i: -1}
        found += [equation, {j: -c for j, c in equation.items()}]
    return found


@overload
def propagate(
    inequalities: Sequence[Inequality], low: list[int | None], high: list[int | None]
) -> bool: ...


@overload
def propagate(inequalities: Sequence[Inequality], low: list[Bound], high: list[Bound]) -> bool: ...


def propagate(inequalities: Sequence[Inequality], low: list[Any], high: list[Any]) -> bool:
    """Tighten the bounds ``low`` and ``high`` of variables, in place, by each inequality alone,
    repeatedly.

    Returns False if a variable has no value left. Not all implied bounds are found.
    """
    for _ in range(MAX_ROUNDS):
        before = (*low, *high)
        if not all(_tighten(inequality, low, high) for inequality in inequalities):
            return False
        if before == (*low, *high):
            break
    return True


def _tighten(inequality: Inequality, low: list[Bound], high: list[Bound]) -> bool:
    """Tighten the bounds of the variables of one inequality, in place: ``c * x <= -(the least sum
    of the other terms)`` for each variable ``x``. Returns False if a variable has no value left."""
    total: Size = 0
    unbounded: int | None = None
    for x, c in inequality.items():
        bound = low[x] if c > 0 else high[x]
        if bound is not None:
            total += c * bound
        elif unbounded is None:
            unbounded = x
        else:
            return True
    for x in inequality if unbounded is None else (unbounded,):
        c = inequality[x]
        bound = low[x] if c > 0 else high[x]
        room = (0 if bound is None else c * bound) - total
        if c > 0:
            high[x] = _smaller(high[x], room // c)
        elif c < 0:
            low[x] = _greater(low[x], -(room // -c))
        if not _holds(low[x], high[x]):
            return False
    return True


def _holds(low: Bound, high: Bound) -> bool:
    """Return whether there is an integer between two bounds."""
    return low is None or high is None or decided(low <= high)


def _smaller(a: Bound, b: Size) -> Size:
    """Return the tighter of two upper bounds. If symbols decide which is tighter, return ``a``."""
    return b if a is None or always(b < a) else a


def _greater(a: Bound, b: Size) -> Size:
    """Return the tighter of two lower bounds. If symbols decide which is tighter, return ``a``."""
    return b if a is None or always(b > a) else a
