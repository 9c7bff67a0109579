"""Functions that create arrays.

In a traced function, arrays of equal elements are traced, and can be stored into. `arange` returns
a NumPy array in a traced function too, which becomes a constant, unless its length is symbolic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.dialects import nn
from tessella.frontends.emitter import Value
from tessella.frontends.ranges import StridedIndices
from tessella.frontends.trace.dispatch import FUNCTIONS
from tessella.frontends.trace.function import Result, function
from tessella.frontends.trace.movement import Shape, as_sizes
from tessella.frontends.trace.promote import cast as converted
from tessella.frontends.trace.promote import check_fits
from tessella.frontends.trace.size import TracedSize, as_size
from tessella.frontends.trace.traced import Array, Trace, Traced, current_trace
from tessella.runtime.elements import as_dtype
from tessella.support.decisions import known, known_all
from tessella.support.errors import InputError
from tessella.support.sizes import Size

_FLOAT = np.dtype(np.float32)


def zeros(shape: Shape, dtype: npt.DTypeLike = _FLOAT) -> Array:
    """Return an array of zeros, of float32 unless another dtype is given."""
    return full(shape, 0, dtype)


def ones(shape: Shape, dtype: npt.DTypeLike = _FLOAT) -> Array:
    """Return an array of ones, of float32 unless another dtype is given."""
    return full(shape, 1, dtype)


def full(shape: Shape, value: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> Array:
    """Return an array whose elements all equal ``value``, or to which the array ``value`` is
    broadcast.

    The dtype is that of ``value`` unless another one is given; for a Python float it is float32.
    """
    trace, dtype = current_trace(), _default(dtype, value)
    if trace is None:
        return np.full(known_all(as_sizes(shape)), value, dtype)
    return trace.decided(lambda: Traced(trace, _filled(trace, as_sizes(shape), value, dtype)))


def _filled(
    trace: Trace, sizes: tuple[Size, ...], value: npt.ArrayLike, dtype: npt.DTypeLike | None
) -> Value:
    if isinstance(value, Traced):
        return converted(trace, value, np.dtype(dtype or value.dtype)).expand(sizes)
    array = np.full(np.shape(value), value, dtype)
    if array.shape:
        return trace.lift(array).expand(sizes)
    return trace.emitter.splat(array.item(), sizes, array.dtype)


@function
def arange(
    trace: Trace,
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: npt.DTypeLike | None = None,
) -> Result:
    """Return the numbers from ``start`` up to ``stop``, which is excluded, in steps of ``step``.
    Without ``stop``, the numbers are from 0 up to ``start``.

    For Python floats the dtype is float32, unless another one is given.
    """
    numbers: Any = (0, start, step) if stop is None else (start, stop, step)
    if not any(isinstance(number, TracedSize) for number in numbers):
        return _arange(numbers, _default(dtype, *numbers))
    first, end, by = map(as_size, numbers)
    count = StridedIndices.between(first, end, known(by)).count
    wanted = as_dtype(np.int64 if dtype is None else dtype)
    for each in (first, end):
        check_fits(each, wanted)
    numbers = trace.emitter.emit(nn.IotaOp, count=count)[0]
    return (numbers * by + first).cast(wanted)


def _arange(numbers: Any, dtype: npt.DTypeLike | None) -> Array:
    try:
        return np.arange(*numbers, dtype=dtype)
    except TypeError as error:
        raise InputError(
            "this is not a range", expected="numbers, and a dtype of numbers", found=str(error)
        ) from None


def _default(dtype: npt.DTypeLike | None, *numbers: npt.ArrayLike) -> npt.DTypeLike | None:
    if dtype is None:
        return _FLOAT if any(type(x) is float for x in numbers) else None
    return as_dtype(dtype)


def _filled_like(value: float) -> Any:
    def make(x: Any, dtype: Any = None, shape: Any = None) -> Array:
        return _full_like(x, value, dtype, shape)

    return make


def _full_like(x: Any, fill_value: float, dtype: Any = None, shape: Any = None) -> Array:
    wanted: Shape = x.shape if shape is None else shape
    return full(wanted, fill_value, x.dtype if dtype is None else dtype)


FUNCTIONS.update(
    {
        np.zeros_like: _filled_like(0),
        np.empty_like: _filled_like(0),
        np.ones_like: _filled_like(1),
        np.full_like: _full_like,
    }
)
