"""The pick by cost of whole programs: no other costs less, and it takes little time."""

from __future__ import annotations

import cProfile
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessella import kernels
from tessella.dialects import nn
from tessella.dialects.graph import CompileContext, Graph, main_function
from tessella.dialects.layout import NCHW, NHWC, Layout
from tessella.dialects.nn.core import NnOp
from tessella.dialects.place import RelayoutOp, parse_place
from tessella.driver.build.pipeline import pipeline
from tessella.driver.compile import compile_source
from tessella.driver.options import Options, make_options
from tessella.kernels import registry
from tessella.kernels.cost import CALL, bytes_of, moving
from tessella.kernels.registry import Kernel, registered
from tessella.passes.insert_conversions import InsertConversionsPass
from tessella.passes.pick import kernel_cost, sized_cost
from tessella.passes.pick.by_cost import ProblemBuilder, pick_by_cost
from tessella.passes.pick.candidates import Candidate, Request, layouts_in_play
from tessella.passes.pick.dominated import without_dominated
from tessella.passes.pick.kernel_cost import Prices
from tessella.passes.pick.rivals import without_rivals
from tessella.passes.pick_kernels import PICK, PickKernelsPass
from tessella.passes.tile import cost, search
from tessella.support.collector import no_collection
from tests.models import FIXTURES, LIGHT_MODELS, load_model
from tests.native import FixedSource
from tests.passes.harness import GraphBuilder, ops, sample
from tests.passes.pick.programs import (
    MACHINE,
    NATIVE,
    POINTWISE,
    constant_cost,
    pick,
)
from tests.sampling import sampled, sized

PRICES = Prices(MACHINE)

# ** the whole function **


@st.composite
def programs(draw: st.DrawFn) -> Callable[[], Graph]:
    """Up to five ops on images, with kernels in one layout, in either, and in any."""
    kinds = draw(st.lists(st.sampled_from(sorted(_OPS)), min_size=1, max_size=5))
    sources = [draw(st.integers(0, i)) for i, _ in enumerate(kinds)]
    extra = [draw(st.integers(0, i)) for i, _ in enumerate(kinds)]
    size, channels = draw(st.sampled_from([7, 28])), draw(st.sampled_from([3, 16, 64]))

    def make() -> Graph:
        g = GraphBuilder(x=sample(0, 1, channels, size, size))
        values = [g.inputs["x"]]
        for kind, source, other in zip(kinds, sources, extra, strict=True):
            values.append(_OPS[kind](g, values[source], values[other]))
        return g.graph(*values[-2:])

    return make


_OPS: dict[str, Callable[[GraphBuilder, Any, Any], Any]] = {
    "relu": lambda g, x, _: g.op(nn.ReluOp, [x]),
    "add": lambda g, x, y: g.op(nn.AddOp, [x, y]),
    "conv": lambda g, x, _: g.op(
        nn.ConvOp,
        [x, g.weight(sample(1, x.type.get_shape()[1], x.type.get_shape()[1], 3, 3))],
        strides=(1, 1),
        pads=(1,) * 4,
        dilations=(1, 1),
        groups=1,
    ),
    "norm": lambda g, x, _: g.op(
        nn.LayerNormOp,
        [x, *(g.weight(sample(i, x.type.get_shape()[-1])) for i in (2, 3))],
        axis=len(x.type.get_shape()) - 1,
        epsilon=1e-5,
    ),
    "lrn": lambda g, x, _: g.op(nn.LrnOp, [x], size=3, alpha=0.1, beta=0.75, bias=1.0),
    "cumsum": lambda g, x, _: g.op(nn.CumsumOp, [x], axis=1, exclusive=False, reverse=False),
}


@settings(max_examples=sampled(25))
@given(make=programs())
def test_no_choice_of_kernels_costs_less(make: Callable[[], Graph]) -> None:
    kernels.load()
    graph = make()
    function = main_function(graph.module)
    options = candidates_of(graph)
    problem = ProblemBuilder(PRICES).build(function, options)
    chosen, solution = pick_by_cost(function, options, PRICES)
    assert solution.exact
    every = itertools.product(*(range(len(costs)) for costs in problem.costs))
    assert solution.cost == pytest.approx(min(map(problem.total, every)))
    # and the conversions that are then inserted cost what the problem says
    for op, candidate in chosen.items():
        op.pick(candidate.kernel.name, candidate.wants)
    InsertConversionsPass().apply(CompileContext(graph.weights), graph.module)
    graph.module.verify()


@settings(max_examples=sampled(10))
@given(make=programs())
def test_what_is_dominated_is_in_no_best_choice(make: Callable[[], Graph]) -> None:
    kernels.load()
    graph = make()
    function = main_function(graph.module)
    options = without_rivals(candidates_of(graph), PRICES, 1e9)
    builder = ProblemBuilder(PRICES)
    problem = builder.build(function, options)
    chosen, _ = pick_by_cost(function, without_dominated(options, PRICES), PRICES)
    choice = [0] * len(problem.costs)
    for op, candidate in chosen.items():
        choice[builder.nodes[op]] = options[op].index(candidate)
    _, best = pick_by_cost(function, options, PRICES)
    assert problem.total(choice) == pytest.approx(best.cost)


def test_direct_convolutions_in_another_layout_are_dominated_by_winograd() -> None:
    kernels.load()
    graph = convolutions()
    options = without_rivals(candidates_of(graph), PRICES, 1e9)
    [left] = [
        listed
        for op, listed in without_dominated(options, PRICES).items()
        if isinstance(op, nn.ConvOp)
    ]
    assert [candidate.kernel.name for candidate in left] == ["winograd4"]


def convolutions() -> Graph:
    g = GraphBuilder(x=sample(0, 1, 64, 56, 56))
    return g.graph(_OPS["conv"](g, g.inputs["x"], None))


def candidates_of(graph: Graph) -> dict[NnOp, list[Candidate]]:
    request = Request(list(map(parse_place, NATIVE)), MACHINE.arch)
    picked = [op for op in ops(graph) if not isinstance(op, nn.ConstantOp)]
    found = {op: request.candidates(op) for op in picked}
    layouts = layouts_in_play(found)
    return {op: entry.placed(op, layouts) for op, entry in found.items()}


def sigmoid_costs(producer: Layout, elsewhere: float) -> Sequence[Kernel]:
    """A relu in one layout, and a sigmoid in nchw or, ``elsewhere`` seconds faster, in nhwc."""
    long = 1.0
    return [
        Kernel("only", nn.ReluOp, "x86", (producer,), cost=constant_cost(long)),
        Kernel("here", nn.SigmoidOp, "x86", (NCHW,), cost=constant_cost(long)),
        Kernel("there", nn.SigmoidOp, "x86", (NHWC,), cost=constant_cost(long - elsewhere)),
    ]


def test_what_fusion_saves_counts_in_equal_places_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def make() -> Graph:
        g = GraphBuilder(x=sample(0, 1, 8, 16, 16))
        return g.graph(g.op(nn.SigmoidOp, [g.op(nn.ReluOp, [g.inputs["x"]])]))

    value = GraphBuilder(x=sample(0, 1, 8, 16, 16)).inputs["x"]
    start, end = parse_place("x86/f32/nchw"), parse_place("x86/f32/nhwc")
    moved = kernel_cost.step_seconds((RelayoutOp, end), value, start, MACHINE)
    saved = CALL + moving(bytes_of(value), bytes_of(value), MACHINE)
    kernels.load()
    for name in ("nn.relu", "nn.sigmoid"):
        monkeypatch.setitem(registry._KERNELS, name, [])
    # the sigmoid reads its operand and writes its result in another order than those around it
    for faster, winner in ((2 * moved + saved / 2, "here"), (2 * moved + 2 * saved, "there")):
        with registered(*sigmoid_costs(NCHW, faster)):
            _, sigmoid = pick(make(), "x86/f32")
            assert sigmoid.kernel == winner
    # in the order of the producer it saves as much, and two conversions cost the same
    with registered(*sigmoid_costs(NHWC, 0.0)):
        _, sigmoid = pick(make(), "x86/f32")
        assert sigmoid.kernel == "there"


def normalised(count: int = 6) -> Graph:
    """Convolutions of few channels between normalizations that read rows: channels-last, each needs
    two conversions, and half of its lanes are empty."""
    g = GraphBuilder(x=sample(0, 1, 8, 192, 192))
    value = g.inputs["x"]
    for i in range(count):
        w = g.weight(0.1 * sample(i, 8, 8, 1, 1), f"w{i}")
        value = g.op(nn.ConvOp, [value, w], **POINTWISE)
        scale, bias = g.weight(sample(i, 192), f"s{i}"), g.weight(sample(i + 1, 192), f"b{i}")
        value = g.op(nn.LayerNormOp, [value, scale, bias], axis=3, epsilon=1e-5)
    return g.graph(value)


def test_the_greedy_grade_costs_more_than_the_choice_for_the_whole() -> None:
    x = sample(0, 1, 8, 192, 192)
    models = {
        p: compile_source(FixedSource(normalised), options=Options(pick=p), threads=1)
        for p in ("grade", "cost")
    }
    modelled = {
        name: sum(e["estimate"] or 0 for e in model.explain().ops)
        + sum(c["estimate"] for c in model.explain().conversions)
        for name, model in models.items()
    }
    conversions = {name: len(model.explain().conversions) for name, model in models.items()}
    assert conversions == {"grade": 12, "cost": 0}
    assert modelled["grade"] > 1.5 * modelled["cost"]
    np.testing.assert_allclose(models["grade"](x), models["cost"](x), rtol=1e-3, atol=1e-3)


# ** time **

CALLS = 5_800_000
"""Calls of Python functions that a pick may make: those of a second alone on a core of a Zen 4,
which a UNet takes, whose group norms of 8 shapes are costed in two layouts, and whose convolutions
of 10 by three methods. Time is no measure here, as other tests run beside it."""

QUICK = ("shufflenet", "encoder_opset18")


@pytest.mark.parametrize("name", sized((*LIGHT_MODELS, *FIXTURES), QUICK))
def test_the_pick_of_a_model_is_fast_and_exact(name: str) -> None:
    from tessella.frontends.onnx import OnnxSource

    source = OnnxSource(load_model(name))
    graph = source.graph({i.name: tuple(map(int, i.shape)) for i in source.inputs})
    ctx = CompileContext(graph.weights)
    [(_, passes), *_] = pipeline(make_options(target="avx512"))  # whatever machine this is
    profile = cProfile.Profile()
    for step in passes:
        if isinstance(step, PickKernelsPass):
            sized_cost._ESTIMATES.clear()
            cost._COSTS.clear()
            search._CHOICES.clear()
            with no_collection():
                profile.runcall(step.apply, ctx, graph.module)
            break
        step.apply(ctx, graph.module)
    record = main_function(graph.module).attributes[PICK]
    assert "exact = true" in str(record)
    assert sum(entry.callcount for entry in profile.getstats()) < CALLS
