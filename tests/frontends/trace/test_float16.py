"""Functions of float16 arrays, against NumPy: the same dtypes, values rounded once by each op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tessella

X = np.linspace(0.1, 2, 24, dtype=np.float16).reshape(4, 6)
Y = np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x + x * 2,
        lambda x, y: x + y,
        lambda x, y: np.exp(x) - 1,
        lambda x, y: np.sum(x, axis=1),
        lambda x, y: np.mean(x),
        lambda x, y: x @ x.T,
        lambda x, y: np.where(y > 0, x, -x),
        lambda x, y: y.astype(np.float16),
        lambda x, y: x.reshape(6, 4).astype(np.float64),
        lambda x, y: x > 1,
    ],
)
def test_as_numpy(function: Callable[..., Any]) -> None:
    found, expected = tessella.jit(function)(X, Y), function(X, Y)
    assert found.dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(found, expected, rtol=4e-3, atol=2e-3)


def test_ops() -> None:
    found = tessella.ops.add(X, X)
    np.testing.assert_array_equal(found, X + X, strict=True)
    np.testing.assert_array_equal(tessella.ops.cast(X, to="float32"), X.astype(np.float32))
