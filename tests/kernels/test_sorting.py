"""Selections along an axis against NumPy, by every method and for every vector width that runs
here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.support.elements import ELEMENTS
from tests.native import EVERYWHERE, GraphBuilder, build

# shape, axis, k, method
CASES: list[tuple[tuple[int, ...], int, int, str]] = [
    ((5, 1000), 1, 1, "insertion"),
    ((3, 257), 1, 9, "insertion"),
    ((40,), 0, 40, "insertion"),
    ((2, 300, 21), 1, 3, "interleaved"),
    ((3, 70, 5), 1, 7, "insertion"),
    ((2, 3000), 1, 2000, "radix"),
    ((1500, 2), 0, 1500, "radix"),
]
DTYPES = ("float32", "float64", "float16", "int8", "uint8", "int32", "uint32", "int64")


def _drawn(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray[Any, Any]:
    """Elements with many equal ones; of floats also zeros of both signs, infinities and NaN."""
    rng = np.random.default_rng(seed)
    info = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else None
    x = rng.integers(0 if dtype.startswith("u") else -50, 50, shape).astype(dtype)
    special = (
        (np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0) if info is None else (info.min, info.max)
    )
    x.reshape(-1)[rng.permutation(x.size)[: 3 * len(special)]] = np.tile(special, 3)
    return x


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("target", EVERYWHERE)
def test_the_first_of_each_row(
    case: tuple[tuple[int, ...], int, int, str], dtype: str, largest: bool, target: str
) -> None:
    shape, axis, k, method = case
    x = _drawn(shape, dtype, seed=k)

    def make() -> Graph:
        g = GraphBuilder(x=x)
        op = nn.TopkOp.make([g.inputs["x"]], k=k, axis=axis, largest=largest)
        g.block.add_op(op)
        return g.graph(op.values, op.indices)

    model = build(make, target)
    if ELEMENTS["f32"].bits == 8 * x.itemsize and target == EVERYWHERE[0]:
        assert f"#tile.sorting<{method}" in model.as_text("tile")
    values, places = model.run(None, {"x": x})
    # a stable sort of ranks, in which NaN is the greatest and zeros are equal
    ranks = np.unique(x, return_inverse=True)[1].reshape(shape)
    order = np.argsort(-ranks if largest else ranks, axis=axis, kind="stable")
    expected = np.take(order, range(k), axis)
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, axis))
