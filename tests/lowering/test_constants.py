"""Constants that become part of a kernel."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import f32, i64
from xdsl.ir import Attribute, SSAValue

from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.nn.core import NnOp, tensor
from tests.native import Array, GraphBuilder, check


def splat(g: GraphBuilder, number: float, element: Attribute, *shape: int) -> SSAValue:
    op = nn.SplatOp(number, tensor(element, shape))
    g.main.body.block.add_op(op)
    return op.res


def check_splat(kind: type[NnOp], x: Array, number: float, element: Attribute) -> None:
    """An op on an input and a splat: not one bit differs."""

    def make() -> Graph:
        g = GraphBuilder(x=x)
        return g.graph(g.op(kind, [g.inputs["x"], splat(g, number, element, x.shape[-1])]))

    check(make, {"x": x}, rtol=0, atol=0)


@pytest.mark.sweep
@pytest.mark.parametrize("number", [0.1, -0.0, 1e-45, 3.4e38, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("kind", [nn.AddOp, nn.MulOp, nn.MinOp])
def test_floats(kind: type[NnOp], number: float) -> None:
    x = np.array([[-1.5, 0.0, -0.0, np.nan, np.inf, 1e-45, 7.0]], np.float32)
    check_splat(kind, x, float(np.float32(number)), f32)


@pytest.mark.sweep
@pytest.mark.parametrize("number", [0, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("kind", [nn.AddOp, nn.MinOp, nn.MaxOp, nn.LessOp])
def test_integers(kind: type[NnOp], number: int) -> None:
    check_splat(kind, np.array([-(2**63), -5, 0, 1, 2**53 + 1, 2**63 - 1]), number, i64)


def test_splats_in_memory() -> None:
    """A product reads its operands from memory, and so does who gets a splat as a result."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)

    def make() -> Graph:
        g = GraphBuilder(x=x)
        returned = splat(g, -0.0, f32, 3)
        product = g.op(nn.MatmulOp, [g.inputs["x"], splat(g, 0.5, f32, 3, 4)], transpose_b=False)
        return g.graph(product, returned, g.inputs["x"])

    check(make, {"x": x}, rtol=0, atol=0)
