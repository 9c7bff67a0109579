"""Helpers of the tests of the Tile language."""

from __future__ import annotations

from typing import Any

import numpy as np

import tessella
from tests.frontends.tile import points
from tests.frontends.tile.points import Array


def numbers(*shape: int, dtype: str = "float32", seed: int = 0, low: int = -3) -> Array:
    """Small integers."""
    rng = np.random.default_rng([seed, *shape])
    return np.asarray(rng.integers(low, 4, shape)).astype(dtype)


def same(got: Any, want: Any) -> None:
    """Assert equal types, shapes and elements."""
    want = np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_array_equal(got, want)


def run(program: str, *arrays: Array, target: str | None = None) -> Any:
    """Return the results of the compiled program, after a comparison with those of the trial of all
    points."""
    with np.errstate(all="ignore"):
        wanted = list(points.run(program, *arrays).values())
    got = tessella.tile(program, target=target)(*arrays)
    for result, want in zip(got if isinstance(got, tuple) else (got,), wanted, strict=True):
        same(result, want)
    return got
