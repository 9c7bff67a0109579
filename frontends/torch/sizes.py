"""PyTorch's symbolic sizes as ours: integers, SymInts, and SymPy's expressions in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tessella.frontends.torch.registry import refuse
from tessella.support.decisions import decided_max, decided_min
from tessella.support.sizes import MOST, Size, Symbol, ceil_div, product, total

Dimension = Any
"""A size in PyTorch: an integer or a SymInt, which has a SymPy expression."""
Bounds = tuple[int, int]


def _sum(*sizes: Size) -> Size:
    return total(sizes)


def _product(*sizes: Size) -> Size:
    return product(sizes)


def _quotient(a: Size, b: Size) -> Size:
    return a // b


def _rest(a: Size, b: Size) -> Size:
    return a % b


def _digit(a: Size, b: Size, c: Size) -> Size:
    return a // b % c


def _power(a: Size, b: int) -> Size:
    return product([a] * b)


_FUNCTIONS: Mapping[str, Callable[..., Size]] = {
    "Add": _sum,
    "Mul": _product,
    "FloorDiv": _quotient,
    "CleanDiv": _quotient,
    "CeilDiv": ceil_div,
    "Mod": _rest,
    "PythonMod": _rest,
    "ModularIndexing": _digit,
    "Max": decided_max,
    "Min": decided_min,
    "Pow": _power,
    "PowByNatural": _power,
}
"""The functions of sizes, by the names of SymPy's and PyTorch's classes."""


def kind_of(value: Any) -> type | None:
    """Return the type of a symbolic number in Python: int, float or bool; None for anything
    else."""
    node = getattr(value, "node", None)
    return getattr(node, "pytype", None)


def expression_of(size: Dimension) -> Any:
    """Return the SymPy expression of a SymInt; an integer as it is."""
    return size if isinstance(size, int) else size.node.expr


def text_of(size: Dimension) -> int | str:
    """Return a size as a signature describes it: a number, or an expression of symbols as text."""
    found = expression_of(size)
    if isinstance(found, int) or found.is_number:
        return int(found)
    return str(found)


def bounds_of(symbol: Any, ranges: Mapping[Any, Any]) -> Bounds:
    """Return the least and the greatest value of one of SymPy's symbols."""
    found = ranges.get(symbol)
    if found is None:
        return 0, MOST
    low, high = (max(0, min(_number(end), MOST)) for end in (found.lower, found.upper))
    return low, high


def _number(bound: Any) -> int:
    """Return a bound as an integer. PyTorch's infinity is no number of Python."""
    try:
        return int(bound)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return MOST if bound > 0 else 0


def ranges_of(size: Dimension) -> Mapping[Any, Any]:
    """Return the ranges of all symbols that PyTorch knows with a SymInt."""
    return {} if isinstance(size, int) else size.node.shape_env.var_to_range


def symbols_of(size: Dimension) -> frozenset[Any]:
    """Return the symbols in a size."""
    found = expression_of(size)
    return frozenset() if isinstance(found, int) else frozenset(found.free_symbols)


def size_of(size: Dimension) -> Size:
    """Return a size as ours, with symbols of PyTorch's ranges. Raises ShapeError for a size that
    only the data determine."""
    ranges = ranges_of(size)

    def symbol(found: Any) -> Size:
        if str(found).startswith("u"):
            raise refuse("a size that data determine", found)
        return Symbol(str(found), *bounds_of(found, ranges)).size

    return evaluated(expression_of(size), symbol)


def evaluated(found: Any, symbol: Callable[[Any], Size]) -> Size:
    """Evaluate a SymPy expression, given the sizes of its symbols."""
    if isinstance(found, int) or found.is_number:
        return int(found)
    if found.is_Symbol:
        return symbol(found)
    function = _FUNCTIONS.get(found.func.__name__)
    if function is None:
        raise refuse("a function of sizes", found)
    return function(*(evaluated(each, symbol) for each in found.args))
