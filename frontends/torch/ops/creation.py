"""Converters of ops that make tensors out of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tessella.dialects import nn
from tessella.dialects.sizes import is_static
from tessella.frontends.emitter import Array, DType, Emitter, Value
from tessella.frontends.ranges import StridedIndices
from tessella.frontends.torch.promote import DEFAULT, Operand, lifted, result_dtype
from tessella.frontends.torch.registry import aten, refuse
from tessella.support.sizes import Size


def filled(emit: Emitter, value: Operand, shape: Sequence[Size], dtype: DType) -> Value:
    """Emit a tensor whose elements all equal a number."""
    number = lifted(emit, value, dtype)
    return number.expand(tuple(shape))


def positions(emit: Emitter, count: Size) -> Value:
    """Emit the numbers from 0 up to a size."""
    return emit.emit(nn.IotaOp, count=count)[0]


@aten("full")
def full(
    emit: Emitter, size: Sequence[Size], value: Operand, *, dtype: DType | None = None, **_: object
) -> Value:
    return filled(emit, value, size, dtype or result_dtype([value]))


@aten("full_like")
def full_like(
    emit: Emitter, x: Value, value: Operand, *, dtype: DType | None = None, **_: object
) -> Value:
    return filled(emit, value, x.shape, dtype or x.dtype)


@aten("scalar_tensor")
def scalar_tensor(
    emit: Emitter, value: Operand, *, dtype: DType | None = None, **_: object
) -> Value:
    return filled(emit, value, (), dtype or DEFAULT)


@aten("empty.memory_format", "zeros")
def zeros(emit: Emitter, size: Sequence[Size], *, dtype: DType | None = None, **_: object) -> Value:
    return filled(emit, 0, size, dtype or DEFAULT)


@aten("ones")
def ones(emit: Emitter, size: Sequence[Size], *, dtype: DType | None = None, **_: object) -> Value:
    return filled(emit, 1, size, dtype or DEFAULT)


@aten("empty_permuted", "new_zeros", "new_empty", note="zeros")
def empty_permuted(
    emit: Emitter,
    size: Sequence[Size] | Value,
    *others: Sequence[Size],
    dtype: DType | None = None,
    **_: object,
) -> Value:
    if isinstance(size, Value):
        return filled(emit, 0, others[0], dtype or size.dtype)
    return filled(emit, 0, size, dtype or DEFAULT)


@aten("empty_like", "zeros_like")
def zeros_like(emit: Emitter, x: Value, *, dtype: DType | None = None, **_: object) -> Value:
    return filled(emit, 0, x.shape, dtype or x.dtype)


@aten("ones_like")
def ones_like(emit: Emitter, x: Value, *, dtype: DType | None = None, **_: object) -> Value:
    return filled(emit, 1, x.shape, dtype or x.dtype)


@aten("fill.Scalar", "fill.Tensor")
def fill(emit: Emitter, x: Value, value: Operand) -> Value:
    return filled(emit, value, x.shape, x.dtype)


@aten("arange.start_step", note="symbolic bounds of integers")
def arange(
    emit: Emitter,
    start: Size | float,
    end: Size | float,
    step: Size | float = 1,
    *,
    dtype: DType | None = None,
    **_: object,
) -> Value:
    bounds = (start, end, step)
    if is_static([each for each in bounds if not isinstance(each, float)]):
        is_whole = not any(isinstance(each, float) for each in bounds)
        wanted = dtype or (np.dtype(np.int64) if is_whole else DEFAULT)
        wide = np.int64 if is_whole else np.float64
        numbers: list[Any] = np.array(bounds, wide).tolist()
        found: Array = np.arange(*numbers, dtype=wide)
        return emit.constant(found).cast(wanted)
    if isinstance(start, float) or isinstance(end, float) or not isinstance(step, int):
        raise refuse("a range of floats with symbolic bounds")
    count = StridedIndices.between(start, end, step).count
    return iota(emit, count, start=start, step=step, dtype=dtype or np.dtype(np.int64))


@aten("prims::iota")
def iota(
    emit: Emitter, length: Size, *, start: Size, step: Size, dtype: DType, **_: object
) -> Value:
    numbers = positions(emit, length)
    scaled = numbers if step == 1 else numbers * step
    return (scaled if start == 0 else scaled + start).cast(dtype)
