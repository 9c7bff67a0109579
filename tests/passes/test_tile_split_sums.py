"""Reductions over indices that are apart in memory, against NumPy's kernels."""

from __future__ import annotations

import pytest

from tessella.dialects import nn
from tessella.dialects.nn.core import NnOp
from tests.native import check_op, normal


@pytest.mark.parametrize("op", [nn.ReduceSumOp, nn.ReduceMeanOp, nn.ReduceMaxOp])
@pytest.mark.parametrize("axes", [(0, 2), (0, 2, 3), (1, 3)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_in_two_statements(op: type[NnOp], axes: tuple[int, ...], keepdims: bool) -> None:
    x = normal(8, 24, 25, 301)
    check_op(op, [x], axes=axes, keepdims=keepdims, rtol=1e-4, atol=1e-3)
