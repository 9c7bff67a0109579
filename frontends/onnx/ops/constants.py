"""Converters of ops that make tensors from literals, shapes or a few numbers."""

from __future__ import annotations

import math

import numpy as np

from tessella.dialects.sizes import is_static
from tessella.frontends.emitter import Value, where
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.model import DTYPES, Tensor
from tessella.frontends.onnx.registry import converts, known_type
from tessella.frontends.onnx.tensors import element_name
from tessella.frontends.ranges import StridedIndices
from tessella.runtime.elements import converted, widened
from tessella.runtime.texts import STRING
from tessella.support.conditions import decided
from tessella.support.decisions import known
from tessella.support.errors import InvalidModelError, ShapeError
from tessella.support.sizes import Size

_BOUNDS = "start", "limit", "delta"
_VALUES = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_string": STRING,
    "value_strings": STRING,
}


@converts("Constant", 1, 25, runs="at import")
def constant(call: Call) -> Value:
    """Emit the constant in the node's attributes: a tensor, a sparse tensor, a number, a string, or
    a list of these."""
    for name in ("value", "sparse_value"):
        tensor = call.tensor(name)
        if tensor is not None:
            return call.build.tensor(tensor, call.node.outputs[0])
    for name, dtype in _VALUES.items():
        value = call.attribute(name)
        if value is not None:
            return call.constant(np.array(value, dtype))
    raise InvalidModelError("a constant without a value")


@converts("ConstantOfShape", 9, 25, note="shape known at import")
def constant_of_shape(call: Call) -> Value:
    """Emit a tensor of a given shape whose elements all equal the attribute ``value``, by default
    0."""
    shape = call.static_sizes(0, "shape")
    if any(decided(size < 0) for size in shape):
        raise ShapeError("a dimension is negative", expected=">= 0", found=str(list(shape)))
    value = call.tensor("value") or Tensor.of("zero", np.zeros(1, np.float32))
    if math.prod(value.shape) != 1:
        raise InvalidModelError("the value is not one element", found=str(list(value.shape)))
    number = widened(value.array).reshape(-1)[0].item()
    return call.build.splat(number, shape, value.array.dtype)


@converts("EyeLike", 9, 22, known_type("dtype"), runs="at import")
def eye_like(call: Call) -> Value:
    """Emit a matrix with ones on a diagonal and zeros elsewhere, with the operand's shape."""
    shape, code = call.x.shape, call.attribute("dtype")
    if len(shape) != 2:
        raise ShapeError(
            "EyeLike takes a matrix", expected="[rows, columns]", found=str(call.x.type)
        )
    height, width = call.build.limited(*shape)
    dtype = call.x.dtype if code is None else DTYPES[element_name(code)]
    offset = call.integer("k") - np.subtract.outer(np.arange(width), np.arange(height)).T
    return call.constant(converted(offset == 0, dtype))


@converts("Range", 11, 27, note="operands known at import", runs="at import")
def range_(call: Call) -> Value:
    """Emit the numbers from ``start`` up to ``limit``, which is excluded, in steps of ``delta``."""
    if not is_static([call.static_element(i, name) for i, name in enumerate(_BOUNDS)]):
        return _range_of_sizes(call, *(call.static_size(i, name) for i, name in enumerate(_BOUNDS)))
    start, limit, delta = (call.static_number(i, name) for i, name in enumerate(_BOUNDS))
    dtype = call.x.dtype
    if delta == 0 or not all(map(math.isfinite, (start, limit, delta))):
        raise ShapeError(
            "a range that never ends",
            expected="finite bounds, and a delta that is not 0",
            found=f"{start} to {limit} by {delta}",
        )
    # floor division is exact for integers, unlike a floating-point quotient
    count = max(int(-((start - limit) // delta)), 0)
    call.build.limited(count)
    return call.constant(converted(np.asarray(start + np.arange(count) * delta), dtype))


def _range_of_sizes(call: Call, start: Size, limit: Size, delta: Size) -> Value:
    """Emit a range whose length is symbolic."""
    count = StridedIndices.between(start, limit, known(delta)).count
    numbers = call.positions(count, 0, 1)
    if delta != 1:
        numbers = numbers * delta
    if start != 0:
        numbers = numbers + start
    return numbers.cast(call.x.dtype)


@converts("Trilu", 14, 14, note="k known at import")
def trilu(call: Call) -> Value:
    """Emit the upper or lower triangle of matrices, with 0 elsewhere."""
    if call.x.rank < 2:
        raise ShapeError(
            "Trilu takes matrices", expected="[.., rows, columns]", found=str(call.x.type)
        )
    k = 0 if call.optional(1) is None else call.static_size(1, "k")
    return where(_triangle(call, k), call.x, 0)


def _triangle(call: Call, k: Size) -> Value:
    """Emit whether each element of a matrix is in the triangle that begins at diagonal ``k``."""
    *_, height, width = call.x.shape
    upper = call.flag("upper")
    if is_static((height, width, k)):
        height, width = call.build.limited(height, width)
        diagonal = max(min(known(k), width), -height)
        offsets = np.arange(width) - np.arange(height).reshape(-1, 1)
        return call.constant(offsets >= diagonal if upper else offsets <= diagonal)
    rows, columns = call.positions(height, 0, 2), call.positions(width, 1, 2)
    if k != 0:
        rows = rows + k
    return columns >= rows if upper else columns <= rows
