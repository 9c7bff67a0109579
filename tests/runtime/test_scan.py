"""Scans: running sums, in both directions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from tessella.runtime.scan import Loop

Array = npt.NDArray[np.float64]
X = np.arange(12.0).reshape(4, 3) + 1


def add(values: Sequence[Array]) -> Sequence[Array]:
    state, x, scale = values
    new = state + x * scale
    return new, new


@pytest.mark.parametrize("backward", [(), (0,), (1,), (0, 1)])
def test_running_sums(backward: tuple[int, ...]) -> None:
    last, sums = Loop(1, 1, backward).run(add, [np.zeros(3), X, np.array(2.0)], [np.zeros((4, 3))])
    expected = np.cumsum((X[::-1] if 0 in backward else X) * 2, axis=0)
    np.testing.assert_array_equal(last, expected[-1])
    np.testing.assert_array_equal(sums, expected[::-1] if 1 in backward else expected)


def test_nothing_is_carried() -> None:
    (squares,) = Loop(0, 2).run(lambda values: [values[0] * values[1]], [X, X], [np.zeros((4, 3))])
    np.testing.assert_array_equal(squares, X * X)


def test_nothing_is_returned_but_the_last_value() -> None:
    (total,) = Loop(1, 1).run(lambda values: [values[0] + values[1]], [np.array(0.0), X[:, 0]])
    assert total == X[:, 0].sum()
