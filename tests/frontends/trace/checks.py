"""Helpers of the tests of traced functions: arrays, and comparison with NumPy."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

import tessella

Array = npt.NDArray[Any]

DTYPES = "float32 float64 bool int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
TOLERANCES = {"float32": (2e-5, 2e-6), "float64": (1e-12, 1e-13)}

shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)
"""Shapes, also of scalars and of no elements."""

full_shapes = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)
"""Shapes of at least one dimension and one element."""


def array(shape: Sequence[int], dtype: str = "float32", seed: int = 0) -> Array:
    """Random elements: N(0, 4), booleans, or small integers."""
    rng = np.random.default_rng([seed, *shape])
    kind = np.dtype(dtype).kind
    if kind == "f":
        return np.asarray(2 * rng.standard_normal(tuple(shape)), dtype)
    low = {"b": 0, "i": -9, "u": 0}[kind]
    return np.asarray(rng.integers(low, 2 if kind == "b" else 10, tuple(shape)), dtype)


def positive(shape: Sequence[int], dtype: str = "float32", seed: int = 0) -> Array:
    """Random elements that are greater than zero."""
    values = array(shape, dtype, seed)
    return np.abs(values) + np.asarray(1, dtype) if dtype != "bool" else values


def same(got: Any, want: Any) -> None:
    """Assert equal shapes and dtypes, and equal elements up to rounding; of each in a tuple."""
    if isinstance(want, tuple):
        for y, wanted in zip(got, want, strict=True):
            same(y, wanted)
        return
    want = np.asarray(want)
    if want.dtype == np.float16:
        want = want.astype(np.float32)
        tolerance = (2e-3, 1e-3)
    else:
        tolerance = TOLERANCES.get(want.dtype.name, (0, 0))
    assert isinstance(got, np.ndarray)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, *tolerance)


def agrees(
    function: Callable[..., Any], *arrays: Any, reference: Callable[..., Any] | None = None
) -> None:
    """Assert that a function gives the same compiled as NumPy does.

    With a reference that is another function, it is also called with the arrays as they are.
    """
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        want = (reference or function)(*arrays)
    same(tessella.jit(lambda *args: function(*args))(*arrays), want)
    if reference is not None:
        same(function(*arrays), want)


@st.composite
def broadcastable(draw: st.DrawFn, count: int) -> list[tuple[int, ...]]:
    """Shapes that broadcast."""
    whole = draw(shapes)
    result: list[tuple[int, ...]] = []
    for _ in range(count):
        kept = whole[draw(st.integers(0, len(whole))) :]
        result.append(tuple(1 if draw(st.booleans()) else size for size in kept))
    return result


def erf(x: Array) -> Array:
    """The error function, element by element."""
    values = np.asarray([math.erf(v) for v in x.astype(float).ravel()])
    return values.reshape(x.shape).astype(x.dtype)
