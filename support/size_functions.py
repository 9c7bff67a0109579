"""Integer functions that accept sizes: numbers and expressions of symbols."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tessella.support.conditions import Condition, UndecidedSizeError, decided
from tessella.support.decisions import differs
from tessella.support.sizes import Size, symbols_of


def truncated(a: Size, b: Size) -> Size:
    """Return the quotient, rounded towards zero; 0 if the divisor is 0, as in compiled programs."""
    if _is_zero(b):
        return 0
    if not symbols_of((a, b)) or (decided(a >= 0) and decided(b > 0)):
        return -(-a // b) if decided(a < 0) != decided(b < 0) else a // b
    raise _unsigned(a, b)


def remainder(a: Size, b: Size) -> Size:
    """Return the remainder with the sign of the divisor; 0 if the divisor is 0."""
    if _is_zero(b):
        return 0
    if decided(b > 0):
        return a % b
    raise _unsigned(a, b)


def remainder_of_positive(a: Size, b: Size) -> Size:
    """Return the remainder with the sign of the dividend, which must not be negative."""
    if _is_zero(b):
        return 0
    if decided(a >= 0) and decided(b > 0):
        return a % b
    raise _unsigned(a, b)


def equal(a: Size, b: Size) -> bool:
    """Return whether two sizes are equal. Raises UndecidedSizeError if symbols' values decide."""
    return not differs(a, b)


def deciding(compare: Callable[[Any, Any], bool | Condition]) -> Callable[[Size, Size], bool]:
    """Return a comparison of sizes that raises UndecidedSizeError if the result of ``compare``
    depends on the values of symbols."""
    return lambda a, b: decided(compare(a, b))


def where(condition: bool, a: Size, b: Size) -> Size:
    """Return ``a`` if the condition is true, otherwise ``b``."""
    return a if condition else b


def _is_zero(a: Size) -> bool:
    return not symbols_of([a]) and a == 0


def _unsigned(a: Size, b: Size) -> UndecidedSizeError:
    names = (symbol.name for symbol in symbols_of((a, b)))
    return UndecidedSizeError(f"{a} is divided by {b}, and both have to be positive", names)
