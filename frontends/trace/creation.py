"""New arrays. They are NumPy arrays, also in traced functions, where they become constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.frontends.trace.dispatch import FUNCTIONS
from tessella.frontends.trace.movement import Shape
from tessella.frontends.trace.traced import Array

_FLOAT = np.dtype(np.float32)


def zeros(shape: Shape, dtype: npt.DTypeLike = _FLOAT) -> Array:
    """Zeros, of float32 unless another dtype is given."""
    return np.zeros(shape, dtype)


def ones(shape: Shape, dtype: npt.DTypeLike = _FLOAT) -> Array:
    """Ones, of float32 unless another dtype is given."""
    return np.ones(shape, dtype)


def full(shape: Shape, value: float, dtype: npt.DTypeLike | None = None) -> Array:
    """Equal elements: of float32 for a Python float, unless another dtype is given."""
    return np.full(shape, value, _default(dtype, value))


def arange(
    start: float, stop: float | None = None, step: float = 1, dtype: npt.DTypeLike | None = None
) -> Array:
    """Numbers from ``start`` (or 0 to ``start``, as for range) up to ``stop``, which is left out.

    They are of float32 for Python floats, unless another dtype is given.
    """
    numbers: Any = (0, start, step) if stop is None else (start, stop, step)
    return np.arange(*numbers, dtype=_default(dtype, *numbers))


def _default(dtype: npt.DTypeLike | None, *numbers: float) -> npt.DTypeLike | None:
    return _FLOAT if dtype is None and any(type(x) is float for x in numbers) else dtype


def _filled_like(value: float) -> Any:
    def make(x: Any, dtype: Any = None, shape: Any = None) -> Array:
        return _full_like(x, value, dtype, shape)

    return make


def _full_like(x: Any, fill_value: float, dtype: Any = None, shape: Any = None) -> Array:
    wanted: Shape = x.shape if shape is None else shape
    return full(wanted, fill_value, dtype or x.dtype)


FUNCTIONS.update(
    {np.zeros_like: _filled_like(0), np.ones_like: _filled_like(1), np.full_like: _full_like}
)
