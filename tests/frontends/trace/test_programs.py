"""Random functions: ops of every family on each other's results, compiled, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tessella
from tests.frontends.trace.checks import array
from tests.generators.jit_functions import IMAGE_STEPS, STEPS, function


@pytest.mark.parametrize("seed", range(30))
def test_random_programs(seed: int) -> None:
    shapes = [(2, 3), (3, 4, 5), (1, 5), (17,)]
    arrays = [array(shape, seed=seed) / 2 for shape in shapes]
    _check(function(seed, STEPS), arrays)


@pytest.mark.parametrize("seed", range(30))
def test_random_programs_on_images(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers((1, 1, 3, 3), (3, 6, 10, 10)))
    _check(function(seed, IMAGE_STEPS), [array(shape, seed=seed) / 2])


def _check(traced: Callable[..., tuple[Any, ...]], arrays: list[Any]) -> None:
    with np.errstate(all="ignore"):
        want = traced(*arrays)
    got = tessella.jit(lambda *args: traced(*args))(*arrays)
    assert len(got) == len(want)
    for have, wanted in zip(got, want, strict=True):
        assert (have.dtype, have.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(have, wanted, rtol=1e-3, atol=2e-4)
