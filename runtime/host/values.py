"""Numbers that depend on a dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessella.runtime.host.registry import Array

DType = np.dtype[Any]


def least(dtype: DType) -> Any:
    """The least value of a dtype: -inf, False, or an integer type's minimum."""
    if dtype.kind == "f":
        return dtype.type(-np.inf)
    return dtype.type(False if dtype.kind == "b" else np.iinfo(dtype).min)


def greatest(dtype: DType) -> Any:
    """The greatest value of a dtype: inf, True, or an integer type's maximum."""
    if dtype.kind == "f":
        return dtype.type(np.inf)
    return dtype.type(True if dtype.kind == "b" else np.iinfo(dtype).max)


@np.errstate(over="ignore")
def saturate(value: float, dtype: DType) -> Any:
    """The number as a value of a dtype; into an integer's range, rounded towards zero.

    A float beyond the range of another float's is infinite.
    """
    if dtype.kind in "fb":
        return dtype.type(value)
    limits = np.iinfo(dtype)
    return dtype.type(int(max(limits.min, min(value, limits.max))))


def wide(x: Array) -> DType:
    """The dtype to accumulate in: float64 for floats, the array's own for integers."""
    return np.dtype(np.float64) if x.dtype.kind == "f" else x.dtype
