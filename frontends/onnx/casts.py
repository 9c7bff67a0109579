"""Conversions of elements as ONNX defines them, where NumPy's differ or NumPy lacks the element."""

from __future__ import annotations

import math

import numpy as np

from tessella.dialects import nn
from tessella.frontends.emitter import Value, where
from tessella.frontends.onnx.call import Call
from tessella.runtime.elements import DTYPES, DType, element_of
from tessella.support.elements import Element

_FLOAT = np.dtype(np.float32)


def converted(call: Call, x: Value, to: DType) -> Value:
    """Emit a conversion of elements to a dtype.

    The node's attribute ``saturate`` tells whether floats beyond the range of a float of 8 bits
    become its largest number, and ``round_mode`` how a power of two is rounded.
    """
    saturates = call.flag("saturate", True)
    mode = call.choice("round_mode", "up", "down", "nearest")
    element = element_of(to)
    if x.dtype == to or element is None or not element.is_tagged or element.bits > 8:
        return x.cast(to)
    if element.is_float:
        return _float(x if x.dtype in _WIDE else x.cast(_FLOAT), element, saturates, mode)
    # a float beyond the range keeps its lowest bits, as in `ml_dtypes`
    return (_lowest_bits(x, element) if x.is_float else x).cast(to)


def _lowest_bits(x: Value, element: Element) -> Value:
    """Emit the lowest bits of the whole numbers of floats, as int32; 0 for what is not finite."""
    return x.op(nn.FmodOp, x.emitter.scalar(1 << element.bits, x.dtype)).cast(np.int32)


_WIDE = [DTYPES[name] for name in ("f64", "f32", "f16", "bf16")]


def _float(x: Value, element: Element, saturates: bool, mode: str) -> Value:
    to = DTYPES[element.name]
    if not element.signed:
        return _power(x.cast(_FLOAT), element, saturates, mode).cast(to)
    if saturates:
        x = x.op(nn.ClipOp, low=-element.largest, high=element.largest)
    return x.cast(to)


def _power(x: Value, element: Element, saturates: bool, mode: str) -> Value:
    """Emit powers of two, as f32: those next to a number, in the direction ``mode``."""
    if saturates:
        x = x.op(nn.ClipOp, low=element.normal(0), high=element.largest)
    else:
        x = where(x < element.normal(0), math.nan, x)
    near = x.cast(DTYPES[element.name]).cast(_FLOAT)
    if mode == "down":
        return where(near > x, near * 0.5, near)
    return where(near < x if mode == "up" else near * 1.5 <= x, near * 2.0, near)
