"""Measured kernels: what is measured, in which order, and that the pick goes by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tessella import targets
from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.layout import NCHW, NHWC, Layout
from tessella.driver.compile import compile_source
from tessella.driver.options import CheckedOptions, Options, make_options
from tessella.driver.tune import tune as tuning
from tessella.driver.tune.tune import tune, units
from tessella.kernels.registry import Kernel, registered
from tessella.support.errors import OptionError
from tessella.targets import database
from tessella.targets.database import Database, Timing
from tests.native import FixedSource, GraphBuilder, normal

WINDOW: dict[str, Any] = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1), "groups": 1}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "TURNS", 4)
    monkeypatch.setattr(tuning, "COPIES", 2)


def convolutions(*sizes: int) -> Callable[[], Graph]:
    """A chain of 3x3 convolutions of images of 8 channels for each size, twice the last one."""

    def make() -> Graph:
        g = GraphBuilder(**{f"x{n}": normal(1, 8, n, n) for n in sizes})
        results: list[Any] = []
        for value, count in zip(g.inputs.values(), [1] * (len(sizes) - 1) + [3], strict=True):
            for i in range(count):
                w = g.weight(normal(8, 8, 3, 3, seed=i))
                value = g.op(nn.ConvOp, [value, w], **WINDOW)
            results.append(value)
        return g.graph(*results)

    return make


def options(path: Path, **changes: Any) -> CheckedOptions:
    return make_options(threads=1, options=Options(pick="measure", database=str(path)), **changes)


def test_ops_that_take_longest_come_first(tmp_path: Path) -> None:
    database.update(tmp_path / "x.json", Database())
    listed = units(convolutions(40, 12, 16)(), options(tmp_path / "x.json"))
    # an input of the program is colder than what an op has made
    sizes = [(unit.op.results[0].type.get_shape()[-1], unit.count) for unit in listed]  # pyright: ignore
    assert sizes == [(40, 1), (16, 2), (16, 1), (12, 1)]
    assert all(len(unit.candidates) == 2 for unit in listed)


def test_what_is_measured_is_in_the_database(tmp_path: Path) -> None:
    chosen = options(tmp_path / "x.json")
    made = tune(convolutions(12)(), chosen, 60.0)
    assert {(m.kernel, m.place) for m in made} == {
        ("conv", "x86/f32/nhwc"),
        ("conv", "x86/f32/nchw"),
    }
    target = targets.native()
    times = database.of_this_machine(chosen.database, target)
    assert times == {m.key: m.timing for m in made}
    for m in made:
        assert m.seconds == pytest.approx(m.timing.cycles / (target.ghz * 1e9))
        assert m.seconds > 0
        assert m.timing.runs == 4
    # none is measured twice
    assert tune(convolutions(12)(), chosen, 60.0) == []


def test_no_more_is_measured_than_the_budget_allows(tmp_path: Path) -> None:
    chosen = options(tmp_path / "x.json")
    assert tune(convolutions(12)(), chosen, 0.0) == []
    assert database.of_this_machine(chosen.database, targets.native()) == {}


def test_kernels_that_cannot_be_built_are_left_out(tmp_path: Path) -> None:
    far = Kernel("far", nn.ConvOp, "opencl", (NCHW,), cost=lambda op, target: 2e-6)
    with registered(far):
        chosen = options(tmp_path / "x.json", places=["opencl", "x86/f32"])
        made = tune(convolutions(12)(), chosen, 60.0)
    assert {m.kernel for m in made} == {"conv"}


def test_another_machine_cannot_be_measured(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="cannot run code for"):
        tune(convolutions(12)(), replace(options(tmp_path / "x.json"), target="neon"), 1.0)


def slowed(path: Path, layout: Layout) -> None:
    """Let the kernels in a layout be the slow ones."""
    target = targets.native()
    where = database.this_machine(target)
    times = database.of_this_machine(str(path), target)
    slow = {k: Timing(1e9 if k.endswith(f"/{layout}") else 1.0, 0.0, 99) for k in times}
    database.update(path, Database({where: slow}))


@pytest.mark.parametrize("slow, fast", [(NHWC, NCHW), (NCHW, NHWC)])
def test_the_pick_goes_by_measured_times(tmp_path: Path, slow: Layout, fast: Layout) -> None:
    path, make = tmp_path / "x.json", convolutions(12)
    tune(make(), options(path), 60.0)
    slowed(path, slow)
    model = compile_source(FixedSource(make), threads=1, options=Options(database=str(path)))
    explanation = model.explain()
    assert {e["place"] for e in explanation.ops} == {f"x86/f32/{fast}"}
    assert all(e["measured"] for e in explanation.ops)
    assert explanation.pick is not None
    assert explanation.pick["database"] == str(path)
    assert "(measured)" in str(explanation)
    x = normal(1, 8, 12, 12)
    np.testing.assert_allclose(
        model(x), compile_source(FixedSource(make), threads=1)(x), rtol=1e-3, atol=1e-3
    )


def test_without_a_time_an_estimate_is_scaled_as_those_beside_it(tmp_path: Path) -> None:
    path, make = tmp_path / "x.json", convolutions(12)
    made = tune(make(), options(path), 60.0)
    target = targets.native()
    times = database.of_this_machine(str(path), target)
    slow = {k: Timing(1e9, 0.0, 99) for k in times if k.endswith("/nhwc")}
    path.unlink()
    database.update(path, Database({database.this_machine(target): slow}))
    ops = (
        compile_source(FixedSource(make), threads=1, options=Options(database=str(path)))
        .explain()
        .ops
    )
    # all is ten thousand times slower than estimated, so nothing but the estimates counts
    best = min(made, key=lambda m: m.estimated)
    assert {e["place"] for e in ops} == {best.place}


def test_a_model_is_measured_before_it_is_compiled(tmp_path: Path) -> None:
    path, make = tmp_path / "x.json", convolutions(12)
    steps: list[str] = []
    model = compile_source(
        FixedSource(make),
        options=Options(pick="measure", database=str(path)),
        threads=1,
        progress=steps.append,
    )
    assert any(step.startswith("op 1 of 2: nn.conv") for step in steps)
    assert all(e["measured"] for e in model.explain().ops)
    x = normal(1, 8, 12, 12)
    expected = compile_source(FixedSource(make), threads=1)(x)
    np.testing.assert_allclose(model(x), expected, rtol=1e-3, atol=1e-3)


def test_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSELLA_DB", "from/the/environment")
    assert make_options().database == "from/the/environment"
    assert make_options(options=Options(database="mine")).database == "mine"
    monkeypatch.delenv("TESSELLA_DB")
    assert make_options().database == ""
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path))
    assert make_options(options=Options(pick="measure")).database == str(tmp_path / "times.json")
    monkeypatch.setenv("TESSELLA_CACHE", "off")
    with pytest.raises(OptionError, match="where measured times are kept"):
        make_options(options=Options(pick="measure"))
    for wrong in (-1.0, float("inf"), float("nan")):
        with pytest.raises(OptionError, match="budget"):
            Options(budget=wrong)
    with pytest.raises(OptionError, match="wrong type"):
        Options(budget="10")  # pyright: ignore
    with pytest.raises(OptionError, match="cannot be read"):
        compile_source(
            FixedSource(convolutions(12)), options=Options(database=str(tmp_path / "none"))
        )


@pytest.mark.parametrize("groups", [1, 20])
def test_blocks_with_padding_are_measured(
    tmp_path: Path, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 channels in blocks of 16: operands and results have 12 channels more in memory."""
    monkeypatch.setattr(tuning, "FAR", 1e9)

    def make() -> Graph:
        g = GraphBuilder(x=normal(1, 20, 9, 9))
        y = g.op(nn.ReluOp, [g.inputs["x"]])
        w = g.weight(normal(20, 20 // groups, 3, 3))
        return g.graph(g.op(nn.ConvOp, [y, w], **WINDOW | {"groups": groups}))

    arch = targets.native().arch
    places = [f"{arch}/f32/nchw16c", f"{arch}/f32/nchw"]
    made = tune(make(), options(tmp_path / "x.json", places=places), 60)
    assert {m.place for m in made if m.key.startswith("nn.conv")} == {*places}
