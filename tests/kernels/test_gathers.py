"""Elements at computed places, lane by lane."""

from __future__ import annotations

import numpy as np
import pytest

import tessella
from tessella import ops
from tessella.dialects import nn
from tessella.support.errors import ExecutionError
from tests.native import EVERYWHERE, Array, check_op, normal


@pytest.mark.parametrize("target", EVERYWHERE)
@pytest.mark.parametrize("columns", [1, 7, 16, 35, 130])
def test_lanes_of_a_row(target: str, columns: int) -> None:
    """Places of columns that all rows share, and places of each row, in whole and partial
    vectors."""
    x, rng = normal(9, 21), np.random.default_rng(columns)
    check_op(nn.GatherOp, [x, rng.integers(-21, 21, columns)], target=target, axis=1)
    places = rng.integers(-21, 21, (9, columns))
    check_op(nn.GatherElementsOp, [x, places], target=target, axis=1)
    rows = rng.integers(-9, 9, (5, min(columns, 21)))
    check_op(nn.GatherElementsOp, [x, rows], target=target, axis=0)


@pytest.mark.parametrize("lane", [0, 15, 16, 33, 34])
@pytest.mark.parametrize("wrong", [21, -22, 1 << 40, -(1 << 63)])
def test_a_lane_out_of_range_is_an_error(lane: int, wrong: int) -> None:
    x, places = normal(9, 21), np.random.default_rng(0).integers(-21, 21, 35)
    np.testing.assert_array_equal(ops.gather(x, places, axis=1), x[:, places])
    places[lane] = wrong
    with pytest.raises(ExecutionError, match="out of range"):
        ops.gather(x, places, axis=1)


@pytest.mark.parametrize("target", EVERYWHERE)
def test_indices_that_are_broadcast(target: str) -> None:
    """They are read where they lie."""
    x, places = normal(6, 5, 64), np.random.default_rng(0).integers(0, 5, (6, 5, 1))

    def gathered(x: Array, places: Array) -> Array:
        return np.take_along_axis(x, np.broadcast_to(places, x.shape), 1)

    function = tessella.jit(gathered, target=target)
    np.testing.assert_array_equal(function(x, places), gathered(x, places))
    assert function.lower(x, places).as_text("tile").count("tile.kernel") == 1


@pytest.mark.parametrize("target", EVERYWHERE)
@pytest.mark.parametrize("columns", [3, 8, 37])
def test_what_several_gathers_read_is_combined_where_it_is_read(target: str, columns: int) -> None:
    """A sum of embeddings, and a product with elements along the lanes: one statement."""
    rng = np.random.default_rng(columns)
    words, kinds, others = normal(30, columns), normal(2, columns), normal(5, columns)
    i, j = rng.integers(-30, 30, 6), rng.integers(0, 2, 6)
    k = rng.integers(0, columns, (5, columns))
    rows = rng.integers(0, 5, (6, columns))

    def combined(
        w: Array, t: Array, x: Array, i: Array, j: Array, k: Array, rows: Array
    ) -> tuple[Array, Array]:
        first, second = np.take_along_axis(x, rows, 0), w[i] + t[j]
        return second * np.maximum(first, 0), np.take_along_axis(x, k, 1) - x

    arrays = words, kinds, others, i, j, k, rows
    function = tessella.jit(combined, target=target)
    for found, wanted in zip(function(*arrays), combined(*arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert function.lower(*arrays).as_text("tile").count("tile.contract") == 2
    i[4] = 30
    with pytest.raises(ExecutionError, match="out of range"):
        function(*arrays)
