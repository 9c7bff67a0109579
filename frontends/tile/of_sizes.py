"""Constant folding of functions of symbolic sizes: the results are sizes or booleans.

A function that needs the values of the symbols raises UndecidedSizeError.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tessella.frontends.tile.functions import Number
from tessella.support.conditions import UndecidedSizeError, decided
from tessella.support.decisions import decided_max, decided_min, decided_zero, differs
from tessella.support.sizes import Expr, Size, symbols_of

Known = Number | Size
"""A number, or a symbolic size."""


def _divided(a: Size, b: Size) -> Size:
    """Return the quotient of two sizes, rounded towards zero. Raises ValueError for a divisor
    of 0."""
    if not isinstance(b, Expr) and b == 0:
        raise ValueError("division by zero")
    if decided(b < 0):
        return -_divided(a, -b)
    return -(-a // b) if decided(a < 0) else a // b


def _chosen(condition: Size, a: Size, b: Size) -> Size:
    return b if decided_zero(condition) else a


def _added(a: Size, b: Size, c: Size) -> Size:
    return a * b + c


def _same(a: Size) -> Size:
    return a


def _above_zero(a: Size) -> Size:
    return decided_max(a, 0)


def _is_equal(a: Size, b: Size) -> Size:
    return not differs(a, b)


def _compared(relation: Callable[[Any, Any], Any]) -> Callable[[Size, Size], Size]:
    return lambda a, b: decided(relation(a, b))


_MEANINGS: Mapping[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _divided,
    "mad": _added,
    "neg": operator.neg,
    "abs": abs,
    "relu": _above_zero,
    "max": decided_max,
    "min": decided_min,
    "cond": _chosen,
    "cmp_eq": _is_equal,
    "cmp_ne": differs,
    "cmp_lt": _compared(operator.lt),
    "cmp_le": _compared(operator.le),
    "cmp_gt": _compared(operator.gt),
    "cmp_ge": _compared(operator.ge),
    **dict.fromkeys(("ident", "ceil", "floor", "round"), _same),
}


def of_sizes(function: str, numbers: Sequence[Known]) -> Size:
    """Return the result of a function of integers and symbolic sizes. Raises UndecidedSizeError,
    and ValueError if the result is undefined."""
    sizes = [x for x in numbers if isinstance(x, int | Expr)]
    if function not in _MEANINGS or len(sizes) < len(numbers):
        names = (symbol.name for symbol in symbols_of(sizes))
        raise UndecidedSizeError(f"{function!r} needs the numbers", names)
    return _MEANINGS[function](*sizes)
