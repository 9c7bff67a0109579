"""A function of the caller as the pick: what it changes, and what it must not return."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings

import tessella
from tessella import kernels
from tessella.dialects import nn
from tessella.dialects.graph import Graph, main_function
from tessella.dialects.place import parse_place
from tessella.driver.build.pipeline_text import pipeline_text
from tessella.driver.cache import program_cache
from tessella.driver.explain.explain import explain
from tessella.driver.model import compilation
from tessella.driver.options import Options, make_options
from tessella.driver.worker import client
from tessella.kernels.registry import kernels_of, registered
from tessella.passes.pick.by_cost import ProblemBuilder, pick_by_cost
from tessella.passes.pick.dominated import without_dominated
from tessella.passes.pick.kernel_cost import Prices, timing_key
from tessella.passes.pick.price import CandidateFacts
from tessella.passes.pick.priced import recorded_prices
from tessella.passes.pick.rivals import without_rivals
from tessella.passes.pick_kernels import PICK, PickKernelsPass
from tessella.runtime.devices import BUILT_IN
from tessella.runtime.records import NotStorableError, encoded
from tessella.support.errors import OptionError
from tessella.support.plugins import DEVICES, Plugin
from tessella.targets.database import Timing
from tests.passes.harness import GraphBuilder, ops, sample
from tests.passes.pick.programs import MACHINE, pick, reparsed
from tests.passes.pick.test_by_cost import candidates_of, programs
from tests.passes.pick.test_fusions import BOTH, fused, layer, on_the_device, reasons
from tests.sampling import sampled


def plain(facts: CandidateFacts) -> float:
    return facts.seconds


def direct(facts: CandidateFacts) -> float:
    return facts.seconds * (100 if facts.method == "winograd" else 1)


def chance(facts: CandidateFacts) -> float:
    """A factor from 1/4 to 4 for each candidate, the same in every run."""
    text = f"{facts.operands} {facts.kernel} {facts.place}"
    return facts.seconds * 4 ** (crc32(text.encode()) % 100 / 50 - 1)


def convolution(size: int = 56) -> Graph:
    """A convolution that Winograd's method runs fastest."""
    g = GraphBuilder(x=sample(0, 1, 64, size, size))
    w = g.weight(sample(1, 64, 64, 3, 3))
    settings = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1), "groups": 1}
    y = g.op(nn.ConvOp, [g.inputs["x"], w], **settings, node="Conv_1")
    return g.graph(g.op(nn.ReluOp, [y], node="Relu_2"))


# ** what it changes **


def test_a_function_that_returns_the_seconds_picks_as_the_cost() -> None:
    by_cost, by_function = (
        [(op.kernel, op.places) for op in pick(convolution(), function=function)]
        for function in (None, plain)
    )
    assert by_cost[0][0] == "winograd4"
    assert by_function == by_cost


def test_a_factor_for_a_method_decides() -> None:
    conv, relu = pick(convolution(), function=direct)
    assert (conv.kernel, relu.kernel) == ("conv", "relu")


def test_the_place_may_decide_where_the_cost_does_not() -> None:
    """Elementwise ops cost the same in all layouts."""

    def mine(facts: CandidateFacts) -> float:
        return float(facts.op == "nn.relu" and facts.layout != wanted)

    for wanted in ("nchw", "nhwc"):
        relu, *_ = pick(convolution(4), function=mine)[1:]
        assert [str(place.layout) for place in relu.places or ()] == [wanted, wanted]


@settings(max_examples=sampled(10))
@given(make=programs())
def test_no_choice_has_a_lower_price(make: Callable[[], Graph]) -> None:
    """Candidates that are left out before the search are in no best choice."""
    kernels.load()
    graph, prices = make(), Prices(MACHINE, function=chance)
    function, every = main_function(graph.module), candidates_of(graph)
    builder = ProblemBuilder(prices)
    problem = builder.build(function, every)
    left = without_dominated(without_rivals(every, prices, math.inf), prices)
    chosen, _ = pick_by_cost(function, left, prices)
    choice = [0] * len(problem.costs)
    for op, candidate in chosen.items():
        choice[builder.nodes[op]] = every[op].index(candidate)
    _, best = pick_by_cost(function, every, prices)
    assert problem.total(choice) == pytest.approx(best.cost)


def test_it_prices_fusions_that_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are where a kernel states its cost."""
    monkeypatch.setitem(BUILT_IN, "bare", Plugin("test", "bare", "tests.bare_device:BARE", DEVICES))
    with registered(on_the_device(nn.MatmulOp), on_the_device(nn.AddOp), on_the_device(nn.FcOp)):
        for factor, names in ((1, ["nn.fc"]), (50, ["nn.matmul", "nn.add"])):
            graph = fused(layer(), *BOTH, pick=partial(times, factor))
            assert [op.name for op in ops(graph) if op.kernel] == names
    [reason] = reasons(graph)
    assert reason.startswith("its price is 5e-05, and that of its parts 1.")


def times(factor: float, facts: CandidateFacts) -> float:
    return facts.seconds * (factor if facts.op == "nn.fc" else 1)


def test_the_facts() -> None:
    """All of them, for a measured kernel."""
    seen: list[CandidateFacts] = []
    kernels.load()
    [op] = [op for op in ops(convolution()) if isinstance(op, nn.ConvOp)]
    [kernel] = [k for k in kernels_of(op) if k.name == "winograd2"]
    place = parse_place("x86/f32/nhwc")
    cost = Prices(MACHINE, function=lambda f: seen.append(f) or 7).of(op)
    times = {timing_key(cost._exact, kernel.name, place): Timing(MACHINE.ghz * 1e9, 0.0, 3)}
    cost = Prices(MACHINE, times, function=cost.prices.function).of(op)
    assert cost.price(kernel, place) == 7
    [facts] = seen
    assert facts.seconds == pytest.approx(1.0, rel=1e-3)
    assert facts.measured
    assert (facts.op, facts.node, facts.kernel) == ("nn.conv", "Conv_1", "winograd2")
    assert (facts.method, facts.place) == ("winograd", "x86/f32/nhwc")
    assert facts.operands == ((1, 64, 56, 56), (64, 64, 3, 3))
    assert facts.results == ((1, 64, 56, 56),)


# ** what it must not do **


@pytest.mark.parametrize(
    "returned, found",
    [
        (math.nan, "nan"),
        (-1, "-1.0"),
        (math.inf, "inf"),
        ("1", "'1' of type str"),
        (None, "None of type NoneType"),
        (True, "True of type bool"),
    ],
)
def test_a_price_is_a_finite_number(returned: Any, found: str) -> None:
    def mine(facts: CandidateFacts) -> Any:
        return returned if facts.kernel == "winograd2" else facts.seconds

    with pytest.raises(OptionError) as caught:
        pick(convolution(), function=mine)
    assert str(caught.value).splitlines()[:4] == [
        "the function mine of the option 'pick' returned no price",
        "  where: nn.conv (Conv_1), kernel winograd2 at x86/f32/nhwc",
        "  expected: a finite number of seconds, from 0 on",
        f"  found: {found}",
    ]


def test_numbers_of_numpy_are_prices() -> None:
    conv, _ = pick(convolution(), function=lambda facts: np.float32(direct(facts)))
    assert conv.kernel == "conv"


def test_an_exception_names_the_candidate() -> None:
    with pytest.raises(OptionError) as caught:
        pick(convolution(), function=lambda facts: 1 / 0)
    assert "raised ZeroDivisionError: division by zero\n  where: nn.conv (Conv_1)" in str(
        caught.value
    )
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("falls", ["everywhere", "at the estimate"])
def test_a_longer_time_must_not_have_a_lower_price(falls: str) -> None:
    """Otherwise a lower bound on a time says nothing."""
    bounds: dict[str, float] = {}

    def function(facts: CandidateFacts) -> float:
        if falls == "everywhere":
            return 1 / facts.seconds
        bound = bounds.setdefault(str(facts), facts.seconds)
        return 1.0 if facts.seconds in [bound * 2**i for i in range(5)] else 0.5

    with pytest.raises(OptionError, match="is not monotone in `seconds`") as caught:
        pick(convolution(), function=function)
    assert "where: nn.conv (Conv_1), kernel " in str(caught.value)


# ** where it is not known **


def test_explanations_have_the_prices() -> None:
    """They are those of the pick, in the program itself, so that a stage file has them too."""
    graph = convolution()
    conv, _ = pick(graph, function=direct)
    graph.module = reparsed(graph.module)
    assert str(main_function(graph.module).attributes[PICK]).count("function direct") == 1
    [again] = [op for op in ops(graph) if isinstance(op, nn.ConvOp)]
    prices = recorded_prices(again)
    assert prices == recorded_prices(conv)
    found = explain({"placed": graph.module})
    assert "kernels picked by function direct, exact, for avx512" in str(found)
    [entry] = [each for each in found.ops if each["op"] == "nn.conv"]
    rejected = {
        f"{each['kernel']} at {each['place']}": each["reason"] for each in entry["rejected"]
    }
    price = min(prices.values())
    for name, reason in rejected.items():
        if name.startswith("winograd"):
            assert reason == "the price of its least time exceeds that of another candidate"
    other = prices["conv at x86/f32/nchw"]
    assert rejected["conv at x86/f32/nchw"] == (
        f"its price is {other:.3g}, that of the picked one {price:.3g}"
    )
    assert "winograd4 at x86/f32/nhwc" in rejected


def test_a_pipeline_as_text_has_no_function() -> None:
    step = PickKernelsPass(target="avx512", function=direct)
    assert pipeline_text([step]) == 'pick-kernels{target="avx512"}'


class Unhashable:
    """A callable object without a hash."""

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __call__(self, facts: CandidateFacts) -> float:
        return direct(facts)


def test_options_with_a_function(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """No program of theirs is cached on disk or compiled by another process; `hash` works."""
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path))
    options = make_options(options=Options(pick=Unhashable()))
    assert hash(options) == hash(make_options())
    assert options != make_options()
    assert program_cache.key("model", (), options) is None
    with pytest.raises(NotStorableError):
        encoded(options)


def test_a_large_function_is_compiled_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process would not have the function."""
    asked: list[object] = []
    monkeypatch.setattr(compilation, "OPS", 0)
    monkeypatch.setattr(client, "compiled", lambda *_: asked.append(1))
    done, prices = threading.Event(), list[CandidateFacts]()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        for pick in ("cost", lambda f: prices.append(f) or f.seconds):
            before = len(asked)
            f = tessella.jit(lambda x: tessella.conv2d(x, W), options=Options(pick=pick))
            np.testing.assert_array_equal(f(X), np.full((1, 4, 5, 5), 3, np.float32))
            assert (len(asked) > before) == (pick == "cost")
    finally:
        done.set()
        other.join()
    assert {facts.op for facts in prices} == {"nn.conv"}


X, W = np.ones((1, 3, 5, 5), np.float32), np.ones((4, 3, 1, 1), np.float32)
