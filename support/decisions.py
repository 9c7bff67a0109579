"""Decisions on sizes, and conversions of sizes to numbers.

The functions differ in what they do if the answer depends on the values of symbols. Functions with
``decided`` in their names, ``differs`` and ``known`` raise ``UndecidedSizeError``; ``is_multiple``,
``are_ordered`` and ``at_most`` return True only if the answer is true for all values.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import reduce
from typing import TypeGuard

from tessella.support.conditions import UndecidedSizeError, always, decided
from tessella.support.sizes import Expr, Size, bounds_of, expression, symbols_of


def differs(a: Size, b: Size) -> bool:
    """Return whether two sizes differ. Raises UndecidedSizeError if that depends on symbols'
    values."""
    if a == b:
        return False
    apart = expression(a - b)
    if apart is not None and apart.bounds[0] <= 0 <= apart.bounds[1]:
        names = (symbol.name for symbol in symbols_of([a, b]))
        what = f"{a} and {b} are equal for some sizes only"
        raise UndecidedSizeError(what, names, apart=apart)
    return True


def decided_zero(size: Size) -> bool:
    """Return whether a size is 0. Raises UndecidedSizeError if that depends on symbols' values."""
    return size.decided_zero() if isinstance(size, Expr) else size == 0


def decided_max(*sizes: Size) -> Size:
    """Return the largest size. Raises UndecidedSizeError if symbols' values decide which one that
    is."""
    return reduce(lambda a, b: b if always(a <= b) or decided(a < b) else a, sizes)


def decided_min(*sizes: Size) -> Size:
    """Return the smallest size. Raises UndecidedSizeError if symbols' values decide which one that
    is."""
    return reduce(lambda a, b: b if always(b <= a) or decided(b < a) else a, sizes)


def are_ordered(a: Size, b: Size) -> bool:
    """Return whether the order of two sizes is the same for all values of their symbols."""
    low, high = bounds_of(a - b)
    return low >= 0 or high <= 0


def is_multiple(size: Size, of: Size) -> bool:
    """Return whether a size is known to be a multiple of another one. No size is a multiple of
    0."""
    if isinstance(of, int) and of == 0:
        return False
    try:
        return size % of == 0
    except UndecidedSizeError:
        return False


def known(size: Size) -> int:
    """Return the size as a number. Raises UndecidedSizeError if it depends on symbols."""
    return operator.index(size)


def known_all(sizes: Iterable[Size]) -> tuple[int, ...]:
    """Return the sizes as numbers. Raises UndecidedSizeError if one depends on symbols."""
    return tuple(map(known, sizes))


def at_most(size: Size, most: int) -> TypeGuard[int]:
    """Return whether a size is a number of at most ``most``; False for sizes that depend on
    symbols."""
    return not isinstance(size, Expr) and size <= most
