"""The least and greatest integer values of a variable under linear constraints.

The linear programs are solved exactly by the bounded simplex method in the form of B. Dutertre and
L. de Moura, A Fast Linear-Arithmetic Solver for DPLL(T) (2006): variables and forms both have a
value and bounds, and each basic one is defined by an equation over the others. Integers are found
by branch and bound. Bland's rule prevents cycling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from heapq import heappop, heappush
from math import gcd

from tessella.dialects.tile.maths.limits import Budget
from tessella.dialects.tile.maths.propagation import Inequality, propagate
from tessella.support.errors import InternalError

_ZERO = Fraction(0)
_ONE = Fraction(1)


class Simplex:
    """A system of integer variables with bounds, and with bounds on linear forms of the variables.

    The variables are numbered from 0, followed by the forms in order. The bounds together must
    leave a finite number of points.
    """

    def __init__(
        self,
        variables: Sequence[tuple[int | None, int | None]],
        forms: Sequence[tuple[Sequence[int], int, int]],
        budget: Budget,
    ) -> None:
        """Create a system from the bounds of the ``variables``, and the coefficients, the least and
        the greatest value of each of the ``forms``."""
        self._count = len(variables)
        bounds = [*variables, *((low, high) for _, low, high in forms)]
        self._low: list[int | None] = [low for low, _ in bounds]
        self._high: list[int | None] = [high for _, high in bounds]
        self._value = [_ZERO] * len(bounds)
        self._equations: dict[int, dict[int, int]] = {}
        """The equation of each basic variable: ``sum(coefficient * variable) = 0``."""
        self._inequalities: list[Inequality] = []
        for i, (row, _, _) in enumerate(forms, self._count):
            equation = {j: c for j, c in enumerate(row) if c} | {i: -1}
            self._equations[i] = equation
            self._inequalities += [equation, {j: -c for j, c in equation.items()}]
        self._budget = budget

    def range_of(self, variable: int) -> tuple[int, int] | None:
        """Return the least and the greatest value of a variable at the integer points of the
        system; None if there are no points."""
        low = self._least(variable, 1)
        high = self._least(variable, -1) if low is not None else None
        return (low, -high) if low is not None and high is not None else None

    def _least(self, x: int, sign: int) -> int | None:
        """Return the least value of ``sign`` times a variable at the integer points of the system,
        by branch and bound; None if there are no points.

        Of the branches with the least lower bound, the latest is explored first.
        """
        whole = self._low, self._high
        best: int | None = None
        parts = [(0, 0, *whole)]
        count = 0
        while parts and (best is None or parts[0][0] < best):
            _, _, low, high = heappop(parts)
            self._low, self._high = list(low), list(high)
            if not self._tighten() or not self._feasible():
                continue
            self._optimize(x, rise=sign < 0)
            least = math.ceil(sign * self._value[x])
            fraction = self._fractional(x)
            if fraction is None:
                best = least if best is None else min(best, least)
                continue
            for side in self._branch(fraction):
                count += 1
                heappush(parts, (least, -count, *side))
        self._low, self._high = whole
        return best

    def _tighten(self) -> bool:
        self._budget.spend(len(self._low) + sum(map(len, self._inequalities)))
        return propagate(self._inequalities, self._low, self._high)

    def _fractional(self, first: int) -> int | None:
        """Return a variable with a fractional value, ``first`` if its value is fractional; None if
        all values are integers."""
        order = (first, *range(self._count))
        return next((x for x in order if self._value[x].denominator != 1), None)

    def _branch(self, x: int) -> list[tuple[list[int | None], list[int | None]]]:
        """Return the two branches at a variable's fractional value, as lower and upper bounds of
        all variables: the branch above the value, then the branch below it, which is explored
        first."""
        below = math.floor(self._value[x])
        low, high = list(self._low), list(self._high)
        low[x], high[x] = below + 1, below
        return [(low, self._high), (self._low, high)]

    # ** linear programs **

    def _feasible(self) -> bool:
        """Move to a rational point within all bounds. Returns whether there is one."""
        for x in range(len(self._value)):
            if x not in self._equations:
                self._move(x, self._missing(x))
        while (x := self._violated()) is not None:
            missing = self._missing(x)
            entering = self._entering(x, rise=missing > 0)
            if entering is None:
                return False
            self._move(entering, missing / self._rate(x, entering))
            self._pivot(x, entering)
        return True

    def _violated(self) -> int | None:
        return min((x for x in self._equations if self._missing(x)), default=None)

    def _missing(self, x: int) -> Fraction:
        """Return by how much a variable must move to be within its bounds; 0 if it is within
        them."""
        low, high, value = self._low[x], self._high[x], self._value[x]
        if low is not None and value < low:
            return low - value
        return high - value if high is not None and value > high else _ZERO

    def _entering(self, x: int, *, rise: bool) -> int | None:
        """Return the first nonbasic variable that can move so that the variable ``x`` rises, or
        falls if not ``rise``. None if there is none."""
        sources = sorted(self._equations[x]) if x in self._equations else [x]
        for y in sources:
            if y not in self._equations and self._free(y, (self._rate(x, y) > 0) == rise):
                return y
        return None

    def _free(self, x: int, rise: bool) -> bool:
        """Return whether the bounds of a variable let it rise, or fall if not ``rise``."""
        bound = self._high[x] if rise else self._low[x]
        return bound is None or (self._value[x] < bound if rise else self._value[x] > bound)

    def _optimize(self, x: int, *, rise: bool) -> None:
        """Maximize a variable over the rationals if ``rise``, otherwise minimize it. The current
        point must be within all bounds."""
        while (entering := self._entering(x, rise=rise)) is not None:
            sign = 1 if (self._rate(x, entering) > 0) == rise else -1
            step, leaving = self._longest_step(entering, sign)
            self._move(entering, sign * step)
            if leaving != entering:
                self._pivot(leaving, entering)

    def _longest_step(self, entering: int, sign: int) -> tuple[Fraction, int]:
        """Return by how much the variable ``entering`` can move in the direction ``sign`` until a
        variable reaches a bound, and the first variable that does."""
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
        """Return the rate at which the variable ``x`` changes with the nonbasic variable ``y``."""
        if x == y:
            return _ONE
        equation = self._equations.get(x, {})
        return Fraction(-equation[y], equation[x]) if y in equation else _ZERO

    def _move(self, x: int, by: Fraction) -> None:
        """Change the value of a nonbasic variable by ``by``, and the values of the basic variables
        accordingly."""
        if not by:
            return
        self._value[x] += by
        for basic in self._equations:
            self._value[basic] += by * self._rate(basic, x)

    def _pivot(self, leaving: int, entering: int) -> None:
        """Make the variable ``entering`` basic and the variable ``leaving`` nonbasic, and rewrite
        the equations."""
        pivot = self._equations.pop(leaving)
        for x, equation in self._equations.items():
            if entering in equation:
                self._equations[x] = _eliminate(equation, pivot, entering)
        self._equations[entering] = pivot
        self._budget.spend(len(pivot) * (1 + len(self._equations)))


def _eliminate(equation: dict[int, int], pivot: dict[int, int], x: int) -> dict[int, int]:
    """Return a multiple of an equation plus a multiple of ``pivot``, in which the variable ``x``
    does not occur."""
    a, b = pivot[x], equation[x]
    result = {y: a * c for y, c in equation.items()}
    for y, c in pivot.items():
        result[y] = result.get(y, 0) - b * c
    divisor = gcd(*result.values())
    return {y: c // divisor for y, c in result.items() if c}
