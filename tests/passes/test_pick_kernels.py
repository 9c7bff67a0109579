"""The static pick on programs: candidates, costs, fallbacks, precisions, targets not at hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from time import perf_counter, thread_time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import get_all_dialects
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from tessella import kernels, targets
from tessella.dialects import nn
from tessella.dialects.graph import CompileContext, Graph, main_function
from tessella.dialects.layout import NCHW, NHWC
from tessella.dialects.nn.core import NnOp
from tessella.dialects.place import PlaceAttr, parse_place
from tessella.driver.compile import compile_source, make_options
from tessella.driver.pipeline import pipeline
from tessella.kernels import registry
from tessella.kernels.registry import Kernel, find, registered
from tessella.passes.insert_conversions import InsertConversionsPass
from tessella.passes.pick import kernel_cost
from tessella.passes.pick.by_cost import ProblemBuilder, pick_by_cost
from tessella.passes.pick.candidates import candidates, layouts_in_play, serving
from tessella.passes.pick_kernels import PICK, PickKernelsPass
from tessella.support.collector import no_collection
from tessella.support.errors import InternalError, OptionError, UnsupportedError
from tessella.tools.universe import TESSELLA
from tests.models import FIXTURES, LIGHT_MODELS, light_model, load_fixture
from tests.native import FixedSource
from tests.passes.harness import GraphBuilder, ops, sample

MACHINE = targets.get("avx512")
POINTWISE: dict[str, Any] = {
    "strides": (1, 1),
    "pads": (0,) * 4,
    "dilations": (1, 1),
    "groups": 1,
}
NATIVE = ("x86/f32/nhwc", "x86/f32", "x86", "host")


def constant_cost(seconds: float) -> Callable[[Any, Any], float]:
    return lambda op, target: seconds


def convolution(size: int = 8) -> Graph:
    g = GraphBuilder(x=sample(0, 1, 8, size, size))
    a = g.op(nn.ReluOp, [g.inputs["x"]])
    w = g.weight(sample(1, 8, 8, 1, 1))
    b = g.op(nn.ConvOp, [a, w], **POINTWISE)
    return g.graph(g.op(nn.ReluOp, [b]))


def pick(graph: Graph, *places: str, **options: str) -> list[NnOp]:
    """The picked ops, placed and verified."""
    ctx = CompileContext(graph.weights)
    PickKernelsPass(places=places or NATIVE, target="avx512", **options).apply(ctx, graph.module)
    graph.module.verify()
    InsertConversionsPass().apply(ctx, graph.module)
    graph.module.verify()
    return [op for op in ops(graph) if op.kernel is not None]


def reparsed(module: ModuleOp) -> ModuleOp:
    ctx = CompileContext()
    for name, load in TESSELLA.all_dialects.items():
        ctx.register_dialect(name, load)
    for name in ("builtin", "func"):
        ctx.register_dialect(name, get_all_dialects()[name])
    return Parser(ctx, str(module)).parse_module()


# ** the registry **


def test_a_name_is_registered_once_at_a_place() -> None:
    kernel = Kernel("twice", nn.ReluOp, parse_place("opencl/f32"), cost=constant_cost(1.0))
    with registered(kernel), pytest.raises(InternalError, match=r"twice at opencl/f32/any"):
        registry.register(kernel)
    with registered(kernel):  # it is gone after the block
        pass


def test_a_kernel_has_a_cost_or_a_lowering() -> None:
    with pytest.raises(InternalError, match="no cost"):
        Kernel("nothing", nn.ReluOp, parse_place("opencl/f32"))


@pytest.mark.parametrize("strategy, winner", [("cost", "fast"), ("grade", "slow")])
def test_several_kernels_at_one_place(strategy: str, winner: str) -> None:
    place = parse_place("x86/f32/nchw")
    lower = registry.kernels_of(nn.ReluOp.make([sample_value()]))[0].lower
    slow = Kernel("slow", nn.ConvOp, place, cost=constant_cost(2e-12), lower=lower)
    fast = Kernel("fast", nn.ConvOp, place, cost=constant_cost(1e-12), lower=lower)
    with registered(slow, fast):
        _, conv, _ = pick(convolution(), "x86/f32/nchw", "x86", strategy=strategy)
        assert conv.kernel == (winner if strategy == "cost" else "conv")
        found = find(conv)
        assert found is not None
        assert found.place.layout == NCHW


def sample_value() -> Any:
    return GraphBuilder(x=sample(0, 2)).inputs["x"]


def test_the_picked_kernel_is_found_by_its_place() -> None:
    for layout in (NCHW, NHWC):
        _, conv, _ = pick(convolution(), f"x86/f32/{layout}")
        kernel = find(conv)
        assert kernel is not None
        assert (kernel.name, kernel.layout) == ("conv", layout)


# ** targets that are not at hand **


def device(precision: str = "f32", **places: PlaceAttr) -> Kernel:
    place = parse_place(f"opencl/{precision}/image")
    own = {int(name.removeprefix("at")): value for name, value in places.items()}
    return Kernel("image", nn.ConvOp, place, cost=constant_cost(1e-7), places=own)


def test_a_kernel_of_a_missing_target_is_picked_and_printed() -> None:
    weights = parse_place("opencl/any/nchw")
    with registered(device(at1=weights)):
        graph = convolution()
        _, conv, relu = pick(graph, "opencl/f32/image", "x86", strategy="grade")
        assert conv.kernel == "image"
        wanted = ["opencl/f32/image", "opencl/f32/nchw", "opencl/f32/image"]
        assert list(map(str, conv.places or ())) == wanted
        assert (relu.kernel, relu.fallback) == ("relu", None)
        text = str(graph.module)
        assert "place.copy" in text
        assert str(reparsed(graph.module)) == text


def test_it_cannot_be_built() -> None:
    with registered(device()):
        source = FixedSource(convolution)
        with pytest.raises(UnsupportedError, match="can be picked, but not built") as caught:
            compile_source(source, places=["opencl/f32/image", "x86"], pick="grade")
        assert {issue.op for issue in caught.value.issues} >= {"nn.conv", "place.copy"}
        assert compile_source(source, places=["x86"]) is not None


def test_kernels_of_another_cpu_cannot_be_built() -> None:
    arch = targets.host().arch
    other = "arm" if arch == "x86" else "x86"
    with pytest.raises(UnsupportedError, match=f"building for {arch}"):
        compile_source(FixedSource(convolution), places=[other])


def test_costs_decide_whether_the_device_is_worth_the_copies() -> None:
    far = Kernel("far", nn.ConvOp, parse_place("opencl/f32"), cost=constant_cost(0.0))
    with registered(far):
        _, small, _ = pick(convolution(8), "opencl", "x86")
        assert small.kernel == "conv"
    alone = Kernel("far", nn.ReluOp, parse_place("opencl/f32"), cost=constant_cost(0.0))
    with registered(far, alone):
        assert {op.kernel for op in pick(convolution(8), "opencl")} == {"far"}


# ** precision **


def test_a_precision_changes_only_where_a_place_names_it() -> None:
    with registered(device("f16")):
        _, conv, _ = pick(convolution(), "opencl/any/image", "opencl/f32/image", "x86")
        assert conv.kernel == "conv"
        graph = convolution()
        device_first = ("opencl/f16/image", "opencl/f16/nchw", "x86/f32")
        _, conv, _ = pick(graph, *device_first, strategy="grade")
        assert [str(p) for p in conv.places or ()] == ["opencl/f16/image"] * 3
        # in sight: the operand, and the result; the weight is rounded when it is compiled
        assert str(graph.module).count("place.cast") == 2
        (weight,) = (w for w in graph.weights if ".f16" in w)
        array = graph.weights[weight]
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, array.astype(np.float16).astype(np.float32))


def test_integers_keep_their_precision() -> None:
    place = parse_place("opencl/f16/nchw")
    kernel = Kernel("gather16", nn.GatherOp, place, cost=constant_cost(1e-9))
    g = GraphBuilder(x=sample(0, 4, 8), i=np.array([0, 2]))
    graph = g.graph(g.op(nn.GatherOp, [g.inputs["x"], g.inputs["i"]], axis=0))
    with registered(kernel):
        (op,) = pick(graph, "opencl/f16")
    assert list(map(str, op.places or ())) == [
        "opencl/f16/nchw",
        "opencl/i64/nchw",
        "opencl/f16/nchw",
    ]


def test_an_operand_at_any_place_is_left_alone() -> None:
    """As phi's ``InputAt(i).SetBackend(ALL_BACKEND)``: what the host computes stays there."""
    anywhere = PlaceAttr.get("any", "any")
    kernel = Kernel(
        "lookup",
        nn.GatherOp,
        parse_place("opencl/f32/nchw"),
        cost=constant_cost(1e-9),
        places={1: anywhere},
    )
    g = GraphBuilder(x=sample(0, 4, 8), i=np.array([0, 2]))
    indices = g.op(nn.CumsumOp, [g.inputs["i"]], axis=0, exclusive=False, reverse=False)
    graph = g.graph(g.op(nn.GatherOp, [g.inputs["x"], indices], axis=0))
    with registered(kernel):
        _, op = pick(graph, "opencl")
    wanted = ["opencl/f32/nchw", "host/i64/nchw", "opencl/f32/nchw"]
    assert list(map(str, op.places or ())) == wanted


# ** fallbacks **


def sums() -> Graph:
    g = GraphBuilder(x=sample(0, 3, 5))
    a = g.op(nn.ReluOp, [g.inputs["x"]])
    return g.graph(g.op(nn.CumsumOp, [a], axis=1, exclusive=False, reverse=False))


@pytest.mark.parametrize("strategy", ["cost", "grade"])
@pytest.mark.parametrize("places", [NATIVE, ("x86/f32",), ("x86/f32", "host")])
def test_the_host_is_the_last_resort(strategy: str, places: tuple[str, ...]) -> None:
    relu, cumsum = pick(sums(), *places, strategy=strategy)
    assert (relu.kernel, relu.fallback) == ("relu", None)
    assert (cumsum.kernel, cumsum.fallback) == ("host", "host")


@pytest.mark.parametrize("strategy", ["cost", "grade"])
def test_the_host_asked_for_first_is_no_fallback(strategy: str) -> None:
    for places in (("host",), ("host", "x86")):
        _, cumsum = pick(sums(), *places, strategy=strategy, fallback="error")
        assert (cumsum.kernel, cumsum.fallback) == ("host", None)


def test_fallbacks_are_refused_with_every_reason() -> None:
    def limits(op: NnOp) -> str | None:
        return "it sums no negative numbers"

    place = parse_place("x86/f32/nchw")
    kernel = Kernel("cumsum", nn.CumsumOp, place, limits, cost=constant_cost(0.0))
    with registered(kernel), pytest.raises(UnsupportedError) as caught:
        compile_source(FixedSource(sums), fallback="error")
    (issue,) = caught.value.issues
    assert issue.reason.split("; ") == [
        "cumsum at x86/f32/nchw: it sums no negative numbers",
        "host at host/f32/nchw: a fallback (host), and those are refused",
    ]
    assert compile_source(FixedSource(sums)).explain().ops[1]["fallback"] == "host"


def test_options_are_checked() -> None:
    with pytest.raises(OptionError, match="no pick 'best'"):
        make_options(pick="best")
    with pytest.raises(OptionError, match="no fallback 'never'"):
        make_options(fallback="never")


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
        nn.InstanceNormOp,
        [x, *(g.weight(sample(i, x.type.get_shape()[1])) for i in (2, 3))],
        epsilon=1e-5,
    ),
    "lrn": lambda g, x, _: g.op(nn.LrnOp, [x], size=3, alpha=0.1, beta=0.75, bias=1.0),
    "cumsum": lambda g, x, _: g.op(nn.CumsumOp, [x], axis=1, exclusive=False, reverse=False),
}


@settings(max_examples=25)
@given(make=programs())
def test_no_choice_of_kernels_costs_less(make: Callable[[], Graph]) -> None:
    kernels.load()
    graph = make()
    function = main_function(graph.module)
    places = list(map(parse_place, NATIVE))
    picked = [op for op in ops(graph) if not isinstance(op, nn.ConstantOp)]
    served = {op: serving(op, places) for op in picked}
    layouts = layouts_in_play(served)
    options = {op: candidates(op, entry, layouts) for op, entry in served.items()}
    problem = ProblemBuilder(MACHINE).build(function, options)
    chosen, solution = pick_by_cost(function, options, MACHINE)
    assert solution.exact
    every = itertools.product(*(range(len(costs)) for costs in problem.costs))
    assert solution.cost == pytest.approx(min(map(problem.total, every)))
    # and the conversions that are then inserted cost what the problem says
    for op, candidate in chosen.items():
        op.pick(candidate.kernel.name, candidate.wants)
    InsertConversionsPass().apply(CompileContext(graph.weights), graph.module)
    graph.module.verify()


def normalised(count: int = 6) -> Graph:
    """Convolutions of few channels between normalizations that read rows: channels-last, each needs
    two conversions, and half of its lanes are empty."""
    g = GraphBuilder(x=sample(0, 1, 8, 192, 192))
    value = g.inputs["x"]
    for i in range(count):
        w = g.weight(0.1 * sample(i, 8, 8, 1, 1), f"w{i}")
        value = g.op(nn.ConvOp, [value, w], **POINTWISE)
        scale, bias = g.weight(sample(i, 8), f"s{i}"), g.weight(sample(i + 1, 8), f"b{i}")
        value = g.op(nn.InstanceNormOp, [value, scale, bias], epsilon=1e-5)
    return g.graph(value)


def test_the_greedy_grade_is_slower_than_the_choice_for_the_whole() -> None:
    x = sample(0, 1, 8, 192, 192)
    models = {p: compile_source(FixedSource(normalised), pick=p) for p in ("grade", "cost")}
    seconds: dict[str, float] = dict.fromkeys(models, float("inf"))
    for _ in range(15):
        for name, model in models.items():
            start = perf_counter()
            model(x)
            seconds[name] = min(seconds[name], perf_counter() - start)
    modelled = {
        name: sum(e["cost"] or 0 for e in model.explain().ops)
        + sum(c["cost"] for c in model.explain().conversions)
        for name, model in models.items()
    }
    conversions = {name: len(model.explain().conversions) for name, model in models.items()}
    assert conversions == {"grade": 12, "cost": 0}
    assert modelled["grade"] > 1.5 * modelled["cost"]
    assert seconds["grade"] > 1.2 * seconds["cost"], seconds
    np.testing.assert_allclose(models["grade"](x), models["cost"](x), rtol=1e-3, atol=1e-3)


# ** time **

SECONDS = 0.3
"""What a pick may take, on this thread: other tests may run beside it."""

HEAVY = {"vgg19", "zfnet512", "bvlc_alexnet", "densenet121", "inception_v1", "inception_v2"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in HEAVY else name
        for name in (*LIGHT_MODELS, *FIXTURES)
    ],
)
def test_the_pick_of_a_model_is_fast_and_exact(name: str) -> None:
    from tessella.frontends.onnx import OnnxSource

    source = OnnxSource(light_model(name) if name in LIGHT_MODELS else load_fixture(name))
    graph = source.graph({i.name: tuple(map(int, i.shape)) for i in source.inputs})
    ctx = CompileContext(graph.weights)
    [(_, passes), *_] = pipeline(make_options())
    taken = float("inf")
    for step in passes:
        if isinstance(step, PickKernelsPass):
            for module in (graph.module.clone(), graph.module):
                kernel_cost._ESTIMATES.clear()
                with no_collection():
                    start = thread_time()
                    step.apply(ctx, module)
                    taken = min(taken, thread_time() - start)
            break
        step.apply(ctx, graph.module)
    record = main_function(graph.module).attributes[PICK]
    assert "exact = true" in str(record)
    assert taken < SECONDS, f"{name}: {taken:.3f} s"
