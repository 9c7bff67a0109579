"""Kernels, fallbacks, copies and programs at places with fields that the device defines."""

from __future__ import annotations

import gc
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessella
from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.layout import NCHW
from tessella.dialects.nn.core import NnOp
from tessella.dialects.place import CopyOp, parse_place, place_of
from tessella.driver.compile import compile_source
from tessella.driver.options import Options
from tessella.kernels.elements import rows
from tessella.kernels.registry import Kernel, registered, serves
from tessella.passes.pick.grade import place_score, valid_place
from tessella.runtime.devices import BUILT_IN, Source
from tessella.support.errors import ExecutionError, InternalError, OptionError, UnsupportedError
from tessella.support.plugins import DEVICES, Plugin
from tests.bare_device import FIELDS, FieldDevice
from tests.native import FixedSource
from tests.passes.harness import GraphBuilder, ops, sample
from tests.passes.pick.programs import constant_cost, pick, reparsed

GLOBAL = "acme/f32/nchw/memory=global/tiling=linear"
LOCAL = "acme/f32/nchw/memory=local/tiling=linear"


def kernel(op: type[NnOp], name: str = "", seconds: float = 1e-6, **fields: str) -> Kernel:
    memory = fields.get("memory", "global")
    text = f"{op.name.removeprefix('nn.')} {memory}"
    return Kernel(
        name or memory,
        op,
        "acme",
        (NCHW,),
        rows(["f32"]),
        cost=constant_cost(seconds),
        source=lambda _: Source(text),
        fields=fields,
    )


@pytest.fixture(autouse=True)
def acme(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """The device `acme`, whose kernel of `neg` needs one memory, and `add` and `abs` the other."""
    plugin = Plugin("test", "acme", "tests.bare_device:FIELDS", DEVICES)
    monkeypatch.setitem(BUILT_IN, "acme", plugin)
    FIELDS.moves.clear()
    local = (kernel(op, memory="local") for op in (nn.AddOp, nn.AbsOp))
    with registered(kernel(nn.NegOp), *local):
        yield
    gc.collect()
    assert FIELDS.used == 0


def network() -> Graph:
    g = GraphBuilder(x=sample(0, 4, 4))
    x = g.op(nn.AbsOp, [g.op(nn.NegOp, [g.inputs["x"]])])
    return g.graph(g.op(nn.NegOp, [g.op(nn.AddOp, [x, g.weight(sample(1, 4, 4))])]))


def wanted(x: Any) -> Any:
    return -(np.abs(-x) + sample(1, 4, 4))


def places(found: list[NnOp]) -> list[str]:
    return [str(op.places and op.places[-1]) for op in found]


@pytest.mark.parametrize("strategy", ["cost", "grade"])
def test_kernels_run_at_their_fields(strategy: str) -> None:
    graph = network()
    found = pick(graph, "acme/f32", "host", strategy=strategy)
    assert places(found) == [GLOBAL, LOCAL, LOCAL, GLOBAL]
    assert {op.fallback for op in found} == {None}
    copies = [op for op in graph.module.walk() if isinstance(op, CopyOp)]
    assert [op.once is not None for op in copies] == [False, False, True, True, False, False]
    assert str(reparsed(graph.module)) == str(graph.module)


def test_programs_copy_between_fields(tmp_path: Path) -> None:
    model = compile_source(FixedSource(network), places=["acme/f32", "host"])
    for seed in (2, 3):
        x = sample(seed, 4, 4)
        np.testing.assert_array_equal(model(x), wanted(x))
    memories = [(dict(a)["memory"], dict(b)["memory"]) for a, b in FIELDS.moves]
    assert memories == [("global", "local")] + 2 * [("global", "local"), ("local", "global")]
    rows = {row.kernel for row in model.profile(x, runs=1).rows}
    assert "acme to memory=local tiling=linear" in rows
    conversions = model.explain().conversions
    assert [c for c in conversions if (c["source"], c["target"]) == (GLOBAL, LOCAL)]
    model.save(tmp_path / "model.tsl")
    loaded = tessella.load(tmp_path / "model.tsl")
    np.testing.assert_array_equal(loaded(x), wanted(x))
    del model, loaded


def exponential() -> Graph:
    g = GraphBuilder(x=sample(0, 4))
    return g.graph(g.op(nn.ExpOp, [g.inputs["x"]]))


def test_a_copy_that_the_device_cannot_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with registered(kernel(nn.ExpOp, tiling="2d")):
        model = compile_source(FixedSource(exponential), places=["acme/f32", "host"])
    with pytest.raises(ExecutionError, match="cannot copy from tiling=2d"):
        model(sample(0, 4))
    monkeypatch.setattr(FieldDevice, "copy", lambda *_: 1 // 0)
    with pytest.raises(ExecutionError, match="'acme' raised ZeroDivisionError") as caught:
        model(sample(0, 4))
    assert caught.value.where == "the copy from acme to memory=global tiling=2d"


def test_other_fields_are_a_fallback() -> None:
    found = pick(network(), "acme/f32/nchw/memory=local", "host")
    assert places(found) == [GLOBAL, LOCAL, LOCAL, GLOBAL]
    assert [op.fallback for op in found] == ["fields", None, None, "fields"]
    with pytest.raises(UnsupportedError, match=r"a fallback \(fields\), and those are refused"):
        pick(network(), "acme/f32/nchw/memory=local", fallback="error")
    with registered(kernel(nn.NegOp, "both", 1.0, memory="local")):
        found = pick(network(), "acme/f32/nchw/memory=local", "host")
        assert places(found) == [LOCAL] * 4
        found = pick(network(), "acme/f32/nchw/memory=local", "acme/f32", strategy="grade")
        assert places(found) == [LOCAL] * 4
        found = pick(network(), "acme/f32", "acme/f32/nchw/memory=local", strategy="grade")
        assert places(found) == [GLOBAL, LOCAL, LOCAL, GLOBAL]


def test_grades_compare_fields_with_the_layout() -> None:
    here, there = map(parse_place, (GLOBAL, LOCAL))
    assert valid_place("acme") == valid_place("acme/f32") == here
    assert str(valid_place("acme/memory=local")) == LOCAL
    scores = [place_score(here, place, values_match=False) for place in (here, there)]
    assert scores[0] - scores[1] == ((1 << 31) - 1) // 4


def test_pins_with_fields() -> None:
    with registered(kernel(nn.NegOp, "both", 1.0, memory="local")):
        pins = ("nn.neg=acme/f32/nchw/memory=local",)
        assert places(pick(network(), "acme/f32", "host", pins=pins)) == [LOCAL] * 4
    options = Options(pin={"nn.neg": "acme/f32/nchw/memory=local"})
    with pytest.raises(UnsupportedError, match="memory=local' leaves no kernel"):
        compile_source(FixedSource(network), places=["acme/f32", "host"], options=options)


def test_passes_may_need_kernels_at_fields() -> None:
    asked = parse_place("acme/f32")
    assert serves("nn.add at acme/f32/nchw/memory=local", asked)
    assert not serves("nn.neg at acme/f32/nchw/memory=local", asked)
    assert not serves("nn.add at acme/f32/nchw/memory=local", parse_place(GLOBAL))


def test_unknown_fields_are_refused_everywhere() -> None:
    wrong: list[dict[str, Any]] = [
        {"places": ["acme/f32/nchw/memory=far"]},
        {"options": Options(pin={"nn.neg": "acme/f32/nchw/memory=far"})},
    ]
    for options in wrong:
        with pytest.raises(OptionError, match="unknown part 'memory=far'") as caught:
            compile_source(FixedSource(network), **options)
        assert "one of memory=global, memory=local" in str(caught.value)
    with pytest.raises(OptionError, match="unknown part 'memory=local'"):
        tessella.array(sample(0, 4), place="x86/f32/nchw/memory=local")


@pytest.mark.parametrize(
    "broken, message",
    [
        ({"fields": {"memory": "far"}}, "unknown field 'memory=far'"),
        ({"operands": {-1: parse_place("any")}}, None),
        ({"operands": {-1: "acme/memory=local"}}, "states fields of a result"),
    ],
)
def test_kernels_with_wrong_fields(broken: dict[str, Any], message: str | None) -> None:
    stated = {
        number: parse_place(place) if isinstance(place, str) else place
        for number, place in broken.get("operands", {}).items()
    }
    made = Kernel(
        "k", nn.NegOp, "acme", (NCHW,), None, cost=constant_cost(1.0), operands=stated,
        source=lambda _: Source(""), fields=broken.get("fields", {}),
    )  # fmt: skip
    if message is None:
        with registered(made):
            return
    with pytest.raises(InternalError, match=message), registered(made):
        pass


def test_generated_kernels_have_no_fields() -> None:
    with pytest.raises(InternalError, match="other kernels run at the defaults"):
        Kernel("k", nn.NegOp, "cpu", cost=constant_cost(1.0), fields={"memory": "local"})


def test_operands_at_other_fields() -> None:
    made = Kernel(
        "mixed",
        nn.SubOp,
        "acme",
        (NCHW,),
        rows(["f32"]),
        cost=constant_cost(1e-6),
        operands={1: parse_place("acme/any/any/memory=local"), 0: parse_place("acme")},
    )
    g = GraphBuilder(x=sample(0, 4), y=sample(1, 4))
    x = g.op(nn.AbsOp, [g.inputs["x"]])
    graph = g.graph(g.op(nn.SubOp, [x, g.inputs["y"]]))
    with registered(made):
        pick(graph, "acme/f32")
    [sub] = [op for op in ops(graph) if op.name == "nn.sub"]
    assert [str(place_of(operand.type)) for operand in sub.operands] == [LOCAL, LOCAL]
