"""Points that constraints exclude change nothing, whatever the operands hold."""

from __future__ import annotations

import numpy as np
import pytest

import tessella
from tests.native import RUNNABLE

FILTER = """
function (I[C, X], K[O, C, T]) -> (R) {
  R[o, x: O, X] = +(I[c, x + t - 2] * K[o, c, t]);
}
"""


@pytest.mark.parametrize("length", [9, 37, 200])
@pytest.mark.parametrize("taps", [3, 5])
def test_an_infinite_weight_beside_the_image(length: int, taps: int) -> None:
    """Zero times infinity is no part of the sum, nor is a weight that is no number."""
    rng = np.random.default_rng(length)
    image = rng.integers(1, 9, (4, length)).astype(np.float32)
    weights = rng.integers(1, 9, (6, 4, taps)).astype(np.float32)
    weights[0, 1, 0], weights[1, 2, -1], weights[2, 3, 1] = np.inf, -np.inf, np.nan
    wanted = np.zeros((6, length), np.float32)
    for x in range(length):
        for t in range(taps):
            if 0 <= x + t - 2 < length:
                wanted[:, x] += weights[:, :, t] @ image[:, x + t - 2]
    assert np.isfinite(wanted[0, :2]).all()
    np.testing.assert_array_equal(tessella.tile(FILTER)(image, weights), wanted)


@pytest.mark.parametrize("target", RUNNABLE)
def test_a_condition_of_statements_with_different_lanes(target: str) -> None:
    """Integers and the booleans that say which of them were written are vectors of other sizes."""
    program = (
        "function (A[N], D[M]) -> (R) { R[j, i - 1 : 3, 42] = +(A[j]), i + j < 40 default D; }"
    )
    a = np.arange(42, dtype=np.int32) + 1
    wanted = np.tile(-a, (3, 1))
    for j in range(3):
        wanted[j, : 39 - j] = a[j]
    np.testing.assert_array_equal(tessella.tile(program, target=target)(a, -a), wanted)
