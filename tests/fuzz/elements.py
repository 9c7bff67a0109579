"""Arrays of ONNX's element types, and the same numbers in types that are wider.

Floats are computed in float64 whatever their type is; integers and booleans as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper

Array = npt.NDArray[Any]

FLOATS: dict[int, float] = {
    TensorProto.DOUBLE: 2.0**-52,
    TensorProto.FLOAT: 2.0**-23,
    TensorProto.FLOAT16: 2.0**-10,
    TensorProto.BFLOAT16: 2.0**-7,
}
"""The floating-point types, and the distance from 1 to the next number."""

TINY: dict[int, float] = {
    TensorProto.DOUBLE: 2.0**-1022,
    TensorProto.FLOAT: 2.0**-126,
    TensorProto.FLOAT16: 2.0**-24,
    TensorProto.BFLOAT16: 2.0**-126,
}
"""Numbers below may have become 0."""

LIMITS: dict[int, float] = {
    TensorProto.DOUBLE: 1e6,
    TensorProto.FLOAT: 1e5,
    TensorProto.FLOAT16: 1e3,
    TensorProto.BFLOAT16: 1e4,
}
"""Numbers as large as this are left out, except where odd numbers are asked for."""

INTEGERS: tuple[int, ...] = (
    *(TensorProto.INT64, TensorProto.INT32, TensorProto.INT16, TensorProto.INT8),
    *(TensorProto.UINT64, TensorProto.UINT32, TensorProto.UINT16, TensorProto.UINT8),
)
CODES: tuple[int, ...] = (*FLOATS, *INTEGERS, TensorProto.BOOL)
"""The element types that models may have."""


def dtype_of(code: int) -> np.dtype[Any]:
    """The dtype of arrays: of ``ml_dtypes`` for bfloat16."""
    return np.dtype(helper.tensor_dtype_to_np_dtype(code))


def typed(array: Array, code: int) -> Array:
    """The array in an element type."""
    with np.errstate(all="ignore"):
        return np.asarray(array).astype(dtype_of(code))


def wide(array: Array) -> Array:
    """The array in the type that it is computed in."""
    return array if array.dtype.kind in "iub" else np.asarray(array, np.float64)


def rounded(array: Array, code: int) -> Array:
    """The array after it was stored in an element type."""
    return wide(typed(array, code))
