"""Type promotion as in PyTorch: the operands of an op get one element type.

Within the highest category (booleans, integers, floats, complex numbers), tensors with dimensions
decide; if they are of a lower category, tensors without dimensions do, and then numbers. Complex
numbers have the precision of floats with dimensions.
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
Operand = Value | Size | complex
"""An operand of an elementwise op: a tensor, or a number, which may be a symbolic size."""

DEFAULT = np.dtype(np.float32)
"""The type of floats that come from numbers or integers."""


def _is_float(dtype: DType) -> bool:
    element = element_of(dtype)
    return element is not None and element.is_float


def is_whole(x: Value) -> bool:
    """Return whether the elements are integers or booleans."""
    return x.dtype.kind in "biu"


def _category(dtype: DType) -> int:
    """Return 0 for booleans, 1 for integers, 2 for floats and 3 for complex numbers."""
    if dtype.kind == "c":
        return 3
    return 2 if _is_float(dtype) else int(dtype != np.bool_)


def _of_number(number: Size | complex) -> DType:
    """Return the element type of a number."""
    if isinstance(number, bool):
        return np.dtype(np.bool_)
    if isinstance(number, complex):
        return complex_of(DEFAULT)
    return np.dtype(np.int64) if isinstance(number, int | Expr) else DEFAULT


def complex_of(dtype: DType) -> DType:
    """Return the complex type for parts of a float type."""
    return np.dtype(np.complex128 if dtype.itemsize == 8 else np.complex64)


def _common(a: DType, b: DType) -> DType:
    """Return the common type of two dtypes of one priority."""
    if a == b:
        return a
    if _category(a) != _category(b):
        low, high = sorted((a, b), key=_category)
        return np.promote_types(low, high) if _category(low) == 2 else high
    if a.itemsize == b.itemsize == 2 and _is_float(a):
        return np.dtype(np.float32)  # f16 and bf16
    if DTYPES["bf16"] in (a, b):
        return a if b == DTYPES["bf16"] else b
    return np.promote_types(a, b)


def result_dtype(operands: Sequence[Operand]) -> DType:
    """Return the element type in which an op computes."""
    values = [x for x in operands if isinstance(x, Value)]
    levels: list[list[DType]] = [
        [_of_number(x) for x in operands if not isinstance(x, Value)],
        [x.dtype for x in values if not x.rank],
        [x.dtype for x in values if x.rank],
    ]
    return reduce(_over, [reduce(_common, level) for level in levels if level])


def _over(lower: DType, higher: DType) -> DType:
    """Return the type of operands of which those of type ``higher`` have priority."""
    if _category(higher) >= _category(lower):
        return higher
    # complex numbers take the precision of floats
    return complex_of(higher) if _category(higher) == 2 else lower


def lifted(emit: Emitter, operand: Operand, dtype: npt.DTypeLike) -> Value:
    """Return an operand as a value with elements of a type."""
    if isinstance(operand, Value):
        return operand.cast(dtype)
    wide = np.dtype(dtype)
    if isinstance(operand, complex):
        return emit.splat(operand, (), wide)
    if isinstance(operand, float) and _category(wide) < 2:
        operand = int(operand)
    return emit.scalar(operand, wide)


def promoted(emit: Emitter, *operands: Operand) -> list[Value]:
    """Return the operands with elements of their common type."""
    dtype = result_dtype(operands)
    return [lifted(emit, each, dtype) for each in operands]


def floating(emit: Emitter, *operands: Operand) -> list[Value]:
    """Return the operands with elements of their common type, which is a float or complex."""
    dtype = result_dtype(operands)
    dtype = dtype if _category(dtype) >= 2 else DEFAULT
    return [lifted(emit, each, dtype) for each in operands]
