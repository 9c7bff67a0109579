"""Propagation of bounds between integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, overload

from tessella.support.conditions import always, decided
from tessella.support.sizes import Size

Bound = Size | None
"""A bound; None if there is none."""
Inequality = Mapping[int, int]
"""``sum(coefficient * variable) <= 0``, by variable."""

MAX_ROUNDS = 16
"""Some bounds approach a limit for ever, and others move one step at a time."""


def inequalities(forms: Sequence[Sequence[int]]) -> list[Inequality]:
    """Return the inequalities that make each form equal to its coefficients times the variables.
    The forms are numbered after the variables."""
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
    """Tighten the bounds, in place, as each inequality alone allows.

    Returns False if nothing is left. It does not find all implied bounds.
    """
    for _ in range(MAX_ROUNDS):
        before = (*low, *high)
        if not all(_tighten(inequality, low, high) for inequality in inequalities):
            return False
        if before == (*low, *high):
            break
    return True


def _tighten(inequality: Inequality, low: list[Bound], high: list[Bound]) -> bool:
    """``c * x <= -(the least that the other terms add up to)``, for each variable ``x``."""
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
    """The tighter of two upper bounds; the first where that is not known."""
    return b if a is None or always(b < a) else a


def _greater(a: Bound, b: Size) -> Size:
    """The tighter of two lower bounds; the first where that is not known."""
    return b if a is None or always(b > a) else a
