"""Numbers in another precision, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from tessella.dialects.nn.precision import rounded

X = np.array([0.1, -0.0, 1e-30, 1e30, 1 + 2**-30, np.inf, np.nan])


@pytest.mark.parametrize("precision, dtype", [("f16", np.float16), ("f32", np.float32)])
def test_rounding_keeps_the_dtype(precision: str, dtype: type[np.generic]) -> None:
    found = rounded(X, precision)
    assert found is not None
    assert found.dtype == X.dtype
    with np.errstate(over="ignore"):
        assert_array_equal(found, X.astype(dtype))
    assert np.signbit(found[1])


def test_a_wider_precision_changes_nothing() -> None:
    x = X.astype(np.float32)
    assert_array_equal(rounded(x, "f64"), x)
    assert rounded(x, "f32") is x


def test_integers() -> None:
    assert_array_equal(rounded(np.array([-1, 3, 2**31 - 1]), "i32"), [-1, 3, 2**31 - 1])
