"""Products of groups of rows, and their gradients, against products of each group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tessella.dialects import nn
from tests.dialects.oracle import assert_close, run, sample

CASES = [[3, 3, 9], [0, 0, 11], [11, 11, 11], [4, 2, 20], [-3, -1, 0]]
"""Ends of three groups of eleven rows."""


def groups(ends: list[int], count: int) -> list[list[int]]:
    """Return the numbers of the rows of each group."""
    found: list[list[int]] = []
    for end in ends:
        taken = sum(map(len, found))
        found.append(list(range(taken, min(max(end, taken), count))))
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("ends", CASES, ids=str)
def test_each_row_is_multiplied_by_the_matrix_of_its_group(ends: list[int], dtype: Any) -> None:
    x, w = sample(0, (11, 4), dtype), sample(1, (3, 4, 5), dtype)
    expected = np.zeros((11, 5), dtype)
    for rows, matrix in zip(groups(ends, 11), w, strict=True):
        for row in rows:
            expected[row] = x[row] @ matrix
    assert_close(run(nn.GroupedMatmulOp, x, w, np.array(ends)), [expected])


@pytest.mark.parametrize("ends", CASES, ids=str)
def test_outer_products_are_summed_over_the_rows_of_a_group(ends: list[int]) -> None:
    a, b = sample(0, (11, 4)), sample(1, (11, 5))
    summed = np.stack([np.einsum("sm,sn->mn", a[rows], b[rows]) for rows in groups(ends, 11)])
    assert_close(run(nn.GroupedOuterOp, a, b, np.array(ends, np.int32)), [summed])
