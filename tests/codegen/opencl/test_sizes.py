"""Programs with symbolic sizes on an OpenCL device, against NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import f32

from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.interpret import interpret
from tessella.dialects.nn.core import tensor
from tessella.dialects.sizes import declare_symbols
from tessella.driver.compile import compile_source
from tessella.runtime.device_steps import CopyStep, DeviceStep
from tessella.runtime.devices import Source
from tessella.runtime.opencl import OPENCL
from tessella.support.errors import ResourceError
from tessella.support.sizes import MOST, Size, Symbol, symbols_of
from tests.native import GraphBuilder, in_numpy, normal
from tests.open import OpenSource

PLACES = ["opencl/f32", "host"]
WIDTH = 6


def network(sizes: Mapping[str, Size]) -> Graph:
    """Scores of rows against each other, their softmax, products, sums along open dimensions, and
    moved rows."""
    n, m = (sizes.get(name, Symbol(name, 0, MOST).size) for name in ("n", "m"))
    g = GraphBuilder(x=tensor(f32, (n, WIDTH)), y=tensor(f32, (m, WIDTH)))
    x, y = g.inputs.values()
    weight = g.weight(normal(WIDTH, WIDTH))
    keys = g.op(nn.TanhOp, [g.op(nn.MatmulOp, [y, weight], transpose_b=False)])
    scores = g.op(nn.MatmulOp, [x, keys], transpose_b=True)
    shares = g.op(nn.SoftmaxOp, [scores], axis=1)
    mixed = g.op(nn.MatmulOp, [shares, y], transpose_b=False)
    mean = g.op(nn.ReduceMeanOp, [mixed], axes=(0,), keepdims=False)
    largest = g.op(nn.ReduceMaxOp, [scores], axes=(0, 1), keepdims=False)
    rows = g.op(nn.ConcatOp, [y, mixed], axis=0)
    turned = g.op(nn.TransposeOp, [rows], perm=(1, 0))
    graph = g.graph(mixed, mean, largest, turned)
    symbols = symbols_of(size for size in (n, m))
    declare_symbols(graph.module, sorted(symbols))
    return graph


@pytest.mark.skipif(not OPENCL.is_present(), reason="there is no OpenCL device")
@pytest.mark.parametrize(
    "is_local",
    [
        pytest.param(False, id="in place"),
        pytest.param(True, id="local memory", marks=pytest.mark.slow),
    ],
)
def test_one_kernel_serves_all_sizes(is_local: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = replace(OPENCL.facts, has_local_memory=is_local)
    monkeypatch.setitem(OPENCL.__dict__, "_found", facts)
    model = compile_source(OpenSource(network), places=PLACES, dims={})
    made: set[Source] = set()
    for n, m in ((17, 16), (300, 33), (64, 1025), (16, 16)):
        x, y = normal(n, WIDTH), normal(m, WIDTH, seed=1)
        wanted = interpret(network({"n": n, "m": m}), {"x": x, "y": y})
        for a, b in zip(model.run(None, {"x": x, "y": y}), wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        steps = in_numpy(model)
        assert all(isinstance(step, CopyStep | DeviceStep) for step in steps)
        [segment] = [step for step in steps if isinstance(step, DeviceStep)]
        made |= {*segment.kernels.values()}
        assert made == {*segment.kernels.values()}
    assert any(source.sizes for source in made)


@pytest.mark.skipif(not OPENCL.is_present(), reason="there is no OpenCL device")
def test_sizes_without_range() -> None:
    """A dimension of size 0 or 1 gets a specialised program, which keeps the other one symbolic."""

    def sums(sizes: Mapping[str, Size]) -> Graph:
        n = sizes.get("n", Symbol("n", 0, MOST).size)
        g = GraphBuilder(x=tensor(f32, (n, WIDTH)))
        x = g.inputs["x"]
        total = g.op(nn.ReduceSumOp, [x], axes=(0,), keepdims=False)
        graph = g.graph(total, g.op(nn.ExpOp, [x]))
        declare_symbols(graph.module, sorted(symbols_of([n])))
        return graph

    model = compile_source(OpenSource(sums), places=PLACES, dims={})
    for n in (0, 1, 15):
        x = normal(n, WIDTH)
        wanted = interpret(sums({"n": n}), {"x": x})
        for a, b in zip(model.run(None, {"x": x}), wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_a_size_that_does_not_fit() -> None:
    n = Symbol("n", 2, MOST).size
    source = Source("k", sizes=(64 * n,), groups=(n,))
    assert source.launch({"n": 3}) == ((3,), (192,))
    with pytest.raises(ResourceError, match="too large for a device") as caught:
        source.launch({"n": 1 << 25})
    assert caught.value.found == f"64 * n = {1 << 31}"


def rows_and_sums(sizes: Mapping[str, Size]) -> Graph:
    """A layer on rows, the sums of its columns, and its rows after others."""
    n = sizes.get("n", Symbol("n", 0, MOST).size)
    g = GraphBuilder(x=tensor(f32, (n, WIDTH)), y=tensor(f32, (3, WIDTH)), b=tensor(f32, (WIDTH,)))
    weight = g.weight(normal(WIDTH, WIDTH))
    product = g.op(nn.MatmulOp, [g.inputs["x"], weight], transpose_b=False)
    layer = g.op(nn.TanhOp, [g.op(nn.AddOp, [product, g.inputs["b"]])])
    sums = g.op(nn.ReduceSumOp, [layer], axes=(0,), keepdims=False)
    graph = g.graph(layer, sums, g.op(nn.ConcatOp, [g.inputs["y"], layer], axis=0))
    declare_symbols(graph.module, sorted(symbols_of([n])))
    return graph


@pytest.mark.skipif(not OPENCL.is_present(), reason="there is no OpenCL device")
def test_no_kernel_runs_without_elements() -> None:
    model = compile_source(OpenSource(rows_and_sums), places=PLACES, dims={})
    for n in (0, 5):
        feeds = {"x": normal(n, WIDTH), "y": normal(3, WIDTH, seed=1), "b": normal(WIDTH, seed=2)}
        wanted = interpret(rows_and_sums({"n": n}), feeds)
        for found, array in zip(model.run(None, feeds), wanted, strict=True):
            np.testing.assert_allclose(found, array, rtol=1e-5, atol=1e-6)
        assert all(isinstance(step, CopyStep | DeviceStep) for step in in_numpy(model))
        assert bool(in_numpy(model)) == (n > 0)
