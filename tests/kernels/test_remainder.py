"""Remainders, powers of integers, and where the extreme element is: where they are hard."""

from __future__ import annotations

import numpy as np
import pytest

from tessella.dialects import nn
from tessella.dialects.nn.core import NnOp
from tests import sampling
from tests.kernels.test_elements import INTEGERS, UNSIGNED, check
from tests.native import EVERYWHERE, sample

HARD = np.array(
    [
        *(0.0, 1.0, 3.0, 0.1, 5.5, 1e-45, 1.1754944e-38, 3.4028235e38, 1e20, 7e-30, np.inf, np.nan),
        *np.random.default_rng(0).standard_normal(19) * 10.0 ** np.arange(-30, 27, 3),
    ],
    np.float32,
)


@pytest.mark.parametrize("target", [*EVERYWHERE, "sse"])
@pytest.mark.parametrize("kind", [nn.ModOp, nn.FmodOp])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.filterwarnings("ignore:invalid value")
def test_remainders_of_floats(kind: type[NnOp], dtype: type[np.generic], target: str) -> None:
    """Nothing is rounded, however large the quotient is."""
    x = np.concatenate([HARD, -HARD]).astype(dtype)
    check(kind, x[:, None], x[None, :], target=target)


@pytest.mark.sweep
@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("kind", [nn.ModOp, nn.FmodOp])
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_remainders_of_integers(kind: type[NnOp], name: str) -> None:
    x, y = sample(name, 9, 71), sample(name, 9, 71, seed=1)
    y[:4] //= np.array(16 if name in ("i8", "u8") else 1000, y.dtype)
    check(kind, x, y)


@pytest.mark.parametrize("name", sampling.sample(INTEGERS))
def test_powers_of_integers(name: str) -> None:
    x, y = sample(name, 9, 71) % 5, sample(name, 9, 71, seed=1) % 7
    if name not in UNSIGNED:
        x, y = x - x.dtype.type(2), y - y.dtype.type(3)
    check(nn.PowOp, x, y)
    check(nn.PowOp, sample(name, 40), np.full(40, 3, x.dtype))


SHAPES = [((7, 70), 1), ((7, 70), 0), ((3, 5, 33), 1), ((1,), 0)]
ENDS = [(nn.ArgMaxOp, False), (nn.ArgMinOp, True), (nn.ArgMaxOp, True), (nn.ArgMinOp, False)]


PLACES = [(*shape, *ENDS[(i + j) % 4]) for i, shape in enumerate(SHAPES) for j in range(4)]
"""Every end of every shape. A sample has each of them once."""


@pytest.mark.parametrize("shape, axis, kind, last", sampling.sample(PLACES))
def test_where_the_extreme_is(
    shape: tuple[int, ...], axis: int, kind: type[NnOp], last: bool
) -> None:
    """The first or last of equal ones; NaN is beyond all numbers."""
    rng = np.random.default_rng(0)
    few = rng.integers(-2, 3, shape)
    holes = np.where(rng.random(shape) < 0.02, np.nan, few).astype(np.float32)
    full = np.full(shape, -np.inf, np.float32)
    for x in (few, few.astype(np.int8), few > 0, holes, full, few.astype(np.float16)):
        check(kind, x, axis=axis, keepdims=last, select_last_index=last)


@pytest.mark.parametrize("name", INTEGERS)
def test_means_of_integers(name: str) -> None:
    """Summed without overflow, and rounded towards zero."""
    check(nn.ReduceMeanOp, sample(name, 19, 131) // 8, axes=(1,), keepdims=False)
