"""Decisions on sizes, and the numbers that sizes are.

The name of a function says what happens where values of symbols would change its answer: those with
``decided`` in their names, ``differs`` and ``known`` raise ``UndecidedSizeError``; ``is_multiple``,
``are_ordered`` and ``at_most`` answer what holds for all values.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import reduce
from typing import TypeGuard

from tessella.support.conditions import UndecidedSizeError, decided
from tessella.support.sizes import Expr, Size, bounds_of, expression, symbols_of


def differs(a: Size, b: Size) -> bool:
    """Whether two sizes differ. Raises UndecidedSizeError where they do for some values only."""
    if a == b:
        return False
    apart = expression(a - b)
    if apart is not None and apart.bounds[0] <= 0 <= apart.bounds[1]:
        names = (symbol.name for symbol in symbols_of([a, b]))
        raise UndecidedSizeError(f"{a} and {b} are equal for some sizes only", names)
    return True


def decided_zero(size: Size) -> bool:
    """Whether a size is 0. Raises UndecidedSizeError where it is for some values only."""
    return size.decided_zero() if isinstance(size, Expr) else size == 0


def decided_max(*sizes: Size) -> Size:
    """The largest size. Raises UndecidedSizeError where that is another one for some values."""
    return reduce(lambda a, b: b if decided(a < b) else a, sizes)


def decided_min(*sizes: Size) -> Size:
    """The smallest size. Raises UndecidedSizeError where that is another one for some values."""
    return reduce(lambda a, b: b if decided(b < a) else a, sizes)


def are_ordered(a: Size, b: Size) -> bool:
    """Whether one of two sizes is known to be no less than the other one."""
    low, high = bounds_of(a - b)
    return low >= 0 or high <= 0


def is_multiple(size: Size, of: Size) -> bool:
    """Whether a size is known to be a multiple of another one. None is a multiple of 0."""
    if isinstance(of, int) and of == 0:
        return False
    try:
        return size % of == 0
    except UndecidedSizeError:
        return False


def known(size: Size) -> int:
    """The number that a size is. Raises UndecidedSizeError for one that depends on symbols."""
    return operator.index(size)


def known_all(sizes: Iterable[Size]) -> tuple[int, ...]:
    """The numbers that sizes are. Raises UndecidedSizeError if one depends on symbols."""
    return tuple(map(known, sizes))


def at_most(size: Size, most: int) -> TypeGuard[int]:
    """Whether a size is no larger than this; not for one that depends on symbols."""
    return not isinstance(size, Expr) and size <= most
