"""The kernels of an op: several at a place, several of the host, one that is not known."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr

from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.layout import BLOCKED, NCHW, NHWC
from tessella.dialects.nn.core import NnOp
from tessella.driver.build.buildable import check_buildable
from tessella.driver.compile import compile_source
from tessella.kernels import registry
from tessella.kernels.registry import Kernel, picked_kernel, registered
from tessella.runtime import host
from tessella.support.errors import (
    InternalError,
    InvalidModelError,
)
from tests.native import FixedSource, known_shape
from tests.passes.harness import GraphBuilder, sample
from tests.passes.pick.programs import (
    constant_cost,
    convolution,
    pick,
    sums,
)

pytestmark = pytest.mark.usefixtures("sums_in_numpy")

# ** the registry **


def test_a_name_is_registered_once() -> None:
    kernel = Kernel("twice", nn.ReluOp, "opencl", cost=constant_cost(1.0))
    other = replace(kernel, device="x86")
    with registered(kernel), pytest.raises(InternalError, match=r"nn\.relu has a kernel twice"):
        registry.register(other)
    with pytest.raises(InternalError, match=r"nn\.relu has a kernel host"):
        registry.register(replace(kernel, name="host"))
    with registered(kernel):  # it is gone after the block
        pass


def test_a_kernel_has_a_cost_or_a_lowering() -> None:
    with pytest.raises(InternalError, match="no cost"):
        Kernel("nothing", nn.ReluOp, "opencl")


@pytest.mark.parametrize("strategy, winner", [("cost", "fast"), ("grade", "slow")])
def test_several_kernels_at_one_place(strategy: str, winner: str) -> None:
    lower = registry.kernels_of(nn.ReluOp.make([sample_value()]))[0].lower
    slow = Kernel("slow", nn.ConvOp, "x86", (NCHW,), cost=constant_cost(2e-12), lower=lower)
    fast = Kernel("fast", nn.ConvOp, "x86", (NCHW,), cost=constant_cost(1e-12), lower=lower)
    with registered(slow, fast):
        _, conv, _ = pick(convolution(), "x86/f32/nchw", "x86", strategy=strategy)
        assert conv.kernel == (winner if strategy == "cost" else "conv")
        assert picked_kernel(conv).name == conv.kernel


def sample_value() -> Any:
    return GraphBuilder(x=sample(0, 2)).inputs["x"]


def test_a_kernel_runs_in_each_of_its_layouts() -> None:
    for layout in (NCHW, NHWC):
        _, conv, _ = pick(convolution(), f"x86/f32/{layout}")
        assert picked_kernel(conv).layouts == (NHWC, NCHW, BLOCKED)
        assert {place.layout for place in (conv.places or ())[::2]} == {layout}


# ** the kernels of the host **


def backwards(x: Any, *, axis: int, exclusive: bool, reverse: bool) -> Any:
    """A cumulative sum that is wrong: so one sees that it ran."""
    return -np.cumsum(x, axis, dtype=x.dtype)


@pytest.fixture
def second_sum(sums_in_numpy: None) -> Generator[None]:
    """A second NumPy kernel of `nn.cumsum`, which is the faster one for rows of 5."""

    def rows_of_five(op: NnOp) -> str | None:
        return None if op.operands[0].type == sums_type() else "it sums rows of 5"

    registry.host(nn.CumsumOp, "back", applies=rows_of_five, cost=constant_cost(1e-9))(backwards)
    try:
        yield
    finally:
        registry._KERNELS["nn.cumsum"] = [
            k for k in registry._KERNELS["nn.cumsum"] if k.name != "back"
        ]
        del host.KERNELS["nn.cumsum/back"]


def sums_type() -> Any:
    return next(iter(GraphBuilder(x=sample(0, 3, 5)).inputs.values())).type


def sums_of(width: int) -> Callable[[], Graph]:
    def make() -> Graph:
        g = GraphBuilder(x=sample(0, 3, width))
        sums = g.op(nn.CumsumOp, [g.inputs["x"]], axis=1, exclusive=False, reverse=False)
        return g.graph(sums)

    return make


@pytest.mark.usefixtures("second_sum")
@pytest.mark.parametrize("width, kernel, sign", [(5, "back", -1), (6, "host", 1)])
def test_the_host_runs_the_kernel_that_was_picked(width: int, kernel: str, sign: int) -> None:
    model = compile_source(FixedSource(sums_of(width)))
    (entry,) = model.explain().ops
    assert (entry["kernel"], entry["fallback"]) == (kernel, "host")
    x = sample(0, 3, width)
    np.testing.assert_allclose(model(x), sign * np.cumsum(x, 1), rtol=1e-6)


def by_width(at_16: float, at_1024: float) -> Callable[[Any, Any], float]:
    return lambda op, target: {16: at_16, 1024: at_1024}[known_shape(op.operands[0])[1]]


def test_two_kernels_of_the_host_serve_one_op_each_where_it_costs_less() -> None:
    fits = [("short", by_width(1e-9, 1.0)), ("long", by_width(1.0, 1e-9))]
    kernels_of_sums = [
        Kernel(name, nn.CumsumOp, "host", (NCHW,), cost=cost, function="nn.cumsum")
        for name, cost in fits
    ]
    settings = {"axis": 1, "exclusive": False, "reverse": False}

    def make() -> Graph:
        g = GraphBuilder(x=sample(0, 3, 16), y=sample(1, 3, 1024))
        return g.graph(*(g.op(nn.CumsumOp, [v], **settings) for v in g.inputs.values()))

    with registered(*kernels_of_sums):
        picked = {strategy: pick(make(), strategy=strategy) for strategy in ("cost", "grade")}
        model = compile_source(FixedSource(make))
        explained = [entry["kernel"] for entry in model.explain().ops]
        results = model(sample(0, 3, 16), sample(1, 3, 1024))
    assert [op.kernel for op in picked["cost"]] == explained == ["short", "long"]
    assert {op.kernel for op in picked["grade"]} == {"short"}  # the one registered first
    for result, x in zip(results, (sample(0, 3, 16), sample(1, 3, 1024)), strict=True):
        np.testing.assert_allclose(result, np.cumsum(x, 1), rtol=1e-4, atol=1e-4)


# ** the kernel on an op **


def test_an_unknown_kernel_is_an_error() -> None:
    graph = sums()
    for op in pick(graph):
        op.picked_kernel = StringAttr("fancy")
    with pytest.raises(InvalidModelError, match=r"nn\.relu.*unknown kernel fancy") as caught:
        check_buildable(graph.module, "x86")
    assert caught.value.expected == "one of relu, host"
    assert "pick-kernels" in str(caught.value.hint)
