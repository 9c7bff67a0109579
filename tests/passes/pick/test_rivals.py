"""The choice between kernels at the same places, and the bound on the memory of weights."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, helper

from tessella import kernels as registered
from tessella import targets
from tessella.dialects import nn
from tessella.dialects.nn.core import NnOp
from tessella.dialects.place import PlaceAttr
from tessella.driver.build.build import StagedProgram, lower
from tessella.driver.explain.explain import explain
from tessella.driver.options import Options, make_options
from tessella.frontends.onnx import OnnxSource
from tessella.kernels.registry import layouts_among
from tessella.passes.pick.candidates import Request, layouts_in_play
from tessella.passes.pick.kernel_cost import Prices
from tessella.passes.pick.rivals import without_rivals
from tessella.passes.pick.sized_cost import SizedCost
from tests.frontends.onnx.models import model as onnx_model
from tests.frontends.onnx.models import value
from tests.native import Array, GraphBuilder

CHANNELS = (64, 64, 128, 256, 256)
"""Of convolutions one after the other, with pools between them: images become smaller."""


def chain() -> ModelProto:
    rng = np.random.default_rng(0)
    nodes, weights = list[NodeProto](), dict[str, Array]()
    last, inner = "x", 64
    for i, outer in enumerate(CHANNELS):
        w = rng.standard_normal((outer, inner, 3, 3)).astype(np.float32) / 50
        weights[f"w{i}"] = w
        nodes.append(helper.make_node("Conv", [last, f"w{i}"], [f"y{i}"], pads=[1, 1, 1, 1]))
        pool = helper.make_node(
            "MaxPool", [f"y{i}"], [f"z{i}"], kernel_shape=[2, 2], strides=[2, 2]
        )
        nodes.append(pool)
        last, inner = f"z{i}", outer
    x, y = value("x", [1, 64, 128, 128]), value(last, [1, inner, 4, 4])
    return onnx_model(nodes, [x], [y], weights=weights)


def lowered(options: Options) -> StagedProgram:
    """The chain with its kernels picked."""
    source = OnnxSource(chain())
    shapes = {info.name: tuple(map(int, info.shape)) for info in source.inputs}
    return lower(
        source.graph(shapes), make_options(target="avx512", options=options), stop="placed"
    )


def kernels(program: StagedProgram) -> list[str]:
    convolutions = (op for op in program.stages["placed"].walk() if isinstance(op, nn.ConvOp))
    return [str(op.kernel) for op in convolutions]


def elements(program: StagedProgram) -> int:
    """Return the number of weight elements of the picked kernels."""
    sizes = {"conv": 9, "winograd2": 16, "winograd4": 36}
    inner, total = 64, 0
    for kernel, outer in zip(kernels(program), CHANNELS, strict=True):
        total += sizes[kernel] * inner * outer
        inner = outer
    return total


@cache
def without_winograd() -> int:
    """Elements of the weights, if none of them are transformed."""
    program = lowered(Options(kernels="-winograd"))
    assert set(kernels(program)) == {"conv"}
    return elements(program)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose last level of cache holds less than the weights."""
    machine = replace(targets.get("avx512"), l2=1 << 19, l3=1 << 20)
    monkeypatch.setattr(targets, "resolve", lambda _: machine)


@pytest.mark.sweep
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("growth", [1, 1.5, 3])
def test_weights_grow_by_so_much_at_most(growth: float) -> None:
    most = without_winograd() * growth
    program = lowered(Options(max_weight_growth=growth))
    assert elements(program) <= most
    assert (set(kernels(program)) == {"conv"}) == (growth == 1)


@pytest.mark.sweep
@pytest.mark.parametrize("growth", [1, 1.05, 2])
def test_few_weights_grow_by_as_much_as_the_last_cache_holds(growth: float) -> None:
    few = without_winograd()
    held = targets.get("avx512").l3 // 4
    assert few < held
    program = lowered(Options(max_weight_growth=growth))
    assert elements(program) <= few + (growth - 1) * held
    assert ("conv" in kernels(program)) == (growth < 2)


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_what_gains_most_for_a_byte_comes_first() -> None:
    """Kernels with large images and small weights come first."""
    free, bounded = (kernels(lowered(Options(max_weight_growth=growth))) for growth in (5, 1.5))
    assert "conv" not in free
    assert bounded[0] == free[0]
    assert bounded[-1] == "conv"


def test_an_explanation_tells_of_the_bound() -> None:
    explained = explain(lowered(Options(max_weight_growth=1)).stages)
    [op, *_] = (op for op in explained.ops if op["op"] == "nn.conv")
    reasons = {each["kernel"]: each["reason"] for each in op["rejected"]}
    assert reasons["winograd4"].endswith("and its weights grow too much")


# ** without estimates **


def convolution(channels: int, outer: int, size: int, element: Any = np.float32) -> NnOp:
    g = GraphBuilder(x=np.zeros((1, channels, size, size), element))
    w = g.weight(np.zeros((outer, channels, 3, 3), element))
    settings = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1), "groups": 1}
    made = g.op(nn.ConvOp, [g.inputs["x"], w], **settings).owner
    assert isinstance(made, NnOp)
    KEPT.append(g)
    return made


KEPT: list[GraphBuilder] = []
"""Values die with the program that they are of."""


@pytest.mark.parametrize("target", ["avx512", "avx2", "neon"])
@pytest.mark.parametrize("channels, outer, size", [(16, 16, 7), (64, 32, 56), (512, 512, 5)])
@pytest.mark.parametrize("element", [np.float32, np.float64, np.float16])
def test_no_estimate_is_below_what_a_kernel_does_at_the_least(
    target: str, channels: int, outer: int, size: int, element: Any
) -> None:
    registered.load()
    op, machine = convolution(channels, outer, size, element), targets.get(target)
    place, cost = PlaceAttr.get(machine.arch, "any"), Prices(machine).of(op)
    found = Request([place], machine.arch).candidates(op)
    generated = [site for site in found.ranks if site.kernel.lower is not None]
    for kernel in {site.kernel for site in generated}:
        for layout in layouts_among(kernel, ()):
            at = PlaceAttr.get(machine.arch, "any", layout)
            assert cost.at_least(kernel, at) <= cost.modelled(kernel, at)
    methods = {site.kernel.method for site in generated}
    assert ("winograd" in methods) == (element == np.float32)


@pytest.mark.parametrize(
    "growth, taken, estimated",
    [(1e9, "winograd4", {"winograd4"}), (1, "conv", {"conv", "winograd2", "winograd4"})],
)
def test_what_takes_longer_at_the_least_is_not_estimated(
    growth: float, taken: str, estimated: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    registered.load()
    op, machine = convolution(64, 64, 56), targets.get("avx512")
    found = {op: Request([PlaceAttr.get("x86", "f32")], "x86").candidates(op)}
    options = {op: entry.placed(op, layouts_in_play(found)) for op, entry in found.items()}
    asked, estimate = set[str](), SizedCost.estimate

    def watched(self: SizedCost, kernel: Any, place: Any) -> Any:
        asked.add(kernel.name)
        return estimate(self, kernel, place)

    monkeypatch.setattr(SizedCost, "estimate", watched)
    left = without_rivals(options, Prices(machine), growth)[op]
    assert {c.kernel.name for c in left if str(c.place.layout) == "nhwc"} == {taken}
    assert asked == estimated
