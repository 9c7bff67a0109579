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
    """Return the values of an `nn.sizes` as an array: of i64 if all are numbers, otherwise of
    objects."""
    return _numbers(np.array(op.settings["values"], object), np.dtype(np.int64))


def holds_sizes(array: Array) -> bool:
    """Return whether an array contains symbolic expressions."""
    return array.dtype == object


def passes_sizes(op: NnOp) -> bool:
    """Return whether an op is a constant, moves sizes, or computes with sizes elementwise, so that
    each element of a result depends on few sizes."""
    if isinstance(op, ConstantOp | SizesOp | ew.CastOp) or op.has_trait(MovesElements):
        return True
    return op.has_trait(ComputesSizes)


def evaluate_sizes(op: NnOp, arrays: Sequence[Array]) -> list[Array]:
    """Return the results of an op on arrays. At least one array has the dtype `object`, with sizes
    as elements.

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
    """Raise UndecidedSizeError if an array of sizes contains one that may be negative, as it would
    wrap in an unsigned type."""
    for size in array.reshape(-1):
        if size < 0:
            names = (symbol.name for symbol in symbols_of([size]))
            raise UndecidedSizeError(f"{size} is below 0, and unsigned", names)


def _numbers(array: Array, dtype: np.dtype[Any]) -> Array:
    """Convert an array of sizes to ``dtype`` if it contains no expressions; otherwise return it
    unchanged."""
    return array.astype(dtype) if is_static(array.reshape(-1)) else array


def _cast(array: Array, dtype: np.dtype[Any]) -> Array:
    if dtype.kind == "b":
        return np.asarray(np.frompyfunc(_is_true, 1, 1)(array))
    if dtype.kind in "iu" and dtype.itemsize >= 4:
        return array
    # raises an error for the first expression
    return array.astype(dtype)


def _is_true(a: Size) -> bool:
    return differs(a, 0)
