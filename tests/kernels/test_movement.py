"""Kernels that move elements, for every vector width that runs here."""

from __future__ import annotations

import numpy as np
import pytest

from tessella.dialects import nn
from tessella.kernels.movement import common_digits
from tessella.support.sizes import Symbol
from tests.native import EVERYWHERE, check_op


@pytest.mark.parametrize("target", EVERYWHERE)
@pytest.mark.parametrize(
    "shape, groups", [((2, 6), 2), ((1, 12, 5), 3), ((2, 4, 3, 7), 1), ((1, 24, 9, 5), 4)]
)
def test_channel_shuffle(shape: tuple[int, ...], groups: int, target: str) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    check_op(nn.ChannelShuffleOp, [x], target=target, rtol=0, atol=0, groups=groups)


@pytest.mark.parametrize("target", EVERYWHERE)
@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
@pytest.mark.parametrize(
    "shape, low, high",
    [
        ((2, 3, 9, 21), (0, 0, 3, 2), (0, 0, 1, 8)),
        ((5, 40), (4, 0), (0, 39)),
        ((3, 4, 5), (1, 2, 3), (2, 1, 4)),
        ((7,), (0,), (0,)),
    ],
)
def test_pad(
    mode: str, shape: tuple[int, ...], low: tuple[int, ...], high: tuple[int, ...], target: str
) -> None:
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    check_op(nn.PadOp, [x], target=target, rtol=0, atol=0, low=low, high=high, mode=mode, value=0.0)


def test_common_digits_of_open_sizes() -> None:
    """None are known where either of two sizes may be the larger one."""
    n = Symbol("n", 2, 9).size
    half = (n + 1) // 2
    assert common_digits([n, 6], [2 * n, 3]) == [n, 2, 3]
    assert common_digits([half, 3], [3 * half]) == [half, 3]
    assert common_digits([half, 3], [3, half]) is None
