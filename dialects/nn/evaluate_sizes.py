"""Evaluation of ops on arrays of sizes: the arithmetic by which models compute shapes.

Such an array has the dtype `object`: its elements are numbers, and expressions of symbols. What
has no expression left is an array of numbers again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tessella.dialects.elements import dtype_of
from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn import reduction
from tessella.dialects.nn.constants import ConstantOp
from tessella.dialects.nn.core import Array, NnOp
from tessella.dialects.nn.symbolic import SizesOp
from tessella.dialects.nn.traits import MovesElements
from tessella.dialects.sizes import is_static
from tessella.runtime import host
from tessella.support.conditions import Condition, UndecidedSizeError, decided
from tessella.support.decisions import decided_max, decided_min, differs
from tessella.support.sizes import Size, symbols_of


def sizes_array(op: SizesOp) -> Array:
    """The values of sizes."""
    return _numbers(np.array(op.settings["values"], object), np.dtype(np.int64))


def holds_sizes(array: Array) -> bool:
    """Whether an array has expressions among its elements."""
    return array.dtype == object


def passes_sizes(op: NnOp) -> bool:
    """Whether an op gives sizes where its operands are sizes, each result of few of them."""
    if isinstance(op, ConstantOp | SizesOp | ew.CastOp) or op.has_trait(MovesElements):
        return True
    return type(op) in _ELEMENTWISE


def evaluate_sizes(op: NnOp, arrays: Sequence[Array]) -> list[Array]:
    """The results of an op on arrays of which some hold sizes. Raises UndecidedSizeError where
    they are no sizes."""
    dtype = dtype_of(op.results[0].type)
    if op.has_trait(MovesElements):
        result = host.KERNELS[op.name](*arrays, **op.settings)
    elif isinstance(op, ew.CastOp):
        result = _cast(arrays[0], dtype)
    elif (function := _ELEMENTWISE.get(type(op))) is not None and dtype.kind in "iub":
        result = np.frompyfunc(function, len(arrays), 1)(*(x.astype(object) for x in arrays))
    elif (ufunc := _REDUCTIONS.get(type(op))) is not None:
        axes, keepdims = op.settings["axes"], op.settings["keepdims"]
        result = ufunc.reduce(arrays[0], axis=axes, keepdims=keepdims, dtype=object)
    else:
        names = (symbol.name for x in arrays for symbol in symbols_of(x.reshape(-1)))
        raise UndecidedSizeError(f"{op.name} needs numbers, and has sizes", names)
    found = np.asarray(result, object)
    if dtype.kind == "u":
        _check_signs(found)
    return [_numbers(found, dtype)]


def _check_signs(array: Array) -> None:
    """Raises UndecidedSizeError for sizes below 0: unsigned ones would be large instead."""
    for size in array.reshape(-1):
        if size < 0:
            names = (symbol.name for symbol in symbols_of([size]))
            raise UndecidedSizeError(f"{size} is below 0, and unsigned", names)


def _numbers(array: Array, dtype: np.dtype[Any]) -> Array:
    """The array with a dtype of numbers, if it holds no expressions."""
    return array.astype(dtype) if is_static(array.reshape(-1)) else array


def _cast(array: Array, dtype: np.dtype[Any]) -> Array:
    if dtype.kind == "b":
        return np.asarray(np.frompyfunc(_is_true, 1, 1)(array))
    if dtype.kind in "iu" and dtype.itemsize >= 4:
        return array
    # raises for the first expression
    return array.astype(dtype)


def _truncated(a: Size, b: Size) -> Size:
    """The quotient, rounded towards zero; 0 where the divisor is 0, as in every program."""
    if _is_zero(b):
        return 0
    if is_static((a, b)) or (decided(a >= 0) and decided(b > 0)):
        return -(-a // b) if decided(a < 0) != decided(b < 0) else a // b
    raise _unsigned(a, b)


def _remainder(a: Size, b: Size) -> Size:
    if _is_zero(b):
        return 0
    if decided(b > 0):
        return a % b
    raise _unsigned(a, b)


def _remainder_of_positive(a: Size, b: Size) -> Size:
    if _is_zero(b):
        return 0
    if decided(a >= 0) and decided(b > 0):
        return a % b
    raise _unsigned(a, b)


def _is_zero(a: Size) -> bool:
    return is_static([a]) and a == 0


def _unsigned(a: Size, b: Size) -> UndecidedSizeError:
    names = (symbol.name for symbol in symbols_of((a, b)))
    return UndecidedSizeError(f"{a} is divided by {b}, and both have to be positive", names)


def _is_true(a: Size) -> bool:
    return differs(a, 0)


def _deciding(compare: Callable[[Any, Any], bool | Condition]) -> Callable[[Size, Size], bool]:
    """A comparison of sizes that raises UndecidedSizeError where it holds for some values only."""
    return lambda a, b: decided(compare(a, b))


def _equal(a: Size, b: Size) -> bool:
    return not differs(a, b)


def _where(condition: bool, a: Size, b: Size) -> Size:
    return a if condition else b


_ELEMENTWISE: Mapping[type[NnOp], Callable[..., Any]] = {
    ew.AddOp: operator.add,
    ew.SubOp: operator.sub,
    ew.MulOp: operator.mul,
    ew.DivOp: _truncated,
    ew.ModOp: _remainder,
    ew.FmodOp: _remainder_of_positive,
    ew.NegOp: operator.neg,
    ew.MinOp: decided_min,
    ew.MaxOp: decided_max,
    ew.EqualOp: _equal,
    ew.LessOp: _deciding(operator.lt),
    ew.LessEqualOp: _deciding(operator.le),
    ew.GreaterOp: _deciding(operator.gt),
    ew.GreaterEqualOp: _deciding(operator.ge),
    ew.WhereOp: _where,
}

_REDUCTIONS: Mapping[type[NnOp], np.ufunc] = {
    reduction.ReduceSumOp: np.add,
    reduction.ReduceProdOp: np.multiply,
    reduction.ReduceMaxOp: np.maximum,
    reduction.ReduceMinOp: np.minimum,
}
