"""Functions of numbers that are known before the program runs where some are sizes that depend on
symbols: sizes, or decisions. UndecidedSizeError is raised where only the numbers tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tessella.frontends.tile.functions import Number
from tessella.support.conditions import UndecidedSizeError, decided
from tessella.support.decisions import decided_max, decided_min, decided_zero, differs
from tessella.support.sizes import Expr, Size, symbols_of

Known = Number | Size
"""A number, or a size that depends on symbols."""


def _divided(a: Size, b: Size) -> Size:
    """A quotient, rounded toward zero."""
    if not isinstance(b, Expr) and b == 0:
        raise ValueError("division by zero")
    if decided(b < 0):
        return -_divided(a, -b)
    return -(-a // b) if decided(a < 0) else a // b


def _chosen(condition: Size, a: Size, b: Size) -> Size:
    return b if decided_zero(condition) else a


_MEANINGS: Mapping[str, Callable[..., Size]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _divided,
    "mad": lambda a, b, c: a * b + c,
    "neg": lambda a: -a,
    "ident": lambda a: a,
    "abs": abs,
    "relu": lambda a: decided_max(a, 0),
    "max": decided_max,
    "min": decided_min,
    "ceil": lambda a: a,
    "floor": lambda a: a,
    "round": lambda a: a,
    "cond": _chosen,
    "cmp_eq": lambda a, b: not differs(a, b),
    "cmp_ne": differs,
    "cmp_lt": lambda a, b: decided(a < b),
    "cmp_le": lambda a, b: decided(a <= b),
    "cmp_gt": lambda a, b: decided(a > b),
    "cmp_ge": lambda a, b: decided(a >= b),
}


def of_sizes(function: str, numbers: Sequence[Known]) -> Size:
    """The result of a function of integers. Raises UndecidedSizeError, and ValueError where there
    is none."""
    sizes = [x for x in numbers if isinstance(x, int | Expr)]
    if function not in _MEANINGS or len(sizes) < len(numbers):
        names = (symbol.name for symbol in symbols_of(sizes))
        raise UndecidedSizeError(f"{function!r} needs the numbers", names)
    return _MEANINGS[function](*sizes)
