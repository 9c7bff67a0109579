"""Cumulative ops as native code, against NumPy and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tessella
from tessella import ops
from tests.dialects.oracle import runtime
from tests.native import RUNNABLE, Array, normal

UFUNCS: dict[str, np.ufunc] = {
    "cumsum": np.add,
    "cumprod": np.multiply,
    "cummax": np.maximum,
    "cummin": np.minimum,
}
IDENTITIES = {"cumsum": 0, "cumprod": 1, "cummax": -np.inf, "cummin": np.inf}
DTYPES = (np.float32, np.float64, np.int32, np.int64, np.uint8)
LONG = ((200_003,), (2, 150_000), (150_000, 3), (3, 300, 1000), (700, 900))
"""Rows that run in blocks, with and without values after the last one, and tensors that are read in
the order of memory."""


def numbers(name: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """Small integers, whose aggregates are exact in any order; products of ones."""
    most = 1 if name == "cumprod" else 3
    drawn = np.random.default_rng(len(shape)).integers(-most, most + 1, shape)
    return np.asarray(np.where(drawn == 0, 1, drawn).astype(dtype))


def wanted(name: str, x: Array, axis: int, *, exclusive: bool, reverse: bool) -> Array:
    """Return the result of ``ufunc.accumulate``."""
    ordered = np.flip(x, axis) if reverse else x
    if exclusive:
        limits = np.iinfo(x.dtype) if x.dtype.kind in "iu" else None
        first = IDENTITIES[name]
        if limits is not None and abs(first) == np.inf:
            first = limits.min if first < 0 else limits.max
        rest = np.take(ordered, range(x.shape[axis] - 1), axis)
        ordered = np.concatenate([np.full_like(np.take(x, [0], axis), first), rest], axis)
    result: Array = UFUNCS[name].accumulate(ordered, axis, dtype=x.dtype)
    return np.flip(result, axis) if reverse else result


def check(name: str, x: Array, axis: int, target: str = "native", threads: int = 1) -> None:
    call = getattr(ops.with_options(target=target, threads=threads), name)
    for exclusive, reverse in product((False, True), repeat=2):
        flags = {"exclusive": exclusive, "reverse": reverse}
        found = call(x, axis=axis, **flags)
        np.testing.assert_array_equal(found, wanted(name, x, axis, **flags), f"{axis} {flags}")


@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UFUNCS)
@pytest.mark.parametrize("shape", [(1,), (7,), (5, 35), (3, 4, 70)], ids=str)
def test_every_axis(shape: tuple[int, ...], name: str, dtype: Any, target: str) -> None:
    for axis in range(len(shape)):
        check(name, numbers(name, shape, dtype), axis, target)


@pytest.mark.parametrize("shape", LONG, ids=str)
@pytest.mark.parametrize("name", ["cumsum", "cummax"])
def test_long_rows_and_large_tensors(name: str, shape: tuple[int, ...]) -> None:
    axis = int(np.argmax(shape)) if len(shape) < 3 else 1
    for each in {axis, 0}:
        check(name, numbers(name, shape, np.float32), each)


def test_the_same_bits_on_any_number_of_threads() -> None:
    x = normal(1, 300_001)
    one, several = (
        ops.with_options(threads=threads).cumsum(x, axis=1, exclusive=False, reverse=False)
        for threads in (1, 3)
    )
    np.testing.assert_array_equal(one, several)
    np.testing.assert_allclose(one, runtime("CumSum", x, np.array(1))[0], atol=0.05)


def test_nan_and_booleans() -> None:
    x = np.array([1, np.nan, 3, -np.inf, 0, 5, 6, 7, 8, 9], np.float32)
    jitted = tessella.jit(lambda x: (np.maximum.accumulate(x), np.minimum.accumulate(x)))
    for found, ufunc in zip(jitted(x), (np.maximum, np.minimum), strict=True):
        np.testing.assert_array_equal(found, ufunc.accumulate(x))
    flags = x > 5
    either = tessella.jit(lambda x: np.logical_or.accumulate(x))
    np.testing.assert_array_equal(either(flags), np.logical_or.accumulate(flags))


def test_sums_of_what_is_not_negative_never_decrease() -> None:
    found = ops.cumsum(np.abs(normal(5000)), axis=0, exclusive=False, reverse=False)
    assert (np.diff(found) >= 0).all()


@pytest.mark.parametrize("function", [
    lambda x, y: np.cumsum(np.maximum(x, 0), axis=1) * y,
    lambda x, y: np.cumprod(np.where(y > 0, x, 1).T, axis=1)[:, 3:],
    lambda x, y: np.cumsum(np.cumsum(x + y, axis=0), axis=1),
])  # fmt: skip
def test_in_one_kernel_with_maps(function: Callable[[Array, Array], Array]) -> None:
    jitted, (x, y) = tessella.jit(function), (normal(9, 41), np.abs(normal(9, 41)))
    np.testing.assert_allclose(jitted(x, y), function(x, y), rtol=1e-4, atol=1e-4)


def test_maps_before_and_after_are_in_its_kernel() -> None:
    jitted = tessella.jit(lambda x, y: np.cumsum(np.maximum(x, 0), axis=1) * y)
    text = jitted.lower(normal(9, 41), normal(9, 41)).as_text("tile")
    assert text.count("tile.contract") == text.count("tile.call") == 1


def test_sizes_that_stay_open() -> None:
    jitted = tessella.jit(lambda x: np.cumsum(x, axis=0) + np.cumsum(x[:, ::-1], axis=1))
    for rows, columns in ((3, 5), (4, 17), (1, 33), (40, 64), (9, 1)):
        x = numbers("cumsum", (rows, columns), np.float32)
        expected = np.cumsum(x, axis=0) + np.cumsum(x[:, ::-1], axis=1)
        np.testing.assert_array_equal(jitted(x), expected)


def test_sizes_that_stay_open_in_reverse() -> None:
    """The vector that runs first has lanes that are no elements."""
    model = tessella.tile("function (A[N]) -> (S) { S[i : N] = +(A[k]), k - i < N; }")
    open_model = tessella.jit(lambda x: np.flip(np.cumsum(np.flip(x, -1), -1), -1))
    for count in (2, 5, 13, 40):
        x = np.arange(1, count + 1, dtype=np.float32)
        reverse = np.cumsum(x[::-1])[::-1]
        np.testing.assert_array_equal(model(x), reverse)
        np.testing.assert_array_equal(open_model(x), reverse)
