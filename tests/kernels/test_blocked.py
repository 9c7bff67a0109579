"""Channels in blocks, and sums in blocks: a place asks for them, and native code runs at them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tessella import targets
from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.interpret import interpret
from tessella.dialects.layout import NCHW, Layout, Piece
from tessella.driver.compile import compile_source
from tessella.driver.model.model import Model
from tessella.kernels.linear import fc
from tessella.kernels.registry import CPU, Kernel, registered
from tests.native import RUNNABLE, Array, FixedSource, GraphBuilder

WINDOW = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1)}
POINT = {"strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1)}
DOTS = Layout("packed", (Piece(0, div=4), Piece(1), Piece(0, mod=4)))


def normal(*shape: int) -> Array:
    rng = np.random.default_rng(shape)
    return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def compiled(make: Any, target: str, layout: str) -> Model:
    arch = targets.get(target).arch
    return compile_source(FixedSource(make), places=[f"{arch}/f32/{layout}"], target=target)


def network(x: Array, first: int, second: int) -> Graph:
    """Convolutions, pools, maps with a residual and a broadcast, and what is row-major after."""
    g = GraphBuilder(x=x)
    weights = [
        normal(first, x.shape[1], 3, 3),
        normal(first),
        normal(second, first, 3, 3),
        normal(second, 1, 3, 3),
        normal(second, second, 1, 1),
        normal(1, second, 1, 1),
        normal(second, 10),
    ]
    w = [g.weight(weight, f"w{i}") for i, weight in enumerate(weights)]
    y = g.op(nn.ConvOp, [g.inputs["x"], w[0], w[1]], groups=1, **{**WINDOW, "strides": (2, 2)})
    y = g.op(nn.MaxPoolOp, [g.op(nn.ReluOp, [y])], kernel_shape=(3, 3), ceil_mode=False, **WINDOW)
    y = skip = g.op(nn.ReluOp, [g.op(nn.ConvOp, [y, w[2]], groups=1, **WINDOW)])
    y = g.op(nn.ConvOp, [y, w[3]], groups=second, **WINDOW)
    y = g.op(nn.AddOp, [g.op(nn.ConvOp, [y, w[4]], groups=1, **POINT), skip])
    y = g.op(nn.SigmoidOp, [g.op(nn.MulOp, [y, w[5]])])
    y = g.op(nn.ReduceMeanOp, [y], axes=(2, 3), keepdims=False)
    return g.graph(g.op(nn.MatmulOp, [y, w[6]], transpose_b=False))


@pytest.mark.parametrize("target", RUNNABLE[:2])
@pytest.mark.parametrize("layout, first, second", [("nchw16c", 32, 20), ("nchw8c", 12, 16)])
def test_a_network_runs_in_blocks(target: str, layout: str, first: int, second: int) -> None:
    x = normal(1, 3, 14, 15)
    model = compiled(lambda: network(x, first, second), target, layout)
    (wanted,) = interpret(network(x, first, second), {"x": x})
    np.testing.assert_allclose(model(x), wanted, rtol=1e-4, atol=1e-5)
    arch = targets.get(target).arch
    # what is after the last convolution and its maps gives vectors, which are row-major
    places = {str(op["place"]) for op in model.explain().ops[:-2]}
    assert places == {f"{arch}/f32/{layout}"}
    assert not {"host"} & {str(op["kernel"]) for op in model.explain().ops}


@pytest.mark.parametrize("target", RUNNABLE[:2])
@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_convolutions_in_blocks(target: str, data: st.DataObject) -> None:
    block, size = data.draw(st.sampled_from([4, 8, 16])), data.draw(st.integers(5, 20))
    groups = data.draw(st.sampled_from([1, 1, 2]))
    # the groups of a block that is not theirs alone are refused
    per_in, per_out = (
        data.draw(st.integers(1, 40) if groups == 1 else st.sampled_from([block, 2 * block]))
        for _ in range(2)
    )
    x, w = normal(2, groups * per_in, size, size + 1), normal(groups * per_out, per_in, 3, 3)

    def make() -> Graph:
        g = GraphBuilder(x=x)
        return g.graph(g.op(nn.ConvOp, [g.inputs["x"], g.weight(w)], groups=groups, **WINDOW))

    model = compiled(make, target, f"nchw{block}c")
    assert str(model.explain().ops[0]["place"]).endswith(f"/nchw{block}c")
    (wanted,) = interpret(make(), {"x": x})
    np.testing.assert_allclose(model(x), wanted, rtol=1e-4, atol=1e-4)


def test_what_a_kernel_cannot_read_is_said() -> None:
    """Channels of two groups in one block: another kernel runs, and a sentence says why."""
    x, w = normal(1, 18, 6, 6), normal(18, 6, 3, 3)

    def make() -> Graph:
        g = GraphBuilder(x=x)
        y = g.op(nn.ConvOp, [g.inputs["x"], g.weight(w)], groups=3, **WINDOW)
        return g.graph(g.op(nn.ReluOp, [y]))

    model = compiled(make, RUNNABLE[0], "nchw16c")
    explained = model.explain()
    assert explained.ops[0]["fallback"] == "layout"
    assert "6*g + c does not fall into digits of 16" in explained.why()
    (wanted,) = interpret(make(), {"x": x})
    np.testing.assert_allclose(model(x), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", RUNNABLE[:2])
@pytest.mark.parametrize("k", [32, 30])
def test_a_kernel_whose_weights_lie_in_fours(target: str, k: int) -> None:
    """`[k/4, n, 4]`, as dot products of bytes read them, at the place of an operand."""
    x, w, b = normal(5, k), normal(k, 24), normal(24)
    arch = targets.get(target).arch
    dots = Kernel(
        "fc_dots", nn.FcOp, CPU, (NCHW,), cost=lambda op, t: 0.0, lower=fc, operands={1: DOTS}
    )

    def make() -> Graph:
        g = GraphBuilder(x=x)
        return g.graph(
            g.op(nn.FcOp, [g.inputs["x"], g.weight(w), g.weight(b, "b")], transpose_w=False)
        )

    with registered(dots):
        model = compiled(make, target, "nchw")
        assert model.explain().ops[0]["kernel"] == "fc_dots"
        assert f"tensor<{k}x24xf32, #packed" in model.as_text("placed").replace(
            "#place.at<" + f"{arch}, f32, packed", "#packed"
        )
        np.testing.assert_allclose(model(x), x @ w + b, rtol=1e-4, atol=1e-5)
