"""Numbers at which ops are defined in more than one way."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

from tests.frontends.onnx.semantics.case import Array

ELEMENTS = {
    np.dtype(kind).name: np.dtype(kind)
    for kind in (
        *(np.float32, np.float64, np.float16, ml_dtypes.bfloat16),
        *(np.int8, np.int16, np.int32, np.int64),
        *(np.uint8, np.uint16, np.uint32, np.uint64),
        np.bool_,
    )
}
"""The elements that native code computes."""


def edges(dtype: np.dtype[Any]) -> Array:
    """Return the edge values of an element type: the ends of its range, zeros of both signs,
    denormals, halves, shift counts around its width."""
    if dtype == np.bool_:
        return np.array([False, True])
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        width = dtype.itemsize * 8
        numbers = [ends.min, ends.min + 1, 0, 1, 2, 3, 7, width - 1, width, 100]
        numbers += [ends.max - 1, ends.max] + ([-1, -2, -7, -width] if ends.min else [])
        return np.array(numbers, dtype)
    info = ml_dtypes.finfo(dtype)
    tiny = [float(info.smallest_subnormal), float(info.tiny)]
    large = [float(info.max), float("inf"), 20.0, 100.0]
    halves = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 7.0]
    positive = [*tiny, *halves, *large]
    return np.array([np.nan, *positive, *(-x for x in positive)], dtype)


def type_name(dtype: np.dtype[Any]) -> str:
    """Return the type of a tensor of an element, as the schemas of ONNX have it."""
    name = TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(dtype)).lower()
    return f"tensor({name})"
