"""Casts, quantization and bounds, of numbers that the result's type lacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from onnx import TensorProto as T
from onnx import helper

from tests.frontends.onnx.semantics.case import Array, Case, runtime
from tests.frontends.onnx.semantics.edges import ELEMENTS, edges

BYTES = (T.FLOAT8E4M3FN, T.FLOAT8E4M3FNUZ, T.FLOAT8E5M2, T.FLOAT8E5M2FNUZ)
NIBBLES = (T.FLOAT4E2M1, T.INT4, T.UINT4, T.INT2, T.UINT2)
_AROUND = np.array(
    [3e9, -3e9, 1e19, -1e19, 2.0**31, 2.0**32, 2.0**63, 2.0**64, 300, -300, 70000, 127.5, -128.5,
     255.5, 448, 464, 465, 57344, 61440, 61441, 0.1, 1e-3, 6.1, 7.9]
)  # fmt: skip
"""Numbers around the ends of ranges."""


def dtype_of(code: int) -> np.dtype[Any]:
    """Return the dtype of an element type of ONNX."""
    return np.dtype(helper.tensor_dtype_to_np_dtype(code))


def _numbers(dtype: np.dtype[Any]) -> Array:
    if dtype.kind in "iub":
        return edges(dtype)
    return np.concatenate([edges(dtype), _AROUND.astype(dtype)])


def _saturating(to: np.dtype[Any]) -> Callable[[Array], Array]:
    """Python's casts of floats to an integer type: saturating, and 0 for NaN."""
    ends = np.iinfo(to)

    def cast(x: float) -> int:
        if math.isnan(x):
            return 0
        if math.isinf(x):
            return ends.max if x > 0 else ends.min
        return min(max(int(x), ends.min), ends.max)

    return lambda x: np.array([cast(float(v)) for v in x], to)


def _lowest_bits(to: np.dtype[Any]) -> Callable[[Array], Array]:
    """Python's casts of floats to an integer of less than 8 bits."""
    bits = int(to.name.removeprefix("u")[3:])
    return lambda x: np.array(
        [int(v) % (1 << bits) if math.isfinite(v) else 0 for v in x.astype(float)], np.uint8
    ).astype(to)


def _cast(x: Array, code: int, **attributes: int) -> Case:
    to, wanted = dtype_of(code), None
    if x.dtype.kind not in "iub" and "int" in to.name:
        wanted = _lowest_bits(to) if code in NIBBLES else _saturating(to)
    return Case("Cast", [x], {"to": code, **attributes}, wanted=wanted, signed=True)


def casts(dtype: np.dtype[Any]) -> Iterator[Case]:
    """Casts of one element to all others, and those of small elements to it."""
    for other in ELEMENTS.values():
        yield _cast(_numbers(dtype), helper.np_dtype_to_tensor_dtype(other))
    if dtype.kind in "iub" and dtype != np.int32:
        return
    for code in NIBBLES:
        yield _cast(_numbers(dtype), code)
    for code in BYTES:
        for saturate in (0, 1):
            yield _cast(_numbers(dtype), code, saturate=saturate)
        every = np.arange(256, dtype=np.uint8).view(dtype_of(code))
        finite = every[np.isfinite(every.astype(np.float32))]
        yield _cast(finite[:128], helper.np_dtype_to_tensor_dtype(dtype))


_REALS = np.array(
    [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, 0.5, 1.5, 2.5, -0.5, 127.5, 128, 255.5, 1e10, -1e10,
     3e38, 65535.5, 32768, 448, 1e-3],
    np.float32,
)  # fmt: skip
_SCALES = (1.0, 1e-45, 0.0, 1e-20, 3e38, -1.0, np.inf, -np.inf, np.nan)


def quantization() -> Iterator[Case]:
    """Quotients beyond the range, and scales that are 0, denormal or negative."""
    for zero in (np.array(3, np.uint8), np.array(-3, np.int8), np.array(3, np.uint16)):
        for scale in _SCALES:
            scales = np.array(scale, np.float32)
            yield Case("QuantizeLinear", [_REALS, scales, zero], fixed=(1, 2), wanted=runtime)
            yield Case("QuantizeLinear", [_REALS, scales, zero], wanted=runtime)
    for code in BYTES + NIBBLES:
        x, scale = _REALS[np.abs(_REALS) < 1e5], np.array(0.25, np.float32)
        yield Case("QuantizeLinear", [x, scale], {"output_dtype": code})
    for dtype in (np.uint8, np.int8, np.uint16, np.int16, np.int32):
        zero = np.array(0 if dtype is np.int32 else 3, dtype)
        for scale in (1.0, 1e-45, np.inf, np.nan, 3e38):
            x = edges(np.dtype(dtype))
            yield Case("DequantizeLinear", [x, np.array(scale, np.float32), zero])
        none, scales = np.zeros((0, 3), dtype), np.ones(3, np.float32)
        yield Case("DequantizeLinear", [none, scales, np.zeros(3, dtype)], {"axis": 1})
    none, zeros = np.zeros((0, 3), np.float32), np.zeros(3, np.uint8)
    yield Case("QuantizeLinear", [none, np.ones(3, np.float32), zeros], {"axis": 1})
    for numbers in ([5.0], [-5.0], [1e-38], [3e38, -3e38], [np.inf, 0], [1e-40, 0], [-1e-45]):
        yield Case("DynamicQuantizeLinear", [np.array(numbers, np.float32)], outputs=3)


def bounds(dtype: np.dtype[Any]) -> Iterator[Case]:
    """Bounds in the wrong order, absent, and at the ends of the range."""
    x = edges(dtype)
    low, high, most, least = (np.array(n, dtype) for n in (5, 1, x[-1], x[1]))
    yield Case("Clip", [x, low, high])
    yield Case("Clip", [x, low, high], fixed=(1, 2))
    yield Case("Clip", [x, None, high])
    yield Case("Clip", [x])
    yield Case("Clip", [x, least, most], fixed=(1, 2))
    if dtype.kind not in "iu":
        nan, infinite = np.array(np.nan, dtype), np.array(np.inf, dtype)
        yield Case("Clip", [x, -infinite, infinite])
        yield Case("Clip", [x, nan, high])
        yield Case("Clip", [x, low, nan], fixed=(1, 2))


def cases() -> Iterator[Case]:
    """The cases of all elements."""
    for dtype in ELEMENTS.values():
        yield from casts(dtype)
        if dtype != np.bool_:
            yield from bounds(dtype)
    yield from quantization()
    yield Case("CastLike", [np.zeros((0, 3), np.int8), np.zeros(2, np.float32)])
    yield Case("CastLike", [_numbers(np.dtype(np.float64)), np.zeros(2, np.float16)])
    for name, code in (("float32", T.INT32), ("float16", T.INT16), ("bfloat16", T.UINT16)):
        yield Case("BitCast", [edges(ELEMENTS[name])], {"to": code})
    for code in BYTES:
        every = np.arange(256, dtype=np.uint8)
        yield Case("BitCast", [every.view(dtype_of(code))], {"to": T.UINT8})
