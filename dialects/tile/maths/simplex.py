"""Least and greatest integers that linear constraints leave to a variable.

The linear programs are solved exactly by the bounded simplex method in the form of B. Dutertre and
L. de Moura, A Fast Linear-Arithmetic Solver for DPLL(T) (2006): variables and forms alike have a
value and bounds, and an equation makes some of them, the basic ones, from the others. Integers are
found by branch and bound. Bland's rule keeps the method from running in circles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from math import gcd

from tessella.support.errors import InternalError, ResourceError

MAX_WORK = 1 << 21
"""Entries of equations that may be computed for one space; about two seconds."""

Bound = int | None
"""None where there is no bound."""


class Work:
    """What solving may still cost."""

    def __init__(self, limit: int = MAX_WORK) -> None:
        self.left = limit

    def spend(self, entries: int) -> None:
        self.left -= entries
        if self.left < 0:
            raise ResourceError(
                "the ranges of the indices take too much work to find",
                hint="write index expressions and constraints with fewer indices, or smaller "
                "coefficients",
            )


class Simplex:
    """Integer variables under bounds, and bounds on forms of them.

    Variables count from 0; the forms come behind them, in their order. Together the bounds have to
    leave a finite number of points.
    """

    def __init__(
        self,
        variables: Sequence[tuple[Bound, Bound]],
        forms: Sequence[tuple[Sequence[int], int, int]],
        work: Work,
    ) -> None:
        """``forms`` are coefficients, the least and the greatest value."""
        self._count = len(variables)
        bounds = [*variables, *((low, high) for _, low, high in forms)]
        self._low: list[Bound] = [low for low, _ in bounds]
        self._high: list[Bound] = [high for _, high in bounds]
        self._value = [Fraction(0)] * len(bounds)
        self._equations: dict[int, dict[int, int]] = {}
        """By basic variable: ``sum(coefficient * variable) = 0``."""
        for i, (row, _, _) in enumerate(forms, self._count):
            self._equations[i] = {j: c for j, c in enumerate(row) if c} | {i: -1}
        self._work = work

    def range(self, variable: int) -> tuple[int, int] | None:
        """The least and the greatest value of a variable; None where there are no points."""
        low = self._least(variable)
        if low is None:
            return None
        self._negate(variable)
        high = self._least(variable)
        self._negate(variable)
        if high is None:
            raise InternalError("a variable has a least value but no greatest")
        return low, -high

    def _negate(self, x: int) -> None:
        """Replace a variable by its negative."""
        low, high = self._low[x], self._high[x]
        self._low[x] = None if high is None else -high
        self._high[x] = None if low is None else -low
        self._value[x] = -self._value[x]
        for equation in self._equations.values():
            if x in equation:
                equation[x] = -equation[x]

    def _least(self, x: int) -> int | None:
        """The least value of a variable at integer points, by branch and bound."""
        whole = (self._low, self._high)
        best: int | None = None
        pending = [(None, self._low, self._high)]
        while pending:
            bound, self._low, self._high = pending.pop()
            if best is not None and bound is not None and bound >= best:
                continue
            if not self._feasible():
                continue
            least = math.ceil(self._minimize(x))
            if best is not None and least >= best:
                continue
            fraction = self._fractional(x)
            if fraction is None:
                best = least
            else:
                pending += [(least, *side) for side in self._branch(fraction)]
        self._low, self._high = whole
        return best

    def _fractional(self, first: int) -> int | None:
        """A variable whose value is not an integer."""
        order = (first, *range(self._count))
        return next((x for x in order if self._value[x].denominator != 1), None)

    def _branch(self, x: int) -> list[tuple[list[Bound], list[Bound]]]:
        """The bounds above a variable's fractional value, and those below, which go first."""
        below = math.floor(self._value[x])
        low, high = list(self._low), list(self._high)
        low[x], high[x] = below + 1, below
        return [(low, self._high), (self._low, high)]

    # ** linear programs **

    def _feasible(self) -> bool:
        """Move to a point within all bounds; whether there is one."""
        self._settle()
        while (x := self._violated()) is not None:
            low = self._low[x]
            target = low if low is not None and self._value[x] < low else self._high[x]
            assert target is not None
            entering = self._entering(x, rise=self._value[x] < target)
            if entering is None:
                return False
            self._move(entering, (target - self._value[x]) / self._rate(x, entering))
            self._pivot(x, entering)
        return True

    def _settle(self) -> None:
        """Move what is not basic into its bounds."""
        for x, (low, high) in enumerate(zip(self._low, self._high, strict=True)):
            if x not in self._equations:
                value = self._value[x]
                inside = value if low is None else max(value, Fraction(low))
                inside = inside if high is None else min(inside, Fraction(high))
                self._move(x, inside - value)

    def _violated(self) -> int | None:
        return min((x for x in self._equations if not self._room_at(x)), default=None)

    def _room_at(self, x: int) -> bool:
        low, high, value = self._low[x], self._high[x], self._value[x]
        return (low is None or low <= value) and (high is None or value <= high)

    def _entering(self, x: int, *, rise: bool) -> int | None:
        """The first variable that is not basic and whose move can make another one rise or fall."""
        sources = sorted(self._equations[x]) if x in self._equations else [x]
        for y in sources:
            if y not in self._equations and self._free(y, (self._rate(x, y) > 0) == rise):
                return y
        return None

    def _free(self, x: int, rise: bool) -> bool:
        """Whether a variable's own bound lets it rise, or fall."""
        bound = self._high[x] if rise else self._low[x]
        return bound is None or (self._value[x] < bound if rise else self._value[x] > bound)

    def _minimize(self, x: int) -> Fraction:
        """The least value of a variable, fractions allowed, from a point within all bounds."""
        while (entering := self._entering(x, rise=False)) is not None:
            down = self._rate(x, entering) > 0
            step, leaving = self._longest_step(entering, -1 if down else 1)
            self._move(entering, -step if down else step)
            if leaving != entering:
                self._pivot(leaving, entering)
        return self._value[x]

    def _longest_step(self, entering: int, sign: int) -> tuple[Fraction, int]:
        """How far a variable can go, and the first one to meet a bound then."""
        steps: list[tuple[Fraction, int]] = []
        for x in (entering, *self._equations):
            rate = sign * self._rate(x, entering)
            bound = self._high[x] if rate > 0 else self._low[x]
            if rate and bound is not None:
                steps.append(((bound - self._value[x]) / rate, x))
        if not steps:
            raise InternalError("a linear program without bounds")
        return min(steps)

    def _rate(self, x: int, y: int) -> Fraction:
        """By how much a variable moves with one that is not basic."""
        if x == y:
            return Fraction(1)
        equation = self._equations.get(x, {})
        return Fraction(-equation[y], equation[x]) if y in equation else Fraction(0)

    def _move(self, x: int, by: Fraction) -> None:
        """Move a variable that is not basic, and the basic ones with it."""
        if not by:
            return
        self._value[x] += by
        for basic in self._equations:
            self._value[basic] += by * self._rate(basic, x)

    def _pivot(self, leaving: int, entering: int) -> None:
        """Let a variable be basic in the place of another."""
        pivot = self._equations.pop(leaving)
        for x, equation in self._equations.items():
            if entering in equation:
                self._equations[x] = _eliminate(equation, pivot, entering)
        self._equations[entering] = pivot
        self._work.spend(len(pivot) * (1 + len(self._equations)))


def _eliminate(equation: dict[int, int], pivot: dict[int, int], x: int) -> dict[int, int]:
    """A multiple of an equation plus one of another, in which ``x`` does not occur."""
    a, b = pivot[x], equation[x]
    result = {y: a * c for y, c in equation.items()}
    for y, c in pivot.items():
        result[y] = result.get(y, 0) - b * c
    divisor = gcd(*result.values())
    return {y: c // divisor for y, c in result.items() if c}
