"""Fusions compared with the ops that they would replace, by place and by cost."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import pytest
from xdsl.ir import SSAValue

from tessella import targets
from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.layout import IMAGE, NCHW
from tessella.dialects.nn.core import NnOp
from tessella.dialects.place import parse_place
from tessella.driver.build.pipeline import pipeline
from tessella.driver.explain.explain import explain
from tessella.driver.options import Options, make_options
from tessella.kernels.cost import CALL
from tessella.kernels.registry import Kernel, registered
from tessella.passes.base import functions
from tessella.passes.fuse_patterns import FusePatternsPass
from tessella.passes.pick import fusions
from tessella.passes.pick.candidates import Request, layouts_in_play
from tessella.passes.pick.fusions import FusionPass
from tessella.passes.pick.kernel_cost import Prices
from tessella.passes.pick.refusals import refusals_of
from tessella.passes.pick.together import seconds_together
from tessella.passes.pick.usual import usual_ops
from tessella.runtime.devices import BUILT_IN
from tessella.support.plugins import DEVICES, Plugin
from tests.native import GraphBuilder
from tests.passes.harness import apply, names, ops, sample
from tests.passes.pick.programs import constant_cost

DEVICE = ("bare/f32", "host")
MISSING = "nn.fc has no kernel at the requested places, and its parts have"
BOTH = ("bare/f32", "x86/f32", "host")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device without generated kernels."""
    monkeypatch.setitem(BUILT_IN, "bare", Plugin("test", "bare", "tests.bare_device:BARE", DEVICES))


def on_the_device(op: type[NnOp], seconds: float = 1e-6) -> Kernel:
    return Kernel("far", op, "bare", cost=constant_cost(seconds))


def layer(*, constant: bool = False) -> Graph:
    """x w + b; b is an input, or a weight."""
    g = GraphBuilder(x=sample(0, 64, 32), b=sample(1, 48))
    product = g.op(
        nn.MatmulOp, [g.inputs["x"], g.weight(sample(2, 32, 48))], transpose_b=False, node="product"
    )
    bias = g.weight(sample(3, 48)) if constant else g.inputs["b"]
    return g.graph(g.op(nn.AddOp, [product, bias], node="sum"))


def fused(graph: Graph, *places: str, **options: Any) -> Graph:
    """The graph after the pipeline's passes up to the pick of kernels."""
    checked = make_options(places=places, target="avx2", options=Options(**options))
    steps = list(pipeline(checked)[0][1])
    last = next(i for i, step in enumerate(steps) if step.name == "pick-kernels")
    return apply(graph, *steps[: last + 1])


def reasons(graph: Graph) -> list[str]:
    return [each["reason"] for f in functions(graph.module) for each in refusals_of(f)]


@pytest.mark.parametrize("strategy", ["cost", "grade"])
@pytest.mark.parametrize("constant", [False, True])
def test_ops_with_kernels_stay_apart_where_the_fused_op_has_none(
    strategy: str, constant: bool
) -> None:
    with registered(on_the_device(nn.MatmulOp), on_the_device(nn.AddOp)):
        graph = fused(layer(constant=constant), *DEVICE, pick=strategy)
        product, add = (op for op in ops(graph) if op.kernel is not None)
        assert [product.name, add.name] == ["nn.matmul", "nn.add"]
        assert {product.kernel, add.kernel} == {"far"}
        assert set(reasons(graph)) == {MISSING}
        with registered(on_the_device(nn.FcOp)):
            graph = fused(layer(constant=constant), *DEVICE, pick=strategy)
            assert [op.kernel for op in ops(graph) if op.name == "nn.fc"] == ["far"]
            assert reasons(graph) == []


def test_ops_without_kernels_are_fused_in_numpy() -> None:
    with registered(on_the_device(nn.AddOp)):
        graph = fused(layer(), *DEVICE)
    assert [(op.name, op.kernel) for op in ops(graph)][1:] == [("nn.fc", "host")]


def test_by_grade_the_places_of_the_parts_go_first() -> None:
    with registered(on_the_device(nn.MatmulOp), on_the_device(nn.AddOp)):
        graph = fused(layer(), *BOTH, pick="grade")
        assert [op.name for op in ops(graph)][1:] == ["nn.matmul", "nn.add"]
        assert reasons(graph) == ["nn.fc runs only at places after that of its parts"]
        graph = fused(layer(), *BOTH[1:], pick="grade")
        assert [op.name for op in ops(graph)][1:] == ["nn.fc"]


@pytest.mark.parametrize("seconds, stays", [(1e-9, True), (1.0, False)])
def test_by_cost_the_cheaper_rival_is_made(seconds: float, stays: bool) -> None:
    with registered(on_the_device(nn.MatmulOp, seconds), on_the_device(nn.AddOp, seconds)):
        graph = fused(layer(), *BOTH)
    if stays:
        assert [op.kernel for op in ops(graph)][1:] == ["far", "far"]
        (reason,) = reasons(graph)
        assert reason.endswith("us, and its parts take 0.002 us")
    else:
        assert [op.kernel for op in ops(graph)][1:] == ["fc"]


def test_a_function_of_a_library_is_a_rival_of_a_fusion() -> None:
    fast = Kernel(
        "library", nn.MatmulOp, "cpu", (NCHW,), cost=constant_cost(1e-9),
        function="nn.matmul/library",
    )  # fmt: skip
    with registered(fast):
        graph = fused(layer(), "x86/f32", "host")
        assert [op.kernel for op in ops(graph)][1:] == ["library", "add"]
        graph = fused(layer(), "x86/f32", "host", kernels="-library")
        assert [op.kernel for op in ops(graph)][1:] == ["fc"]


def test_without_places_every_fusion_is_made() -> None:
    assert not FusionPass.places
    with registered(on_the_device(nn.MatmulOp, 0.0)):
        steps = [s for s in pipeline(make_options())[0][1] if s.name == "fuse-patterns"]
        assert names(apply(layer(), *(type(s)() for s in steps)))[1:] == ["fc"]


def test_explain_says_why() -> None:
    with registered(on_the_device(nn.MatmulOp), on_the_device(nn.AddOp)):
        graph = fused(layer(), *DEVICE)
        shown = explain({"placed": graph.module})
    (refused,) = shown.refused
    assert (refused["pattern"], refused["op"], refused["node"]) == ("fc", "nn.fc", "sum")
    assert refused["consumed"] == ["nn.matmul@product", "nn.add@sum"]
    assert "fusions that were not made:\n" in shown.why()
    assert MISSING in shown.why()
    assert type(shown).from_json(shown.json()).refused == [refused]


# ** the price of several ops **


def price(graph: Graph) -> float:
    """The seconds of a graph's ops together, on one CPU."""
    machine = targets.get("avx2")
    request = Request([parse_place("x86/f32")], machine.arch)
    found = {op: request.candidates(op) for op in ops(graph)}
    options = {op: entry.placed(op, layouts_in_play(found)) for op, entry in found.items()}
    return seconds_together(options, Prices(machine))


def chain(*kinds: type[NnOp]) -> Graph:
    g = GraphBuilder(x=sample(0, 64, 256))
    value = g.inputs["x"]
    for kind in kinds:
        value = g.op(kind, [value])
    return g.graph(value)


def test_elementwise_ops_cost_less_together() -> None:
    one, two = price(chain(nn.ExpOp)), price(chain(nn.ExpOp, nn.NegOp))
    assert one < two < one + price(chain(nn.NegOp))
    far = Kernel("far", nn.NegOp, "x86", cost=constant_cost(1e-9))
    with registered(far):
        assert price(chain(nn.ExpOp, nn.NegOp)) == pytest.approx(one + 1e-9)


def test_conversions_between_them_count() -> None:
    kernel = Kernel("image", nn.NegOp, "bare", (IMAGE,), cost=constant_cost(1e-9))
    with registered(kernel):
        machine = targets.get("avx2")
        places = list(map(parse_place, ("bare/f32/image", "x86/f32")))
        found = {
            op: Request(places, machine.arch).candidates(op)
            for op in ops(chain(nn.NegOp, nn.ExpOp, nn.NegOp))
        }
        options = {
            op: [c for c in entry.placed(op, {}) if (c.kernel is kernel) == (op.name == "nn.neg")]
            for op, entry in found.items()
        }
        alone = sum(seconds_together({op: options[op]}, Prices(machine)) for op in options)
        assert seconds_together(options, Prices(machine)) > alone + 2 * CALL


# ** comparisons that groups share **


@pytest.mark.parametrize("columns, layers", [(48, 1), (32, 2)])
def test_equal_layers_are_compared_once(
    columns: int, layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers that differ in names alone share a comparison, also if it refuses the fusion."""
    compared: list[str] = []

    def counted(group: Sequence[NnOp], constants: Container[NnOp]) -> list[NnOp]:
        compared.append(group[-1].name)
        return usual_ops(group, constants)

    monkeypatch.setattr(fusions, "usual_ops", counted)
    g = GraphBuilder(x=sample(0, 64, 32))
    results: list[SSAValue] = []
    for number, width in enumerate((48, 48, columns)):
        w, b = g.weight(sample(1, 32, width)), g.weight(sample(2, width))
        product = g.op(nn.MatmulOp, [g.inputs["x"], w], transpose_b=False, node=f"p{number}")
        results.append(g.op(nn.AddOp, [product, b], node=f"s{number}"))
    with registered(on_the_device(nn.MatmulOp), on_the_device(nn.AddOp)):
        graph = apply(g.graph(*results), FusePatternsPass(places=DEVICE, only=("fc",)))
    assert compared == ["nn.fc", "nn.add"] * layers
    assert reasons(graph) == [MISSING] * 3
