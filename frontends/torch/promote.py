"""Type promotion as in PyTorch: the operands of an op get one element type.

Within the highest category (booleans, integers, floats), tensors with dimensions decide; if they
are of a lower category, tensors without dimensions do, and then numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.frontends.emitter import Emitter, Value
from tessella.runtime.elements import DTYPES, element_of
from tessella.support.sizes import Expr, Size

DType = np.dtype[Any]
Operand = Value | Size | float
"""An operand of an elementwise op: a tensor, or a number, which may be a symbolic size."""

DEFAULT = np.dtype(np.float32)
"""The type of floats that come from numbers or integers."""


def _is_float(dtype: DType) -> bool:
    element = element_of(dtype)
    return element is not None and element.is_float


def _category(dtype: DType) -> int:
    """Return 0 for booleans, 1 for integers and 2 for floats."""
    return 2 if _is_float(dtype) else int(dtype != np.bool_)


def _of_number(number: Size | float) -> DType:
    if isinstance(number, bool):
        return np.dtype(np.bool_)
    return np.dtype(np.int64) if isinstance(number, int | Expr) else DEFAULT


def _common(a: DType, b: DType) -> DType:
    """Return the common type of two dtypes of one priority."""
    if a == b:
        return a
    if _category(a) != _category(b):
        return max(a, b, key=_category)
    if a.itemsize == b.itemsize == 2 and _is_float(a):
        return np.dtype(np.float32)  # f16 and bf16
    if DTYPES["bf16"] in (a, b):
        return a if b == DTYPES["bf16"] else b
    return np.promote_types(a, b)


def result_dtype(operands: Sequence[Operand]) -> DType:
    """Return the element type in which an op computes."""
    values = [x for x in operands if isinstance(x, Value)]
    levels: list[list[DType]] = [
        [x.dtype for x in values if x.rank],
        [x.dtype for x in values if not x.rank],
        [_of_number(x) for x in operands if not isinstance(x, Value)],
    ]
    found = [reduce(_common, level) for level in levels if level]
    # the first of the highest category
    return max(found, key=_category)


def lifted(emit: Emitter, operand: Operand, dtype: npt.DTypeLike) -> Value:
    """Return an operand as a value with elements of a type."""
    if isinstance(operand, Value):
        return operand.cast(dtype)
    wide = np.dtype(dtype)
    if isinstance(operand, float) and not _is_float(wide):
        operand = int(operand)
    return emit.scalar(operand, wide)


def promoted(emit: Emitter, *operands: Operand) -> list[Value]:
    """Return the operands with elements of their common type."""
    dtype = result_dtype(operands)
    return [lifted(emit, each, dtype) for each in operands]


def floating(emit: Emitter, *operands: Operand) -> list[Value]:
    """Return the operands with elements of their common type, which is a float."""
    dtype = result_dtype(operands)
    dtype = dtype if _is_float(dtype) else DEFAULT
    return [lifted(emit, each, dtype) for each in operands]
