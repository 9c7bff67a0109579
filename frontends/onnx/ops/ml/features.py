"""Converters of ops that scale, complete, normalize and combine features."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.dialects import nn
from tessella.frontends.emitter import Value, concat, where
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops.ml.attributes import check_count, floats, integers
from tessella.frontends.onnx.registry import converts
from tessella.support.decisions import decided_min, known
from tessella.support.errors import InvalidModelError, ShapeError
from tessella.support.sizes import Size, product

Array = npt.NDArray[Any]

_LEAST = 1e-30
"""The least norm by which rows are divided."""


@converts("ai.onnx.ml.Scaler", 1, 1)
def scaler(call: Call) -> Value:
    """Emit (x - offset) * scale, with one number or one for each feature."""
    x = _computed(call.x)
    offset, scale = (_each(call, name, floats(call, name), x) for name in ("offset", "scale"))
    moved = x if offset is None else x - offset
    return (moved if scale is None else moved * scale).cast(np.float32)


@converts("ai.onnx.ml.Imputer", 1, 1)
def imputer(call: Call) -> Value:
    """Emit x with the elements that equal a number, which may be NaN, replaced by another."""
    x = call.x
    kind, read = ("float", floats) if x.is_float else ("int64", integers)
    others = "int64" if x.is_float else "float"
    call.meaningless(f"imputed_value_{others}s", f"replaced_value_{others}")
    name = f"imputed_value_{kind}s"
    values = _each(call, name, read(call, name), x)
    if values is None:
        raise InvalidModelError(f"attribute {name!r} is missing", where=call.node.where)
    replaced: float = call.attribute(f"replaced_value_{kind}") or 0
    is_missing = x.op(nn.IsNanOp) if replaced != replaced else x.equals(replaced)
    return where(is_missing, values, x)


@converts("ai.onnx.ml.Normalizer", 1, 1)
def normalizer(call: Call) -> Value:
    """Emit rows divided by their norm: the greatest magnitude, or the sum of magnitudes or
    squares."""
    x, norm = _computed(call.x), call.choice("norm", "MAX", "L1", "L2")
    axes = [x.rank - 1]
    if norm == "L2":
        size = (x * x).sum(axes, keepdims=True).op(nn.SqrtOp)
    else:
        size = abs(x).max(axes, keepdims=True) if norm == "MAX" else abs(x).sum(axes, keepdims=True)
    return (x / size.op(nn.MaxOp, size.like(_LEAST))).cast(np.float32)


@converts("ai.onnx.ml.Binarizer", 1, 1)
def binarizer(call: Call) -> Value:
    """Emit 1 for the elements above a threshold, 0 for others."""
    threshold = call.number("threshold", 0.0)
    x = call.x
    return ((x if x.is_float else x.cast(np.float64)) > threshold).cast(x.dtype)


@converts("ai.onnx.ml.FeatureVectorizer", 1, 1)
def feature_vectorizer(call: Call) -> Value:
    """Emit the features of all operands side by side, each cut or padded to a number of them."""
    given, parts = call.operands(), list[Value]()
    sizes = integers(call, "inputdimensions")
    check_count(call, "inputdimensions", sizes, len(given))
    for value, size in zip(given, sizes.tolist(), strict=True):
        x = value.reshape((value.shape[0] if value.rank else 1, product(value.shape[1:])))
        if size < 0:
            raise ShapeError("a number of features is negative", found=str(size))
        kept = x.part(1, 0, decided_min(size, x.shape[1]))
        more: Size = size - kept.shape[1]
        parts.append(kept.cast(np.float32).pad((0, 0), (0, more)))
    return concat(parts, 1)


@converts("ai.onnx.ml.ArrayFeatureExtractor", 1, 1)
def array_feature_extractor(call: Call) -> Value:
    """Emit the elements at indices along the last dimension; of a vector, as one row."""
    x, indices = call.x, call.operand(1).flat()
    if not x.rank:
        raise ShapeError("a scalar has no features", found=str(x.type))
    found = x.gather(indices, x.rank - 1)
    return found.reshape((1, *found.shape)) if x.rank == 1 else found


def _computed(x: Value) -> Value:
    """Return a tensor in the floats in which it is computed with."""
    return x if x.dtype == np.float64 else x.cast(np.float32)


def _each(call: Call, name: str, given: Array, x: Value) -> Value | None:
    """Return an attribute with one number, or with one for each feature, as a tensor of the
    elements of ``x``; None if it is absent."""
    if not len(given):
        return None
    if len(given) != 1:
        check_count(call, name, given, known(x.shape[-1]) if x.rank else 1)
    return x.like(given if len(given) > 1 else given.reshape(()))
