"""Tree ensembles as native code, against the NumPy kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tessella.dialects import nn
from tessella.runtime.host import run
from tests.native import EVERYWHERE, check_op

Array = npt.NDArray[Any]

OP = nn.TreeEnsembleOp


def drawn(
    trees: int, nodes: int, width: int, targets: int, dtype: str, links: str, seed: int = 0
) -> tuple[list[Array], dict[str, Any]]:
    """Nodes that lead anywhere, with some numbers out of range, and thresholds that are NaN or
    infinite."""
    rng = np.random.default_rng(seed)
    bits = max(1, (width - 1).bit_length())
    thresholds = rng.standard_normal(nodes).astype(dtype)
    thresholds[rng.random(nodes) < 0.1] = np.nan
    thresholds[rng.random(nodes) < 0.05] = -np.inf
    first = rng.integers(0, nodes, nodes)
    first[rng.random(nodes) < 0.05] = (1 << 31 - bits) - 1
    first[0] = (1 << 32 - bits) - 1
    link = first << bits | rng.integers(0, 1 << bits, nodes)
    link = link.astype(np.uint32).view(np.int32) if links == "int32" else link
    values = rng.standard_normal((nodes, targets)).astype(dtype)
    return [thresholds, link, values], {"trees": trees, "bits": bits}


def rows(count: int, width: int, dtype: str) -> Array:
    x = np.random.default_rng(count).standard_normal((count, width)).astype(dtype)
    x[np.random.default_rng(1).random(x.shape) < 0.1] = np.nan
    return x


@pytest.mark.parametrize("target", EVERYWHERE)
@pytest.mark.parametrize("aggregate", ["sum", "min", "max"])
@pytest.mark.parametrize("links", ["int32", "int64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "count, trees, targets", [(1, 1, 1), (1, 37, 1), (33, 5, 3), (7, 9, 1), (300, 3, 9)]
)
def test_as_numpy(
    count: int, trees: int, targets: int, dtype: str, links: str, aggregate: str, target: str
) -> None:
    arrays, settings = drawn(trees, 61, 5, targets, dtype, links)
    settings |= {"levels": 4, "aggregate": aggregate}
    check_op(OP, [rows(count, 5, dtype), *arrays], constants=(1, 2, 3), target=target, **settings)


@pytest.mark.parametrize("levels", [0, 64, 65, 150])
def test_deep_trees(levels: int) -> None:
    """A chain of nodes, each with a leaf."""
    count = 2 * levels + 3
    thresholds = np.full(count, np.nan, np.float32)
    link = np.arange(count) << 1
    node = 0
    for i in range(levels):
        thresholds[node], link[node] = i, (1 + 2 * i) << 1
        node = 1 + 2 * i
    values = np.arange(count, dtype=np.float32)[:, None]
    x = np.arange(-1.5, levels + 2, 1.0, dtype=np.float32)[:, None]
    settings: dict[str, Any] = {"trees": 1, "levels": levels, "bits": 1, "aggregate": "sum"}
    operands = [x, thresholds, link, values]
    check_op(OP, operands, constants=(1, 2, 3), **settings)
    (found,) = run(OP.name, operands, settings)
    assert len(set(found[:, 0])) == levels + 1


@pytest.mark.parametrize("target", EVERYWHERE)
def test_no_number_of_a_node_is_checked(target: str) -> None:
    """It is brought into range instead, so that no call fails."""
    arrays, settings = drawn(8, 61, 5, 1, "float32", "int32")
    x = rows(9, 5, "float32")
    model = check_op(
        OP, [x, *arrays], constants=(1, 2, 3), target=target, levels=3, aggregate="sum", **settings
    )
    assert "rt.check" not in model.as_text("loops")
