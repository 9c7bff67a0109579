"""Evaluation of ops on arrays of sizes: the arithmetic by which models compute shapes.

These arrays have the dtype `object`: their elements are numbers and symbolic expressions. A result
without expressions is an array of numbers again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tessella.dialects.elements import dtype_of
from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn.constants import ConstantOp
from tessella.dialects.nn.core import Array, NnOp
from tessella.dialects.nn.symbolic import SizesOp
from tessella.dialects.nn.traits import ComputesSizes, MovesElements, ReducesSizes
from tessella.dialects.sizes import is_static
from tessella.runtime import host
from tessella.support.conditions import UndecidedSizeError
from tessella.support.decisions import differs
from tessella.support.sizes import Size, symbols_of


def sizes_array(op: SizesOp) -> Array:
    """The values of sizes."""
    return _numbers(np.array(op.settings["values"], object), np.dtype(np.int64))


def holds_sizes(array: Array) -> bool:
    """Return whether an array has expressions among its elements."""
    return array.dtype == object


def passes_sizes(op: NnOp) -> bool:
    """Return whether an op maps sizes to sizes, each result to few of them."""
    if isinstance(op, ConstantOp | SizesOp | ew.CastOp) or op.has_trait(MovesElements):
        return True
    return op.has_trait(ComputesSizes)


def evaluate_sizes(op: NnOp, arrays: Sequence[Array]) -> list[Array]:
    """Return the results of an op on arrays, some of which hold sizes.

    Raises UndecidedSizeError if the op needs numbers, or if an unsigned result may be negative.
    """
    dtype = dtype_of(op.results[0].type)
    if op.has_trait(MovesElements):
        result = host.KERNELS[op.name](*arrays, **op.settings)
    elif isinstance(op, ew.CastOp):
        result = _cast(arrays[0], dtype)
    elif (computes := op.get_trait(ComputesSizes)) is not None and dtype.kind in "iub":
        function = np.frompyfunc(computes.function, len(arrays), 1)
        result = function(*(x.astype(object) for x in arrays))
    elif (reduces := op.get_trait(ReducesSizes)) is not None:
        axes, keepdims = op.settings["axes"], op.settings["keepdims"]
        result = reduces.function.reduce(arrays[0], axis=axes, keepdims=keepdims, dtype=object)
    else:
        names = (symbol.name for x in arrays for symbol in symbols_of(x.reshape(-1)))
        raise UndecidedSizeError(f"{op.name} needs numbers, and has sizes", names)
    found = np.asarray(result, object)
    if dtype.kind == "u":
        _check_signs(found)
    return [_numbers(found, dtype)]


def _check_signs(array: Array) -> None:
    """Raise UndecidedSizeError for negative sizes, which would be large if unsigned."""
    for size in array.reshape(-1):
        if size < 0:
            names = (symbol.name for symbol in symbols_of([size]))
            raise UndecidedSizeError(f"{size} is below 0, and unsigned", names)


def _numbers(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return the array with a numeric dtype, if it holds no expressions."""
    return array.astype(dtype) if is_static(array.reshape(-1)) else array


def _cast(array: Array, dtype: np.dtype[Any]) -> Array:
    if dtype.kind == "b":
        return np.asarray(np.frompyfunc(_is_true, 1, 1)(array))
    if dtype.kind in "iu" and dtype.itemsize >= 4:
        return array
    # raises for the first expression
    return array.astype(dtype)


def _is_true(a: Size) -> bool:
    return differs(a, 0)
