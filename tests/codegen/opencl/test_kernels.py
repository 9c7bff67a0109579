"""Kernels on an OpenCL device, against NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

import tessella
from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.interpret import interpret
from tessella.runtime import opencl
from tessella.runtime.device_steps import CopyStep, DeviceStep
from tessella.runtime.devices import Memory, Source
from tessella.runtime.opencl import BINARIES, OPENCL, OpenClDevice
from tessella.support.errors import ExecutionError, InternalError
from tessella.targets.device_facts import DeviceFacts
from tests.native import GraphBuilder, OneOp, build, in_numpy, normal, one_op

pytestmark = pytest.mark.skipif(not OPENCL.is_present(), reason="there is no OpenCL device")

PLACES = ["opencl/f32", "host"]
IMAGE = normal(2, 6, 11, 9)
ROWS = normal(5, 7, 33)
ODD = normal(3, 130)
ODD[0, 0] = np.nan

WINDOW = {"strides": (2, 2), "pads": (1,) * 4, "dilations": (1, 1)}
SAME = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1)}
ODD_WINDOW = {"strides": (2, 1), "pads": (1, 2, 0, 1), "dilations": (1, 2)}
POOL: dict[str, Any] = {**WINDOW, "kernel_shape": (3, 3), "ceil_mode": False}

GROUPS = {
    "convolutions": [
        one_op(nn.ConvOp, IMAGE, normal(10, 6, 3, 3), normal(10), **SAME, groups=1),
        one_op(nn.ConvOp, IMAGE, normal(4, 6, 3, 3), **ODD_WINDOW, groups=1),
        one_op(nn.ConvOp, IMAGE, normal(6, 1, 3, 3), **SAME, groups=6),
    ],
    "products": [
        one_op(nn.MatmulOp, normal(37, 300), normal(300, 65), transpose_b=False),
        one_op(nn.MatmulOp, ROWS, normal(8, 33), transpose_b=True),
    ],
    "rows": [
        one_op(nn.SoftmaxOp, ROWS, axis=2),
        one_op(nn.LayerNormOp, ROWS, normal(33), normal(33), axis=2, epsilon=1e-5),
        one_op(nn.ReduceMaxOp, ODD, axes=(0,), keepdims=False),
        one_op(nn.ReduceSumOp, normal(70, 90), axes=(0, 1), keepdims=False),
    ],
    "windows": [
        one_op(nn.MaxPoolOp, IMAGE, **POOL),
        one_op(nn.AvgPoolOp, IMAGE, **POOL, count_include_pad=False),
        one_op(nn.TransposeOp, ROWS, perm=(2, 0, 1)),
        one_op(nn.ReduceMeanOp, normal(2, 6, 1, 1), axes=(2, 3), keepdims=False),
    ],
    "moved elements": [
        one_op(nn.ConcatOp, ROWS, normal(5, 2, 33), normal(5, 300, 33), axis=1),
        one_op(nn.GatherOp, ROWS, np.array([[3, -1], [0, 6]]), axis=1),
        one_op(nn.GatherElementsOp, ROWS, np.arange(15).reshape(5, 1, 3) % 7, axis=1),
        one_op(nn.GatherNdOp, ROWS, np.array([[4, 0], [-5, 6]]), batch_dims=0),
    ],
}
"""Ops that run as one program."""


@pytest.fixture(params=[False, True], ids=["in place", "local memory"])
def facts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> DeviceFacts:
    """The facts of the device, with and without local memory that is faster than the caches."""
    made = replace(OPENCL.facts, has_local_memory=request.param)
    monkeypatch.setitem(OPENCL.__dict__, "_found", made)
    return made


def on_device(ops: Sequence[OneOp], tolerance: float = 1e-5) -> None:
    """Assert that a program of ops runs on the device alone, with the results of NumPy."""
    inputs = {f"x{n}": op.operands[0] for n, op in enumerate(ops)}

    def make() -> Graph:
        g = GraphBuilder(**inputs)
        results: list[SSAValue] = []
        for n, op in enumerate(ops):
            rest = [g.weight(a, f"w{n}.{i}") for i, a in enumerate(op.operands[1:])]
            results.append(g.op(op.kind, [g.inputs[f"x{n}"], *rest], **op.settings))
        return g.graph(*results)

    model = build(make, places=PLACES)
    found = model.run(None, inputs)
    assert all(isinstance(step, CopyStep | DeviceStep) for step in in_numpy(model))
    for y, wanted in zip(found, interpret(make(), inputs), strict=True):
        np.testing.assert_allclose(y, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", GROUPS)
def test_kernels(name: str, facts: DeviceFacts) -> None:
    on_device(GROUPS[name])


def test_small_groups_and_tiles(facts: DeviceFacts, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(facts, group_items=8, local_bytes=1024, register_bytes=64, units=64)
    monkeypatch.setitem(OPENCL.__dict__, "_found", small)
    on_device(
        [
            one_op(nn.MatmulOp, normal(13, 50), normal(50, 9), transpose_b=False),
            *GROUPS["windows"][:1],
        ]
    )


def test_a_group_is_one_launch() -> None:
    """A product, a sum and an activation leave no value in memory between them."""

    def make() -> Graph:
        g = GraphBuilder(x=ODD)
        product = g.op(nn.MatmulOp, [g.inputs["x"], g.weight(normal(130, 20))], transpose_b=False)
        added = g.op(nn.AddOp, [product, g.weight(normal(20), "b")])
        return g.graph(g.op(nn.TanhOp, [added]))

    model = build(make, places=PLACES)
    np.testing.assert_allclose(
        model.run(None, {"x": ODD})[0], interpret(make(), {"x": ODD})[0], rtol=1e-5, atol=1e-5
    )
    [step] = [step for step in in_numpy(model) if isinstance(step, DeviceStep)]
    assert len(step.calls) == 1
    assert step.arena_bytes == 0


def test_an_artifact_has_the_source(tmp_path: Path) -> None:
    def make() -> Graph:
        g = GraphBuilder(x=ROWS)
        return g.graph(g.op(nn.SoftmaxOp, [g.inputs["x"]], axis=2))

    model = build(make, places=PLACES)
    model.save(tmp_path / "model.tsl")
    loaded = tessella.load(tmp_path / "model.tsl")
    np.testing.assert_array_equal(loaded(ROWS), model(ROWS))
    kinds = {row.kind for row in model.profile(ROWS).rows}
    assert kinds == {"copy", "device"}


def test_an_index_out_of_range() -> None:
    """The word of the kernel is read where a result is read, and cleared by the next call."""
    table, inside = normal(5, 4), np.array([4, -5])

    def make() -> Graph:
        g = GraphBuilder(i=inside)
        rows = g.op(nn.GatherOp, [g.weight(table), g.inputs["i"]], axis=0)
        return g.graph(g.op(nn.SoftmaxOp, [rows], axis=1))

    model = build(make, places=PLACES)
    assert all(isinstance(step, CopyStep | DeviceStep) for step in in_numpy(model))
    for outside in (5, -6):
        with pytest.raises(ExecutionError, match="an index is out of range"):
            model(np.array([0, outside]))
        np.testing.assert_allclose(model(inside), interpret(make(), {"i": inside})[0], rtol=1e-5)


def test_a_concatenation_is_one_launch() -> None:
    def make() -> Graph:
        g = GraphBuilder(x=ROWS)
        parts = [g.inputs["x"], g.op(nn.TanhOp, [g.inputs["x"]]), g.weight(ROWS)]
        return g.graph(g.op(nn.ConcatOp, parts, axis=2))

    model = build(make, places=PLACES)
    np.testing.assert_allclose(
        model(ROWS), np.concatenate([ROWS, np.tanh(ROWS), ROWS], 2), rtol=1e-5, atol=1e-6
    )
    [step] = [step for step in in_numpy(model) if isinstance(step, DeviceStep)]
    assert len(step.calls) <= 2


def test_what_has_no_code_is_a_fallback() -> None:
    def make() -> Graph:
        g = GraphBuilder(x=ROWS)
        return g.graph(g.op(nn.CumsumOp, [g.inputs["x"]], axis=1, exclusive=False, reverse=False))

    model = build(make, places=PLACES)
    np.testing.assert_allclose(model(ROWS), np.cumsum(ROWS, 1), rtol=1e-5, atol=1e-6)
    assert "running index" in model.explain().why()


def test_the_pick_stays_on_a_cpu() -> None:
    """The OpenCL device is this CPU, so it cannot be worth copying values to it and back."""

    def make() -> Graph:
        g = GraphBuilder(x=ROWS)
        return g.graph(g.op(nn.SoftmaxOp, [g.inputs["x"]], axis=2))

    assert not in_numpy(build(make, places=["opencl/f32", "x86/f32"]))


def test_binaries_are_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A binary is read by its source; a broken one is compiled again."""
    monkeypatch.setattr(opencl, "CACHED_BY_DRIVER", frozenset[str]())
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path))
    compiled: list[str] = []

    def compile(self: OpenClDevice, *program: Any) -> Any:
        compiled.extend(each for each in program if isinstance(each, str))
        return made(self, *program)

    made = OpenClDevice._compiled
    monkeypatch.setattr(OpenClDevice, "_compiled", compile)
    text = "__kernel void k(__global float *b, long at) { b[at] = 7; }"
    source = Source(text, "k", (1,), (1,))
    OPENCL.build(source)
    assert compiled == [text]
    assert BINARIES.usage().entries == 1
    memory, found = Memory(OPENCL, 4), np.zeros(1, np.float32)
    OPENCL.launch(OPENCL.build(source), [memory.slice()], source.launch({}))
    OPENCL.read(memory.slice(), found)
    assert found == [7]
    assert len(compiled) == 1
    OPENCL.build(replace(source, text=text.replace("7", "8")))
    assert len(compiled) == 2
    BINARIES.put("\n".join((*OPENCL._made_by, text)), b"no binary")
    OPENCL.build(source)
    assert len(compiled) == 3
    OPENCL.build(source)
    assert len(compiled) == 3


def test_a_text_that_does_not_compile() -> None:
    with pytest.raises(InternalError, match="the OpenCL compiler refuses a kernel"):
        OPENCL.build(Source("__kernel void k() { this is no C }", "k", (1,), (1,)))
