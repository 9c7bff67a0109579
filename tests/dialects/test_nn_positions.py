"""Positions that ops count are what NumPy's kernels compute."""

from __future__ import annotations

from collections.abc import Sequence

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
from tests.op_examples import EXAMPLES, Example
from tests.passes.harness import GraphBuilder


def _iota(g: GraphBuilder, count: int = 5) -> SSAValue:
    return g.op(nn.IotaOp, [], count=count)


def _column(g: GraphBuilder) -> SSAValue:
    return g.op(nn.ReshapeOp, [_iota(g, 3)], shape=(3, 1))


def _counting(g: GraphBuilder, shape: Sequence[int]) -> SSAValue:
    """7 + i0 + 3 * i1 + 5 * i2 ..: a value that counts its positions."""
    seven = g.op(nn.SizesOp, [], values=(7,))
    value = g.op(nn.ReshapeOp, [seven], shape=(1,) * len(shape))
    for d, n in enumerate(shape):
        places = [n if i == d else 1 for i in range(len(shape))]
        along = g.op(nn.ReshapeOp, [_iota(g, n)], shape=tuple(places))
        for _ in range(2 * d + 1):
            value = g.op(nn.AddOp, [value, along])
    return value


def _counted(g: GraphBuilder, example: Example) -> SSAValue:
    """The result of an op on operands that count positions."""
    operands = [_counting(g, x.shape) for x in example.operands]
    return g.op(example.op, operands, **example.settings)


def _numbers(found: Positions, shape: tuple[int, ...]) -> Array:
    index = np.indices(shape)
    terms = [k * index[len(shape) + d] for d, k in found.factors.items()]
    return np.asarray(sum(terms, np.full(shape, found.constant, np.int64)))


COUNTING = [op for op in EXAMPLES if op.has_trait(CountsPositions)]


@pytest.mark.parametrize("op", COUNTING, ids=lambda op: op.name)
def test_they_count_what_the_kernel_computes(op: type[NnOp]) -> None:
    counts = [_counts_what_the_kernel_computes(example) for example in EXAMPLES[op]]
    assert any(counts), f"no example of {op.name} in tests/op_examples.py counts positions"


def _counts_what_the_kernel_computes(example: Example) -> bool:
    """Return whether the result of an example counts positions; check the positions."""
    g = GraphBuilder()
    value = _counted(g, example)
    found = positions_of(value, WeightStore())
    if found is None:
        return False
    (wanted,) = interpret(g.graph(value), {})
    np.testing.assert_array_equal(_numbers(found, known_all(shape_of(value))), wanted)
    return True


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
