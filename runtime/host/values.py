"""Numbers that depend on a dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessella.runtime.elements import DTYPES, computing, converted, element_of, widened
from tessella.runtime.host.registry import Array
from tessella.runtime.texts import STRING
from tessella.support.elements import Element

DType = np.dtype[Any]

_WIDE = {"f": np.dtype(np.float64), "c": np.dtype(np.complex128)}


def least(dtype: DType) -> Any:
    """Return the least value of a dtype: -inf, False, or an integer type's minimum."""
    if dtype.kind == "f":
        return dtype.type(-np.inf)
    return dtype.type(False if dtype.kind == "b" else np.iinfo(dtype).min)


def greatest(dtype: DType) -> Any:
    """Return the greatest value of a dtype: inf, True, or an integer type's maximum."""
    if dtype.kind == "f":
        return dtype.type(np.inf)
    return dtype.type(True if dtype.kind == "b" else np.iinfo(dtype).max)


@np.errstate(over="ignore")
def saturate(value: float, dtype: DType) -> Any:
    """Convert a number to a dtype that NumPy computes with.

    Integers saturate and round towards zero. A float beyond another float's range becomes infinite.
    For the dtype of strings, the result is an empty string, whatever the number.
    """
    if dtype == STRING:
        return ""
    if dtype.kind in "fbc":
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
    """Return the least and the greatest integer of an element type."""
    if element.kind == "signed":
        return -(1 << (element.bits - 1)), (1 << (element.bits - 1)) - 1
    return 0, (1 << element.bits) - 1


def wide(x: Array) -> DType:
    """Return the dtype for accumulation: float64 for floats, complex128 for complex numbers, the
    array's own for integers."""
    return _WIDE.get(x.dtype.kind, x.dtype)
