"""Profiles: what is measured, where it is shown, and what stays as it was."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import tessella
from tessella import Model, targets
from tessella.runtime import program
from tessella.runtime.pool import ThreadPool
from tessella.runtime.profile import Profile, roof
from tessella.support.errors import ExecutionError, InputError, OptionError
from tessella.support.knobs import KNOBS
from tests.frontends.onnx.models import Array, model, value
from tests.generators.scans import make
from tests.hostile.models import X, mixed
from tests.models import load_model, random_inputs
from tests.native import normal

ROWS, INNER = 256, 512
WEIGHTS = {"w": normal(INNER, INNER) / np.float32(INNER)}


@pytest.fixture(scope="module")
def products() -> Model:
    """Two calls of one kernel, on two threads."""
    pairs = (("x", "h"), ("h", "y"))
    nodes = [helper.make_node("MatMul", [a, "w"], [b], name=f"to {b}") for a, b in pairs]
    size = [ROWS, INNER]
    proto = model(nodes, [value("x", size)], [value("y", size)], weights=WEIGHTS)
    return tessella.compile(proto, threads=2)


@pytest.fixture(scope="module")
def profile(products: Model) -> Profile:
    return products.profile(normal(ROWS, INNER), runs=5)


def _kernels(profile: Profile) -> list[Any]:
    return [row for row in profile.rows if row.kind == "kernel"]


def test_the_calls_of_a_kernel_are_told_apart(profile: Profile) -> None:
    (first, second) = [row for row in _kernels(profile) if row.nodes in (("to h",), ("to y",))]
    assert (first.nodes, second.nodes) == (("to h",), ("to y",))
    assert first.kernel == second.kernel


def test_work_is_that_of_a_product(profile: Profile) -> None:
    for row in _kernels(profile):
        assert row.calls == 1
        assert row.operations == 2 * ROWS * INNER * INNER
        assert row.bytes == 4 * (2 * ROWS * INNER + INNER * INNER)
        assert row.flops * row.seconds == pytest.approx(row.operations)
        assert row.bandwidth * row.seconds == pytest.approx(row.bytes)
        assert row.of_roof * row.seconds == pytest.approx(row.roof)
        assert row.ratio * row.seconds == pytest.approx(row.estimate)
        assert row.estimate > 0


def test_threads_are_busy_while_a_row_takes(profile: Profile) -> None:
    assert profile.runs == 5
    spent = sum(sum(row.busy) / profile.threads for row in profile.rows)
    assert spent > 0
    for row in profile.rows:
        assert len(row.busy) == profile.threads
        assert row.seconds >= 0.999 * max(row.busy)


def test_the_roofline_by_hand() -> None:
    target = replace(
        targets.get("avx2"), fma_ports=2, vector_bits=256, ghz=2.0, l1=1000, l1_bandwidth=50.0
    )
    assert roof(32_000, 0, 32, target, 1) == pytest.approx(1000 / 2e9)
    assert roof(32_000, 0, 64, target, 1) == pytest.approx(2000 / 2e9)
    assert roof(32_000, 0, 32, target, 4) == pytest.approx(250 / 2e9)
    assert roof(0, 1000, 32, target, 1) == pytest.approx(20 / 2e9)
    far = 10 * target.l3
    assert roof(0, far, 32, target, 1) == pytest.approx(far / target.memory_bandwidth / 2e9)


def test_the_table_has_a_line_for_each_row_and_says_what_a_run_takes(profile: Profile) -> None:
    lines = str(profile).splitlines()
    assert lines[0].split()[:3] == ["kernel", "nodes", "runs"]
    assert sum("to " in line for line in lines) == 2
    assert f"a run takes {profile.seconds * 1e6:.1f} us" in str(profile)


def test_json_has_what_the_table_has(profile: Profile) -> None:
    found = json.loads(profile.to_json())
    assert found["totals"]["seconds"] == profile.seconds
    assert [tuple(step["nodes"]) for step in found["steps"]] == [row.nodes for row in profile.rows]
    calls = [call for step in found["steps"] for call in step["calls"]]
    assert [call["operations"] for call in calls] == [row.operations for row in profile.rows]


def test_a_trace_has_threads_and_barriers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # a pool of its own, whose runs have all threads on busy cores too
    monkeypatch.setattr(KNOBS, "elastic", False)
    monkeypatch.setattr(program, "POOL", ThreadPool())
    nodes = make(("MatMul", "x w", "h"), ("MatMul", "h h", "y"))
    size = [INNER, INNER]
    proto = model(nodes, [value("x", size)], [value("y", size)], weights=WEIGHTS)
    profile = tessella.compile(proto, threads=2).profile(normal(INNER, INNER), runs=20)
    profile.trace(tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    names = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert names == [f"thread {i}" for i in range(profile.threads)]
    assert {event["tid"] for event in spans} == set(range(profile.threads))
    if profile.threads > 1:
        assert any(event["name"] == "barrier" for event in spans)
    for thread in range(profile.threads):
        own = [event for event in spans if event["tid"] == thread]
        ends = [0.0, *(event["ts"] + event["dur"] for event in own)]
        starts = [*(event["ts"] for event in own), np.inf]
        assert all(end <= start + 1e-3 for end, start in zip(ends, starts, strict=True))


def test_a_trace_that_cannot_be_written(profile: Profile, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="cannot write the trace"):
        profile.trace(tmp_path / "no" / "t.json")


@pytest.mark.usefixtures("sums_in_numpy")
def test_steps_in_numpy() -> None:
    profile = tessella.compile(mixed()).profile({"x": X}, runs=3)
    kinds = Counter(row.kind for row in profile.rows)
    assert kinds["numpy"] == 1
    (row,) = (row for row in profile.rows if row.kind == "numpy")
    assert (row.kernel, row.nodes, row.operations) == ("nn.cumsum", ("sums",), None)
    assert profile.rows[-1] is row  # after the native ones
    assert row.seconds > 0


@pytest.mark.parametrize("threads", [1, 2])
def test_loaded_models_are_profiled_as_compiled_ones(threads: int, tmp_path: Path) -> None:
    proto = load_model("gru_tagger")
    feeds = random_inputs(proto)
    compiled = tessella.compile(proto, threads=threads)
    compiled.save(tmp_path / "m.tsl")
    both = compiled, tessella.load(tmp_path / "m.tsl", threads=threads)
    rows = [
        [
            (row.kernel, row.nodes, row.calls, row.operations, row.bytes)
            for row in _kernels(each.profile(feeds, runs=2))
        ]
        for each in both
    ]
    assert rows[0] == rows[1]
    assert max(calls for _, _, calls, *_ in rows[0]) == 128  # the steps of a loop


def test_subprograms() -> None:
    nodes = make(
        ("Exp", "x", "e"),
        ("ReduceSum", "e", "sum", {"keepdims": 0}),
        ("Cast", "sum", "size", {"to": TensorProto.INT64}),
        ("SplitToSequence", "e size", "parts"),
        ("SequenceAt", "parts first", "n"),
        ("Neg", "n", "y"),
    )
    weights = {"first": np.array(0)}
    proto = model(nodes, [value("x", ["a", "b"])], [value("y", ["n", "b"])], weights=weights)
    profile = tessella.compile(proto).profile(np.eye(3, dtype=np.float32), runs=2)
    where = {row.where for row in _kernels(profile)}
    assert "" in where
    assert any("SequenceAt" in each for each in where)
    [step] = [row for row in profile.rows if row.kernel == "split_to_sequence"]
    assert (step.kind, step.nodes, step.calls) == ("numpy", ("SplitToSequence_3",), 1)
    assert step.seconds > 0
    assert "split_to_sequence" in {span.name for span in profile.spans}
    assert profile.other > 0


def _addresses(model: Model) -> list[int]:
    return [id(part.runs.program) for part in model._parts()]


def test_a_model_is_as_before(products: Model) -> None:
    x = normal(ROWS, INNER)
    before, programs = products(x), _addresses(products)
    products.profile(x, runs=1)
    assert _addresses(products) == programs
    np.testing.assert_array_equal(products(x), before)


def test_a_run_that_fails(products: Model) -> None:
    gather = helper.make_node("Gather", ["x", "i"], ["y"])
    inputs = [value("x", [4]), value("i", [2], np.int64)]
    compiled = tessella.compile(model([gather], inputs, [value("y", [2])]))
    good: dict[str, Array] = {"x": normal(4), "i": np.array([0, 1])}
    compiled.run(None, good)
    programs = _addresses(compiled)
    with pytest.raises(ExecutionError):
        compiled.profile({**good, "i": np.array([0, 9])})
    assert _addresses(compiled) == programs
    assert compiled.profile(good, runs=1).rows


def test_wrong_inputs(products: Model) -> None:
    x = normal(ROWS, INNER)
    with pytest.raises(InputError, match="number of inputs"):
        products.profile([x, x])
    with pytest.raises(OptionError, match="runs"):
        products.profile([x], runs=0)
