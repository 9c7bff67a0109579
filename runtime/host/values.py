"""Numbers that depend on a dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessella.runtime.elements import DTYPES, computing, converted, element_of, widened
from tessella.runtime.host.registry import Array
from tessella.support.elements import Element

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

    A float beyond the range of another float's is infinite. The number has the dtype that NumPy
    computes in.
    """
    if dtype.kind in "fb":
        return dtype.type(value)
    element = element_of(dtype)
    if element is not None and element.is_tagged:
        return _saturate_tagged(value, element)
    limits = np.iinfo(dtype)
    return dtype.type(int(max(limits.min, min(value, limits.max))))


def _saturate_tagged(value: float, element: Element) -> Any:
    if element.is_float:
        return widened(converted(np.asarray(value, np.float64), DTYPES[element.name]))[()]
    low, high = limits_of(element)
    return computing(element).type(int(max(low, min(value, high))))


def limits_of(element: Element) -> tuple[int, int]:
    """The least and the greatest integer of an element."""
    if element.kind == "signed":
        return -(1 << (element.bits - 1)), (1 << (element.bits - 1)) - 1
    return 0, (1 << element.bits) - 1


def wide(x: Array) -> DType:
    """The dtype to accumulate in: float64 for floats, the array's own for integers."""
    return np.dtype(np.float64) if x.dtype.kind == "f" else x.dtype
