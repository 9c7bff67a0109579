"""Keys and values that queries of causal attention do not see, and that are not finite.

The promise is that of docs/nn-ops.md: hidden keys count for nothing. A hidden value that is not
finite leaves the element of its column as it would be without it, or makes it NaN.
"""

from __future__ import annotations

import numpy as np
import pytest

from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tests.kernels.test_attention import by_keys
from tests.native import RUNNABLE, Array, GraphBuilder, build, normal

__all__ = ["by_keys"]

PAST, DEPTH, COLUMN = 5, 8, 3
SIZES = (64, 256, 1024)
VALUES = (np.nan, np.inf, -np.inf)


def run(q: Array, k: Array, v: Array, *mask: Array, target: str) -> Array:
    inputs = {"q": q, "k": k, "v": v, **({"mask": mask[0]} if mask else {})}

    def make() -> Graph:
        g = GraphBuilder(**inputs)
        settings = {"transposed_k": False, "causal": True, "past": PAST, "nan_as_zero": False}
        attention = g.op(nn.AttentionOp, list(g.inputs.values()), scale=0.3, **settings)
        return g.graph(attention)

    (found,) = build(make, target).run(None, inputs)
    return found


def each_row(q: Array, k: Array, v: Array, mask: Array) -> Array:
    """The rows of queries, each with the keys that it sees alone."""
    rows: list[Array] = []
    for m, row in enumerate(q):
        seen = slice(0, m + PAST + 1)
        scores = k[seen].astype(np.float64) @ row * 0.3 + mask[m, seen]
        e = np.exp(scores - scores.max())
        rows.append(e / e.sum() @ v[seen])
    return np.array(rows)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("target", RUNNABLE)
@np.errstate(all="ignore")
def test_hidden_keys_count_for_nothing(size: int, value: float, target: str) -> None:
    """Whatever they are, and the mask is where they are hidden."""
    q, k, v = normal(size, DEPTH, seed=0), normal(size, DEPTH, seed=1), normal(size, 6, seed=2)
    mask = normal(size, size)
    wanted = each_row(q, k, v, mask)
    k[-20:] = value
    mask[np.triu_indices(size, PAST + 1)] = value
    found = run(q, k, v, mask, target=target)
    finite = size - 20 - PAST
    np.testing.assert_allclose(found[:finite], wanted[:finite], rtol=1e-4, atol=1e-5)
    assert np.isnan(found[finite:]).all()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("target", RUNNABLE)
def test_hidden_values_stay_in_their_column(size: int, value: float, target: str) -> None:
    check_values(size, value, target)


@pytest.mark.parametrize("value", VALUES)
def test_hidden_values_in_blocks_of_keys(value: float, by_keys: None) -> None:
    check_values(1024, value, RUNNABLE[-1])


@np.errstate(all="ignore")
def check_values(size: int, value: float, target: str) -> None:
    q, k, v = normal(size, DEPTH, seed=0), normal(size, DEPTH, seed=1), normal(size, 6, seed=2)
    finite = each_row(q, k, v, np.zeros((size, size)))
    row = size // 2
    v[row, COLUMN] = value
    wanted = each_row(q, k, v, np.zeros((size, size)))
    found = run(q, k, v, target=target)
    sees = row - PAST
    hidden = found[:sees, COLUMN]
    assert (np.isnan(hidden) | np.isclose(hidden, finite[:sees, COLUMN], 1e-4, 1e-5)).all()
    found[:sees, COLUMN] = finite[:sees, COLUMN]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
