"""Kernels of ops with symbolic sizes: of least regret over the ranges, whichever is the fastest at
usual sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import f32

import tessella
from tessella import kernels
from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.nn.core import NnOp, shape_of, tensor
from tessella.dialects.sizes import declare_symbols
from tessella.driver.explain.explain import explain
from tessella.kernels import registry
from tessella.kernels.registry import CPU, Kernel, registered
from tessella.passes.pick.usual import sampled_ops
from tessella.runtime.explanation import Explanation
from tessella.support.sizes import MOST, Size, Symbol, symbols_of
from tessella.targets import Target
from tests.passes.harness import GraphBuilder, ops, sample
from tests.passes.pick.programs import pick

N = Symbol("n", 16, MOST)
PADDED = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1), "groups": 1}


def rows(op: NnOp) -> int:
    size = shape_of(op.operands[0])[0]
    assert isinstance(size, int)
    return size


def sigmoid(size: Size) -> Graph:
    g = GraphBuilder(x=tensor(f32, (size, 4)))
    return declared(g.graph(g.op(nn.SigmoidOp, [g.inputs["x"]], node="s")), size)


def declared(graph: Graph, size: Size) -> Graph:
    declare_symbols(graph.module, sorted(symbols_of([size])))
    return graph


@pytest.fixture
def crossing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two kernels of a sigmoid: one takes 4 us for any number of rows, the other 1 us up to 128
    rows, and a hundred times that from there on."""
    kernels.load()
    lower = registry.kernels_of(next(iter(ops(sigmoid(4)))))[0].lower
    monkeypatch.setitem(registry._KERNELS, "nn.sigmoid", [])

    def kernel(name: str, seconds: Callable[[int], float]) -> Kernel:
        def cost(op: NnOp, target: Target) -> float:
            return seconds(rows(op))

        return Kernel(name, nn.SigmoidOp, CPU, lower=lower, cost=cost)

    two = (
        kernel("steady", lambda n: 4e-6),
        kernel("steep", lambda n: 1e-6 if n <= 128 else 1e-4),
    )
    with registered(*two):
        yield


@pytest.mark.usefixtures("crossing")
@pytest.mark.parametrize(
    "size, kernel",
    [
        (16, "steep"),
        (128, "steep"),
        (1024, "steady"),
        (N.size, "steady"),  # it is slower at 16 rows and at 128, where costs are estimated
        (Symbol("n", 16, 128).size, "steep"),
    ],
)
def test_the_kernel_of_least_regret_is_picked(size: Size, kernel: str) -> None:
    [op] = pick(sigmoid(size))
    assert op.kernel == kernel


@pytest.mark.usefixtures("crossing")
def test_an_explanation_says_where_it_is_slower() -> None:
    graph = sigmoid(N.size)
    pick(graph)
    found = explain({"placed": graph.module})
    [entry] = found.ops
    assert entry["estimate"] == pytest.approx(4e-6)
    [rejected] = [each for each in entry["rejected"] if each["kernel"] == "steep"]
    assert rejected["reason"] == "it takes 4.64 us, 0.642 us more"  # the mean of 1, 1 and 100
    assert [(r["sizes"], r["fastest"], r["regret"]) for r in found.regrets] == [
        ("n = 128", "steep at x86/f32/nchw", pytest.approx(4)),
        ("n = 16", "steep at x86/f32/nchw", pytest.approx(4)),
    ]
    lines = str(found).splitlines()
    at = lines.index("kernels of least regret that are slower than others for some sizes:")
    assert lines[at + 2].split()[:7] == ["nn.sigmoid", "s", "steady", "n", "=", "128", "4"]
    assert Explanation.from_json(found.json()).regrets == found.regrets
    for size in (16, Symbol("n", 16, 128).size):
        graph = sigmoid(size)
        pick(graph)
        assert explain({"placed": graph.module}).regrets == []


@pytest.mark.usefixtures("crossing")
def test_a_function_sees_the_mean() -> None:
    """It gives a price for the whole range."""
    seen: list[tessella.CandidateFacts] = []
    [op] = pick(sigmoid(N.size), function=lambda facts: seen.append(facts) or facts.seconds)
    assert op.kernel == "steady"
    times = {facts.kernel: facts.seconds for facts in seen}
    assert times == pytest.approx({"steady": 4e-6, "steep": 1e-6 * math.cbrt(100)})


SIGMOID = """<ir_version: 10, opset_import: ["" : 17]>
g (float[n, 4] x) => (float[n, 4] y) { y = Sigmoid(x) }"""


@pytest.mark.usefixtures("crossing")
def test_programs_of_a_model_have_it() -> None:
    """Each range has a kernel, and an explanation says if it is not the fastest everywhere."""
    model = tessella.compile(onnx.parser.parse_model(SIGMOID), dims={"n": (2, 2000)})
    for rows, kernel, is_slower in ((10, "steep", False), (200, "steady", True)):
        np.testing.assert_array_equal(model(np.zeros((rows, 4), np.float32)), 0.5)
        found = model.explain()
        assert [each["kernel"] for each in found.ops] == [kernel]
        assert ("n = 16" in str(found)) == is_slower


def convolution(size: Size) -> Graph:
    g = GraphBuilder(x=tensor(f32, (size, 256, 4, 4)))
    w = g.weight(sample(1, 256, 256, 3, 3))
    return declared(g.graph(g.op(nn.ConvOp, [g.inputs["x"], w], **PADDED, node="c")), size)


def test_methods_of_convolutions_cross() -> None:
    """The larger the tiles of Winograd's method, the more images make up for its weights."""
    images, fastest = Symbol("n", 2, 15), dict[str, str | None]()
    for size in images.samples:
        fastest[f"n = {size}"] = next(iter(pick(convolution(size)))).kernel
    assert len(set(fastest.values())) > 1
    graph = convolution(images.size)
    pick(graph)
    found = explain({"placed": graph.module}).regrets
    assert found
    for each in found:
        assert each["fastest"] == f"{fastest[each['sizes']]} at x86/f32/nhwc"
        assert each["regret"] < 2


def test_the_memory_of_the_last_sizes_excludes_no_method() -> None:
    """The tiles of many images are too large, but few calls have so many."""
    kernels_of = {size: next(iter(pick(convolution(size)))).kernel for size in (128, 1 << 13)}
    assert kernels_of == {128: "winograd4", 1 << 13: "conv"}
    assert next(iter(pick(convolution(N.size)))).kernel == "winograd4"


def test_the_memory_of_the_last_sizes_excludes_no_products_of_taps() -> None:
    size, settings = N.size, {**PADDED, "strides": (2, 2), "output_pads": (0, 0)}
    g = GraphBuilder(x=tensor(f32, (size, 64, 16, 16)))
    w = g.weight(sample(1, 64, 3, 4, 4))
    op = g.op(nn.ConvTransposeOp, [g.inputs["x"], w], **settings)
    (picked,) = pick(declared(g.graph(op), size))
    assert picked.kernel == "col2im"


# ** the sizes **


@pytest.mark.parametrize(
    "low, high, samples",
    [
        (2, 15, (8, 2, 15)),
        (16, MOST, (128, 16, 1024)),
        (16, 64, (40, 16, 64)),
        (0, 1, (1, 1, 1)),
        (1 << 12, (1 << 18) - 1, (1 << 12, 1 << 12, 1 << 15)),
    ],
)
def test_numbers_of_a_range(low: int, high: int, samples: tuple[int, ...]) -> None:
    assert Symbol("n", low, high).samples == samples


def test_ops_at_numbers_of_their_symbols() -> None:
    """All symbols are small together, or large; no tensor is empty."""
    m, n = Symbol("m", 2, 15), N
    g = GraphBuilder(x=tensor(f32, (m.size, n.size - 16)))
    op = g.op(nn.SigmoidOp, [g.inputs["x"]]).owner
    assert isinstance(op, NnOp)
    found = {where: shape_of(each.operands[0]) for where, each in sampled_ops(op).items()}
    assert found == {"m = 8, n = 128": (8, 112), "m = 15, n = 1024": (15, 1008)}
    assert list(sampled_ops(op, 1)) == ["m = 8, n = 128"]
