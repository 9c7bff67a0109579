"""Products of groups of rows as native code: groups of many blocks, and any number of rows."""

from __future__ import annotations

import numpy as np
import pytest

import tessella
from tessella import ops
from tessella.dialects import nn
from tests.native import EVERYWHERE, Array, check_op, normal

ENDS = {
    "uneven": [0, 3, 100, 101, 230],
    "one": [0, 0, 300, 300, 300],
    "none": [0, 0, 0, 0, 0],
    "falling": [90, 10, 200, 150, 1000],
}
"""Ends of five groups of 300 rows."""


@pytest.mark.parametrize("target", EVERYWHERE)
@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
def test_groups_of_any_size(target: str, ends: list[int]) -> None:
    x, places = normal(300, 21), np.array(ends)
    check_op(nn.GroupedMatmulOp, [x, normal(5, 21, 70, seed=1), places], target=target)
    check_op(nn.GroupedOuterOp, [x, normal(300, 70, seed=1), places], target=target, atol=1e-4)


def test_values_of_other_groups_do_not_count() -> None:
    x, w, ends = normal(90, 21), normal(3, 21, 40, seed=1), np.array([20, 20, 70])
    w[1] = np.nan
    x[70:] = np.inf
    check_op(nn.GroupedMatmulOp, [x, w, ends])
    check_op(nn.GroupedOuterOp, [x, normal(90, 40, seed=1), ends], atol=1e-4)


def test_any_number_of_rows() -> None:
    def products(x: Array, w: Array, ends: Array) -> tuple[Array, Array]:
        y = ops.grouped_matmul(x, w, ends)
        return y, ops.grouped_outer(x, y, ends)

    function, w = tessella.jit(products), normal(3, 16, 24, seed=1)
    for rows in (40, 200, 7, 1, 0, 1000):
        x, ends = normal(rows, 16), np.array([rows // 3, rows // 2, rows])
        y, sums = function(x, w, ends)
        parts = np.split(x, ends[:2])
        wanted = [part @ matrix for part, matrix in zip(parts, w, strict=True)]
        np.testing.assert_allclose(y, np.concatenate(wanted), rtol=1e-4, atol=1e-5)
        outer = [part.T @ each for part, each in zip(parts, wanted, strict=True)]
        np.testing.assert_allclose(sums, np.stack(outer), rtol=1e-4, atol=1e-3)
