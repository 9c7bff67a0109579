"""Positions that ops count are what NumPy's kernels compute."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.interpret import interpret
from tessella.dialects.nn.constants import SplatOp
from tessella.dialects.nn.core import NnOp, shape_of
from tessella.dialects.nn.positions import Positions, positions_of
from tessella.dialects.nn.traits import CountsPositions
from tessella.runtime.weights import WeightStore
from tessella.support.decisions import known_all
from tests.native import Array
from tests.passes.harness import GraphBuilder

Make = Callable[[GraphBuilder], SSAValue]


def _iota(g: GraphBuilder, count: int = 5) -> SSAValue:
    return g.op(nn.IotaOp, [], count=count)


def _column(g: GraphBuilder) -> SSAValue:
    return g.op(nn.ReshapeOp, [_iota(g, 3)], shape=(3, 1))


def _table(g: GraphBuilder) -> SSAValue:
    """5 * row + column."""
    rows = g.op(nn.ExpandOp, [_column(g)], shape=(3, 5))
    for _ in range(4):
        rows = g.op(nn.AddOp, [rows, _column(g)])
    return g.op(nn.AddOp, [rows, _iota(g)])


COUNTED: dict[type[NnOp], Make] = {
    nn.IotaOp: _iota,
    nn.SizesOp: lambda g: g.op(nn.SizesOp, [], values=(7,)),
    nn.AddOp: _table,
    nn.SubOp: lambda g: g.op(nn.SubOp, [_column(g), _iota(g)]),
    nn.NegOp: lambda g: g.op(nn.NegOp, [_table(g)]),
    nn.ReshapeOp: lambda g: g.op(nn.ReshapeOp, [_table(g)], shape=(3, 1, 5)),
    nn.ExpandOp: lambda g: g.op(nn.ExpandOp, [_table(g)], shape=(2, 3, 5)),
    nn.TransposeOp: lambda g: g.op(nn.TransposeOp, [_table(g)], perm=(1, 0)),
    nn.SliceOp: lambda g: g.op(nn.SliceOp, [_table(g)], starts=(2, 1), sizes=(2, 2), steps=(-1, 2)),
}
"""For each op that counts, a value that it makes."""


def _numbers(found: Positions, shape: tuple[int, ...]) -> Array:
    index = np.indices(shape)
    terms = [k * index[len(shape) + d] for d, k in found.factors.items()]
    return np.asarray(sum(terms, np.full(shape, found.constant, np.int64)))


def test_all_ops_that_count_are_here() -> None:
    ops = (op for op in nn.Nn.operations if issubclass(op, NnOp))
    assert {op for op in ops if op.has_trait(CountsPositions)} == {*COUNTED}


@pytest.mark.parametrize("op", COUNTED, ids=lambda op: op.name)
def test_they_count_what_the_kernel_computes(op: type[NnOp]) -> None:
    g = GraphBuilder()
    value = COUNTED[op](g)
    assert isinstance(value.owner, op)
    found = positions_of(value, WeightStore())
    assert found is not None
    (wanted,) = interpret(g.graph(value), {})
    np.testing.assert_array_equal(_numbers(found, known_all(shape_of(value))), wanted)


def test_a_reshape_that_splits_what_counts_does_not() -> None:
    g = GraphBuilder()
    value = g.op(nn.ReshapeOp, [_iota(g, 6)], shape=(2, 3))
    assert positions_of(value, WeightStore()) is None


@pytest.mark.parametrize(
    "op, first, known",
    [
        *(
            (nn.LessOp, -3, True),
            (nn.LessOp, -2, None),
            (nn.LessOp, 3, None),
            (nn.LessOp, 4, False),
        ),
        *((nn.LessEqualOp, -2, True), (nn.LessEqualOp, 4, None), (nn.LessEqualOp, 5, False)),
        *((nn.GreaterOp, 5, True), (nn.GreaterOp, 4, None), (nn.GreaterOp, -2, False)),
        *((nn.GreaterEqualOp, 4, True), (nn.GreaterEqualOp, 3, None)),
        *((nn.EqualOp, 0, None), (nn.EqualOp, 9, None)),
    ],
    ids=lambda x: getattr(x, "name", str(x)),
)
def test_comparisons_that_are_the_same_everywhere(
    op: type[NnOp], first: int, known: bool | None
) -> None:
    """Compare 3 positions from ``first`` on with 5 from 0 on."""
    g = GraphBuilder()
    rows = g.op(nn.AddOp, [_column(g), g.op(nn.SizesOp, [], values=(first,))])
    made = g.op(op, [rows, _iota(g)]).owner
    assert isinstance(made, NnOp)
    (wanted,) = interpret(g.graph(made.results[0]), {})
    found = made.simplified()
    if known is None:
        assert found is None
        return
    assert isinstance(found, list)
    splat = found[-1]
    assert isinstance(splat, SplatOp)
    assert splat.number is known
    assert (wanted == known).all()
