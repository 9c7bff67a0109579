"""Traits say what NumPy's kernels do."""

from __future__ import annotations

import pytest

from tessella.dialects.nn.core import NnOp
from tessella.dialects.nn.traits import MovesElements
from tests.native import GraphBuilder
from tests.op_examples import COMPUTING, Example

MOVES = {name: x for name, x in COMPUTING.items() if x.op.has_trait(MovesElements)}


@pytest.mark.parametrize("example", MOVES.values(), ids=MOVES)
def test_they_compute_nothing(example: Example) -> None:
    arrays = example.arrays()
    g = GraphBuilder(**{f"x{i}": array for i, array in enumerate(arrays)})
    made = g.op(example.op, list(g.inputs.values()), **example.settings).owner
    assert isinstance(made, NnOp)
    trait = made.get_trait(MovesElements)
    assert trait is not None
    moved = [x for i, x in enumerate(arrays) if i not in trait.indices]
    known = {float(v) for x in moved for v in x.reshape(-1)}
    (result,) = made.evaluate(*arrays)
    filled = {example.settings["value"]} if trait.fills else set()
    assert {float(v) for v in result.reshape(-1)} - known == filled
