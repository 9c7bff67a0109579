"""Ops of f32 that run on bf16, where both are asked for: against NumPy on rounded operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tessella import targets
from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.driver.compile import compile_source
from tessella.driver.options import Options
from tessella.runtime.scan import Loop
from tests.native import EVERYWHERE, FixedSource, GraphBuilder, normal

Array = npt.NDArray[Any]

TARGETS = (*EVERYWHERE, "native")
"""The last one may have instructions that multiply bf16."""
SUMMING = 2.0**-23
"""The relative error of an addition in f32."""
WINDOW: dict[str, Any] = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1), "groups": 1}


def rounded(x: Array) -> Array:
    """The numbers as bf16, in float64."""
    return x.astype(ml_dtypes.bfloat16).astype(np.float64)


def run(make: Callable[[], Graph], inputs: dict[str, Array], target: str) -> Array:
    """Run a program after narrowing everything that may be narrowed."""
    arch = targets.resolve(target).arch
    source, places = FixedSource(make), [f"{arch}/bf16", f"{arch}/f32"]
    model = compile_source(
        source, target=target, places=places, options=Options(pick="grade"), fallback="error"
    )
    narrow = [op["storage"] for op in model.explain().ops]
    assert "bf16" in narrow or any("nn.scan" in op["op"] for op in model.explain().ops)
    [found] = model.run(None, inputs)
    assert found.dtype == np.float32
    return found


def check(found: Array, exact: Array, magnitude: Array, terms: int, rounding: float = 0.0) -> None:
    """Return whether these are sums of so many terms, of this magnitude, in f32: as the result of
    the program is f32, most kernels do not round it to bf16."""
    allowed = rounding * np.abs(exact) + terms * SUMMING * magnitude
    assert (np.abs(found - exact) <= allowed).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("m, k, n", [(5, 33, 17), (1, 200, 65), (37, 64, 48)])
def test_a_product(m: int, k: int, n: int, target: str) -> None:
    x, w, b = normal(m, k), normal(k, n, seed=1), normal(n, seed=2)

    def make() -> Graph:
        g = GraphBuilder(x=x)
        operands = [g.inputs["x"], g.weight(w), g.weight(b, "b")]
        return g.graph(g.op(nn.FcOp, operands, transpose_w=False))

    a, c = rounded(x), rounded(w)
    magnitude = np.abs(a) @ np.abs(c) + np.abs(b)
    check(run(make, {"x": x}, target), a @ c + rounded(b), magnitude, k + 1)


@pytest.mark.parametrize("target", TARGETS)
def test_a_product_of_variables(target: str) -> None:
    x, y = normal(2, 9, 40), normal(2, 40, 21, seed=1)

    def make() -> Graph:
        g = GraphBuilder(x=x, y=y)
        return g.graph(g.op(nn.MatmulOp, list(g.inputs.values()), transpose_b=False))

    a, b = rounded(x), rounded(y)
    check(run(make, {"x": x, "y": y}, target), a @ b, np.abs(a) @ np.abs(b), 40)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("channels, filters", [(3, 8), (16, 20)])
def test_a_convolution(channels: int, filters: int, target: str) -> None:
    x, w = normal(1, channels, 9, 11), normal(filters, channels, 3, 3, seed=1)

    def make() -> Graph:
        g = GraphBuilder(x=x)
        return g.graph(g.op(nn.ConvOp, [g.inputs["x"], g.weight(w)], **WINDOW))

    def convolved(x: Array, w: Array) -> Array:
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        return np.einsum("bchwij,ocij->bohw", windows, w)

    a, c = rounded(x), rounded(w)
    magnitude = convolved(np.abs(a), np.abs(c))
    check(run(make, {"x": x}, target), convolved(a, c), magnitude, 9 * channels)


@pytest.mark.parametrize("target", TARGETS)
def test_a_transposed_convolution(target: str) -> None:
    """The strides equal the filter's size, so windows do not overlap. The statements write parts of
    one tensor, in its element."""
    x, w = normal(1, 6, 4, 5), normal(6, 3, 2, 2, seed=1)
    settings = {**WINDOW, "strides": (2, 2), "pads": (0,) * 4, "output_pads": (0, 0)}

    def make() -> Graph:
        g = GraphBuilder(x=x)
        return g.graph(g.op(nn.ConvTransposeOp, [g.inputs["x"], g.weight(w)], **settings))

    def spread(x: Array, w: Array) -> Array:
        return np.einsum("bchw,coij->bohiwj", x, w).reshape(1, 3, 8, 10)

    a, c = rounded(x), rounded(w)
    found, magnitude = run(make, {"x": x}, target), spread(np.abs(a), np.abs(c))
    check(found, spread(a, c), magnitude, 6, rounding=2.0**-8)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("keys", [7, 80])
def test_attention(keys: int, target: str) -> None:
    """Scores and probabilities stay in f32."""
    q, k, v = normal(1, 2, 5, 16), normal(1, 2, keys, 16, seed=1), normal(1, 2, keys, 16, seed=2)

    def make() -> Graph:
        g = GraphBuilder(q=q, k=k, v=v)
        settings = {"scale": 0.25, **nn.AttentionOp.DEFAULTS}
        return g.graph(g.op(nn.AttentionOp, list(g.inputs.values()), **settings))

    a, b, c = rounded(q), rounded(k), rounded(v)
    scores = 0.25 * a @ b.swapaxes(-1, -2)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    magnitude = weights @ np.abs(c)
    # the products of the scores are summed before they are exponents
    found = run(make, {"q": q, "k": k, "v": v}, target)
    check(found, weights @ c, magnitude * 16, keys + 16)


@pytest.mark.parametrize("target", TARGETS)
def test_a_recurrence_keeps_its_state(target: str) -> None:
    """Its product runs on bf16; what is carried from step to step does not."""
    x, w = 0.1 * normal(6, 1, 8), 0.2 * normal(8, 8, seed=1)

    def make() -> Graph:
        g = GraphBuilder(h=np.zeros((1, 8), np.float32), x=x, w=w)

        def step(args: Any) -> Any:
            h, element, weight = args
            product = g.op(nn.MatmulOp, [h, weight], transpose_b=False)
            new = g.op(nn.TanhOp, [g.op(nn.AddOp, [product, element])])
            return [new, new]

        return g.graph(g.scan(list(g.inputs.values()), Loop(1, 1), step)[1])

    inputs = {"h": np.zeros((1, 8), np.float32), "x": x, "w": w}
    found = run(make, inputs, target)
    h, states = np.zeros((1, 8)), list[Array]()
    for element in x:
        h = np.tanh(rounded(rounded(h) @ rounded(w)) + element)
        states.append(h)
    np.testing.assert_allclose(found, np.stack(states), rtol=0, atol=1e-3)
    assert (found != found.astype(ml_dtypes.bfloat16).astype(np.float32)).any()


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_moved_in_a_group_is_of_one_element(target: str) -> None:
    """One operand is computed in the group, another is an argument of the group."""
    x, w, other = normal(5, 24), normal(24, 9, seed=1), normal(5, 9, seed=2)

    def make() -> Graph:
        g = GraphBuilder(x=x, other=other)
        product = g.op(nn.MatmulOp, [g.inputs["x"], g.weight(w)], transpose_b=False)
        positive = g.op(nn.LessOp, [product, g.inputs["other"]])
        chosen = g.op(nn.WhereOp, [positive, g.op(nn.AbsOp, [product]), g.inputs["other"]])
        return g.graph(chosen)

    arch = targets.resolve(target).arch
    model = compile_source(FixedSource(make), target=target, places=[f"{arch}/bf16"])
    [found] = model.run(None, {"x": x, "other": other})
    product, b = rounded(x) @ rounded(w), rounded(other)
    exact = np.where(product < b, np.abs(product), b)
    np.testing.assert_allclose(found, exact, rtol=2.0**-7, atol=1e-4)
