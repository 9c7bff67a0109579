"""Traits say what NumPy's kernels do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tessella.dialects import nn
from tessella.dialects.nn.core import NnOp
from tessella.dialects.nn.traits import MovesElements
from tests.passes.harness import GraphBuilder

X = np.arange(1, 25, dtype=np.float32).reshape(2, 4, 3)
ROWS = np.array([1, 0, -1])
MOVES: list[tuple[type[NnOp], list[Any], dict[str, Any]]] = [
    (nn.ReshapeOp, [X], {"shape": (8, 3)}),
    (nn.TransposeOp, [X], {"perm": (2, 0, 1)}),
    (nn.ChannelShuffleOp, [X], {"groups": 2}),
    (nn.SliceOp, [X], {"starts": (0, 1, 2), "sizes": (2, 2, 1), "steps": (1, 2, -1)}),
    (nn.ExpandOp, [X], {"shape": (5, 2, 4, 3)}),
    (nn.TileOp, [X], {"repeats": (2, 1, 3)}),
    (nn.ConcatOp, [X, -X], {"axis": 1}),
    (nn.GatherOp, [X, ROWS], {"axis": 2}),
    (nn.GatherElementsOp, [X, np.zeros((2, 4, 1), np.int64)], {"axis": 2}),
    (nn.GatherNdOp, [X, ROWS[:, None]], {"batch_dims": 0}),
    (
        nn.PadOp,
        [X],
        {"low": (1, 0, 0), "high": (0, 1, 0), "mode": "constant", "value": 7.5},
    ),
]


def test_all_ops_that_move_elements_are_here() -> None:
    found = {op for op in nn.Nn.operations if issubclass(op, NnOp) and op.has_trait(MovesElements)}
    assert found == {op for op, _, _ in MOVES}


@pytest.mark.parametrize("op, arrays, settings", MOVES, ids=lambda x: getattr(x, "name", None))
def test_they_compute_nothing(
    op: Callable[..., Any], arrays: list[Any], settings: dict[str, Any]
) -> None:
    assert isinstance(op, type)
    g = GraphBuilder(**{f"x{i}": array for i, array in enumerate(arrays)})
    made = g.op(op, list(g.inputs.values()), **settings).owner
    assert isinstance(made, NnOp)
    trait = made.get_trait(MovesElements)
    assert trait is not None
    moved = [x for i, x in enumerate(arrays) if i not in trait.indices]
    known = {float(v) for x in moved for v in x.reshape(-1)}
    (result,) = made.evaluate(*arrays)
    assert {float(v) for v in result.reshape(-1)} - known == ({7.5} if trait.fills else set())
