"""Places that serve an op: missing targets, the order, precisions, fallbacks."""

from __future__ import annotations

import argparse
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Operation

from tessella import targets
from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.layout import IMAGE, NCHW, NHWC, Layout
from tessella.dialects.nn.core import NnOp
from tessella.dialects.place import PlaceAttr, parse_place, place_of
from tessella.driver.build.build import lower
from tessella.driver.compile import compile_source
from tessella.driver.explain.explain import explain
from tessella.driver.options import Options, make_options
from tessella.kernels.devices import DeviceRules, registered_rules
from tessella.kernels.elements import T, rows
from tessella.kernels.registry import Kernel, registered
from tessella.passes.pick import falls
from tessella.passes.pick.choices import PLACES
from tessella.passes.pick.kernel_cost import OpCost
from tessella.runtime.devices import BUILT_IN
from tessella.support.errors import (
    InternalError,
    OptionError,
    PluginError,
    UnsupportedError,
)
from tessella.support.plugins import DEVICES, Plugin
from tessella.support.plugins import PLACES as PLUGGED
from tessella.tools.commands.shared import add_options, options_of
from tests.native import FixedSource
from tests.passes.harness import GraphBuilder, sample
from tests.passes.pick.programs import (
    NATIVE,
    POINTWISE,
    constant_cost,
    convolution,
    pick,
    reparsed,
    sums,
)
from tests.plugins import Installer, forget

pytestmark = pytest.mark.usefixtures("sums_in_numpy")

# ** targets that are not at hand **


def device(precision: str = "f32", **operands: Layout) -> Kernel:
    own = {int(name.removeprefix("at")): layout for name, layout in operands.items()}
    cost = constant_cost(1e-7)
    return Kernel(
        "image", nn.ConvOp, "opencl", (IMAGE,), rows([precision]), cost=cost, operands=own
    )


def test_a_kernel_of_a_missing_target_is_picked_and_printed() -> None:
    with registered(device(at1=NCHW)):
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
            compile_source(
                source, places=["opencl/f32/image", "x86"], options=Options(pick="grade")
            )
        assert {issue.op for issue in caught.value.issues} >= {"nn.conv"}
        assert compile_source(source, places=["x86"]) is not None


def test_kernels_of_another_cpu_cannot_be_built() -> None:
    arch = targets.native().arch
    other = "arm" if arch == "x86" else "x86"
    with pytest.raises(UnsupportedError, match=f"building for {arch}"):
        compile_source(FixedSource(convolution), places=[other])


def test_costs_decide_whether_the_device_is_worth_the_copies() -> None:
    far = Kernel("far", nn.ConvOp, "opencl", cost=constant_cost(0.0))
    with registered(far):
        _, small, _ = pick(convolution(8), "opencl", "x86")
        assert small.kernel == "conv"
    alone = Kernel("far", nn.ReluOp, "opencl", cost=constant_cost(0.0))
    with registered(far, alone):
        assert {op.kernel for op in pick(convolution(8), "opencl")} == {"far"}


def test_a_target_without_kernels_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match="unknown part 'cuda'"):
        compile_source(FixedSource(convolution), places=["cuda/f32", "x86"])
    bare = Plugin("test", "bare", "tests.bare_device:BARE", DEVICES)
    monkeypatch.setitem(BUILT_IN, "bare", bare)
    with pytest.raises(OptionError, match="no kernel runs on bare") as caught:
        pick(convolution(), "x86", "bare")
    assert caught.value.expected == "places on x86, arm, opencl, host"


# ** lists of places by name **


def test_names_stand_for_lists() -> None:
    mobile = make_options(target="aarch64", places="mobile").places
    assert mobile == ("arm/f16/nhwc", "arm/f16", "arm/f32/nhwc", "arm/f32", "arm", "host")
    assert make_options(target="avx2", places="default") == make_options(target="avx2")
    both = ("opencl/f16/image", *make_options(target="avx2").places)
    assert make_options(target="avx2", places=["opencl/f16/image", "default"]).places == both
    _, conv, _ = pick(convolution(), "mobile", strategy="grade")
    assert str(conv.places and conv.places[0]) == "x86/f16/nhwc"


def test_all_lists_are_places() -> None:
    for name, texts in PLACES.items():
        assert list(map(str, map(parse_place, make_options(places=name).places)))
        assert len(set(texts)) == len(texts)


def test_a_name_that_no_list_has() -> None:
    for places in ("moble", ["x86", "moble"]):
        with pytest.raises(OptionError, match="unknown list of places 'moble'") as caught:
            make_options(places=places)
        assert (caught.value.expected or "").startswith("one of default, mixed, mobile, numpy, ")
        assert caught.value.hint == "did you mean 'mobile'?"


@pytest.mark.parametrize(
    "text, hint",
    [
        ("x86", "['x86']"),
        ("x86/f32/nhwc", "['x86/f32/nhwc']"),
        ("opencl/f32, mobile", "['opencl/f32', 'mobile']"),
    ],
)
def test_a_text_that_lists_places(text: str, hint: str) -> None:
    with pytest.raises(OptionError, match="unknown list of places") as caught:
        make_options(places=text)
    assert caught.value.hint == f"did you mean {hint}?"


def test_commands_take_names() -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    for line, places in (("mobile", "mobile"), ("opencl,mixed", ["opencl", "mixed"])):
        found = options_of(parser.parse_args(["--places", line]))
        assert found.places == make_options(places=places).places


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("tiny", '("opencl/f16/image", "cpu/i8", "host")', ""),
        ("tiny", "3", "a list of strings"),
        ("tiny", '("opencl", 3)', "a list of strings"),
        ("tiny", '("opencl/f15",)', "unknown part 'f15'"),
        ("mobile", '("host",)', "already exists"),
        ("opencl", '("host",)', "already exists"),
    ],
)
def test_the_list_of_a_plugin(
    name: str, value: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install = Installer(tmp_path, monkeypatch)
    try:
        install("my_places", f"LIST = {value}", {PLUGGED: {name: "my_places:LIST"}})
        if message:
            with pytest.raises(PluginError, match=message):
                make_options(places="tiny")
        else:
            found = make_options(places="tiny", target="avx2").places
            assert found == ("opencl/f16/image", "x86/i8", "host")
            with pytest.raises(OptionError, match="default, mixed, mobile, numpy, tiny"):
                make_options(places="small")
    finally:
        forget()


# ** the order of the places **


@pytest.mark.parametrize(
    "slow, fast",
    [
        ("x86/f32/nchw", "x86/f32/nhwc"),
        ("x86/f32/nchw", "x86/bf16/nchw"),
        ("x86/bf16/nchw", "x86/f32/nchw"),
        ("x86/f16/nchw", "x86/f32/nchw"),
    ],
)
def test_estimates_that_differ_by_less_than_a_tenth_leave_the_choice_to_the_order(
    slow: str, fast: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # on 1x1 images no layout needs a conversion, and casts take no time to speak of
    for faster, winner in ((0.05, slow), (0.15, fast)):
        estimates = {slow: 1.0, fast: 1.0 - faster}

        def modelled(_: OpCost, __: Kernel, place: PlaceAttr, known: Any = estimates) -> float:
            return known.get(str(place), 1.0)

        monkeypatch.setattr(OpCost, "modelled", modelled)
        _, conv, _ = pick(convolution(1), slow, fast)
        assert conv.places is not None
        assert str(conv.places[0]) == winner
    for places in ((fast, slow), (fast,)):
        _, conv, _ = pick(convolution(1), *places)
        assert conv.places is not None
        assert str(conv.places[0]) == fast


def test_costs_that_kernels_state_count_as_they_are() -> None:
    def kernel(layout: Layout, seconds: float) -> Kernel:
        return Kernel(layout.name, nn.ConvOp, "x86", (layout,), cost=constant_cost(seconds))

    with registered(kernel(NCHW, 1.01e-12), kernel(NHWC, 1e-12)):
        _, conv, _ = pick(convolution(1), "x86/f32/nchw", "x86/f32/nhwc")
        assert conv.kernel == "nhwc"


@pytest.mark.parametrize("first, second", [(NCHW, NHWC), (NHWC, NCHW)])
def test_of_equal_costs_the_earlier_place_wins(first: Layout, second: Layout) -> None:
    both = Kernel("both", nn.ConvOp, "x86", (NCHW, NHWC), cost=constant_cost(1e-12))
    with registered(both):
        g = GraphBuilder(x=sample(0, 1, 8, 1, 1))
        graph = g.graph(
            g.op(nn.ConvOp, [g.inputs["x"], g.weight(sample(1, 8, 8, 1, 1))], **POINTWISE)
        )
        (conv,) = pick(graph, f"x86/f32/{first}", f"x86/f32/{second}")
    assert conv.kernel == "both"
    assert conv.places is not None
    assert conv.places[0].layout == first


# ** precision **


def test_a_precision_changes_only_where_a_place_names_it() -> None:
    with registered(device("f16")):
        _, conv, _ = pick(convolution(), "opencl/any/image", "opencl/f32/image", "x86")
        assert conv.kernel == "conv"
        graph = convolution()
        _, conv, _ = pick(graph, "opencl/f16/image", strategy="grade")
        assert [str(p) for p in conv.places or ()] == ["opencl/f16/image"] * 3
        # in sight: the operand, and the result; the weight is rounded when it is compiled
        assert str(graph.module).count("place.cast") == 2
        (weight,) = (w for w in graph.weights if ".f16" in w)
        array = graph.weights[weight]
        assert array.dtype == np.float16
        np.testing.assert_array_equal(array, array.astype(np.float16).astype(np.float32))


def test_integers_keep_their_precision() -> None:
    cost, stored = constant_cost(1e-9), rows(["f16"], (T, "i64"))
    kernel = Kernel("gather16", nn.GatherOp, "opencl", (NCHW,), stored, cost=cost)
    g = GraphBuilder(x=sample(0, 4, 8), i=np.array([0, 2]))
    graph = g.graph(g.op(nn.GatherOp, [g.inputs["x"], g.inputs["i"]], axis=0))
    with registered(kernel):
        (op,) = pick(graph, "opencl/f16")
    assert list(map(str, op.places or ())) == [
        "opencl/f16/nchw",
        "opencl/i64/nchw",
        "opencl/f16/nchw",
    ]


@pytest.mark.usefixtures("_devices")
def test_an_operand_at_any_place_is_left_alone() -> None:
    """phi's ``InputAt(i).SetBackend(ALL_BACKEND)`` means the same: an operand that NumPy computes
    stays where it is."""
    anywhere = PlaceAttr.get("any", "any")
    kernel = Kernel(
        "lookup",
        nn.GatherOp,
        "bare",
        (NCHW,),
        cost=constant_cost(1e-9),
        operands={1: anywhere},
    )
    g = GraphBuilder(x=sample(0, 4, 8), i=np.array([0, 2]))
    indices = g.op(nn.CumsumOp, [g.inputs["i"]], axis=0, exclusive=False, reverse=False)
    graph = g.graph(g.op(nn.GatherOp, [g.inputs["x"], indices], axis=0))
    with registered(kernel):
        _, op = pick(graph, "bare")
    wanted = ["bare/f32/nchw", "host/i64/nchw", "bare/f32/nchw"]
    assert list(map(str, op.places or ())) == wanted


@pytest.mark.usefixtures("_devices")
@pytest.mark.parametrize("strategy", ["cost", "grade"])
@pytest.mark.parametrize(
    "rule, wanted, steps",
    [
        (("any", "any"), "x86/i64/nchw", []),
        (("any", "any", NHWC), "x86/i64/nhwc", ["relayout"]),
        (("any", "i32"), "x86/i32/nchw", ["cast"]),
        (("bare", "any"), "bare/i64/nchw", ["copy"]),
    ],
    ids=["leave alone", "layout only", "precision only", "device only"],
)
def test_a_kernel_says_which_parts_of_an_operand_are_converted(
    rule: tuple[Any, ...], wanted: str, steps: list[str], strategy: str
) -> None:
    cost = constant_cost(1e-9)
    kernel = Kernel(
        "lookup", nn.GatherOp, "bare", (NCHW,), cost=cost, operands={1: PlaceAttr.get(*rule)}
    )
    g = GraphBuilder(x=sample(0, 4, 8), i=np.arange(8).reshape(1, 2, 2, 2) % 4)
    graph = g.graph(g.op(nn.GatherOp, [g.inputs["x"], g.inputs["i"]], axis=0))
    with registered(kernel):
        (op,) = pick(graph, "bare", strategy=strategy)
        assert (op.kernel, str(place_of(op.operands[1].type))) == ("lookup", wanted)
        source = op.operands[1].owner
        found = [source.name.removeprefix("place.")] if isinstance(source, Operation) else []
    assert found == steps


# ** fallbacks **


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


@pytest.fixture
def _devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices without generated kernels."""
    for name in ("bare", "near"):
        device = Plugin("test", name, "tests.bare_device:BARE", DEVICES)
        monkeypatch.setitem(BUILT_IN, name, device)


def far(op: type[NnOp] = nn.ReluOp, **changes: Any) -> Kernel:
    return replace(Kernel("far", op, "bare", (NCHW,), cost=constant_cost(1e-9)), **changes)


@pytest.mark.parametrize("strategy", ["cost", "grade"])
@pytest.mark.parametrize(
    "places, places_of_conv, fallback",
    [
        (("bare",), {"x86"}, "x86"),
        (("bare/f32/nchw", "bare/f16"), {"x86"}, "x86"),
        (("bare", "host"), {"host"}, "host"),
        (("bare", "x86/i8"), {"host"}, "host"),
        (("bare", "x86/f32"), {"x86"}, None),
        (("bare", "any/f32"), {"x86"}, None),
    ],
)
@pytest.mark.usefixtures("_devices")
def test_a_device_falls_to_the_native_kernels_of_the_cpu(
    strategy: str, places: tuple[str, ...], places_of_conv: set[str], fallback: str | None
) -> None:
    with registered(far()):
        picked = pick(convolution(), *places, strategy=strategy)
    conv = picked[1]
    assert conv.places is not None
    assert {place.device.data for place in conv.places} == places_of_conv
    assert {place.precision.data for place in conv.places} == {"f32"}
    assert conv.fallback == fallback


@pytest.mark.usefixtures("_devices")
def test_what_the_cpu_lacks_falls_to_numpy() -> None:
    with registered(far()):
        _, cumsum = pick(sums(), "bare")
    assert (cumsum.kernel, cumsum.fallback) == ("host", "host")


@pytest.mark.usefixtures("_devices")
def test_a_device_has_a_rule_for_what_it_lacks() -> None:
    near = Kernel("near", nn.ConvOp, "near", (NCHW,), cost=constant_cost(1.0))
    with registered(far(), near):
        for falls_to, found in (
            (("near", "cpu", "host"), "near"),
            (("cpu", "near"), "x86"),
            (("host",), "host"),
            ((), "host"),
        ):
            with registered_rules("bare", DeviceRules(falls_to)):
                _, conv, _ = pick(convolution(), "bare")
            assert conv.fallback == found


@pytest.mark.usefixtures("_devices")
@pytest.mark.parametrize(
    "device, rules, message",
    [
        ("far", DeviceRules(), "device\n  expected: some of host, x86, "),
        ("bare:1", DeviceRules(), "device"),
        ("bare", DeviceRules(("naer",)), "falls_to\n  expected: some of cpu, host, x86, "),
        ("bare", DeviceRules(("x86/f32",)), "falls_to"),
        ("bare", DeviceRules("cpu"), "falls_to"),  # pyright: ignore[reportArgumentType]
        ("bare", DeviceRules(autocast={"f31": ["nn.exp"]}), "autocast\n  expected: some of f64, "),
        ("bare", DeviceRules(autocast={"f32": "nn.exp"}), "autocast\n  expected: strings"),
        ("x86", DeviceRules(), "the device x86 already has rules"),
    ],
)
def test_wrong_rules_for_a_device(device: str, rules: DeviceRules, message: str) -> None:
    with pytest.raises(InternalError) as caught, registered_rules(device, rules):
        pass
    assert message in str(caught.value)


@pytest.mark.usefixtures("_devices")
def test_falls_from_a_device_can_be_refused() -> None:
    with registered(far()), pytest.raises(UnsupportedError) as caught:
        pick(convolution(), "bare", fallback="error")
    (issue,) = caught.value.issues
    assert "conv at x86/f32/nhwc: a fallback (x86), and those are refused" in issue.reason


@pytest.mark.usefixtures("_devices")
def test_falls_are_warned_of_once_and_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(falls, "_TOLD", set())

    def make() -> Graph:
        g = GraphBuilder(x=sample(0, 1, 8, 8, 8))
        a = g.op(nn.SigmoidOp, [g.op(nn.SigmoidOp, [g.op(nn.ReluOp, [g.inputs["x"]])])])
        return g.graph(g.op(nn.CumsumOp, [a], axis=1, exclusive=False, reverse=False))

    options = make_options(places=["bare/f32"], target="avx2")
    with registered(far()), caplog.at_level(logging.WARNING, "tessella.compile"):
        lower(make(), options, stop="placed")
        text = str(explain(lower(make(), options, stop="placed").stages))
        pick(make(), "x86", "host")
    (message,) = caplog.messages
    assert "bare has no kernel for some ops" in message
    assert "nn.sigmoid (2, on x86), nn.cumsum (1, on host)" in message
    assert "fallbacks (x86 2, host 1):" in text


def one_layout(cost: float, **changes: Any) -> Kernel:
    kernel = Kernel("image", nn.CumsumOp, "x86", (NHWC,), cost=constant_cost(cost))
    return replace(kernel, **changes)


def cumulated() -> Graph:
    g = GraphBuilder(x=sample(0, 1, 2, 3, 4))
    sums = g.op(nn.CumsumOp, [g.inputs["x"]], axis=1, exclusive=False, reverse=False)
    return g.graph(sums)


@pytest.mark.parametrize("strategy", ["cost", "grade"])
def test_another_layout_goes_before_the_host_however_slow(strategy: str) -> None:
    with registered(one_layout(1.0)):
        (op,) = pick(cumulated(), "x86/f32/nchw", "host", strategy=strategy)
        assert (op.kernel, op.fallback) == ("image", "layout")
        (op,) = pick(cumulated(), "x86/f32/nhwc", "host", strategy=strategy)
        assert (op.kernel, op.fallback) == ("image", None)
    asked = one_layout(2.0, name="asked", layouts=(NCHW,))
    with registered(one_layout(1.0), asked):
        (op,) = pick(cumulated(), "x86/f32/nchw", "host", strategy=strategy)
        assert (op.kernel, op.fallback) == ("asked", None)
    with registered(one_layout(1.0, applies=lambda op: "never")):
        (op,) = pick(cumulated(), "x86/f32/nchw", strategy=strategy)
        assert (op.kernel, op.fallback) == ("host", "host")


def test_fallbacks_are_refused_with_every_reason() -> None:
    def limits(op: NnOp) -> str | None:
        return "it sums no negative numbers"

    cost = constant_cost(0.0)
    kernel = Kernel("cumsum", nn.CumsumOp, "x86", (NCHW,), applies=limits, cost=cost)
    with registered(kernel), pytest.raises(UnsupportedError) as caught:
        compile_source(FixedSource(sums), fallback="error")
    (issue,) = caught.value.issues
    assert issue.reason.split("; ") == [
        "cumsum at x86/f32/nchw: it sums no negative numbers",
        "host at host/f32/nchw: a fallback (host), and those are refused",
    ]
    assert compile_source(FixedSource(sums)).explain().ops[1]["fallback"] == "host"


def test_options_are_checked() -> None:
    with pytest.raises(OptionError, match="unknown pick 'best'"):
        Options(pick="best")  # pyright: ignore[reportArgumentType]
    with pytest.raises(OptionError, match="unknown fallback 'never'"):
        make_options(fallback="never")  # pyright: ignore[reportArgumentType]
