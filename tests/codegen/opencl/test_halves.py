"""Floats that an OpenCL device stores in f16 and computes in f32, against NumPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import f16, f32
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.interpret import interpret
from tessella.runtime.device_steps import CopyStep, DeviceStep
from tessella.runtime.opencl import OPENCL
from tests.native import Array, GraphBuilder, build, in_numpy, normal, one_op

pytestmark = pytest.mark.skipif(not OPENCL.is_present(), reason="there is no OpenCL device")

IMAGE, ROWS = normal(1, 3, 9, 7).astype(np.float16), normal(5, 7, 33).astype(np.float16)
POOL = {"strides": (2, 2), "pads": (1,) * 4, "dilations": (1, 1), "kernel_shape": (3, 3)}
SAME = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1)}


def half(*shape: int) -> Array:
    return normal(*shape, seed=1).astype(np.float16)


OPS = [
    one_op(nn.ConvOp, IMAGE, half(4, 3, 3, 3), **SAME, groups=1),
    one_op(nn.MaxPoolOp, IMAGE, **POOL, ceil_mode=False),
    one_op(nn.MatmulOp, ROWS, half(33, 9), transpose_b=False),
    one_op(nn.ReduceMaxOp, ROWS, axes=(0, 2), keepdims=False),
    one_op(nn.ConcatOp, ROWS, half(5, 2, 33), axis=1),
    one_op(nn.GatherOp, ROWS, np.array([[3, -1], [0, 6]]), axis=1),
]
"""Ops on f16 that run as one program."""


@pytest.mark.parametrize(
    "is_local",
    [
        pytest.param(False, id="in place"),
        pytest.param(True, id="local memory", marks=pytest.mark.slow),
    ],
)
def test_kernels(is_local: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = replace(OPENCL.facts, has_local_memory=is_local)
    monkeypatch.setitem(OPENCL.__dict__, "_found", facts)
    inputs = {f"x{n}": op.operands[0] for n, op in enumerate(OPS)}

    def make() -> Graph:
        g = GraphBuilder(**inputs)
        results: list[SSAValue] = []
        for n, op in enumerate(OPS):
            rest = [g.weight(a, f"w{n}.{i}") for i, a in enumerate(op.operands[1:])]
            results.append(g.op(op.kind, [g.inputs[f"x{n}"], *rest], **op.settings))
        return g.graph(*results)

    model = build(make, places=["opencl/f16", "host"])
    found = model.run(None, inputs)
    assert all(isinstance(step, CopyStep | DeviceStep) for step in in_numpy(model))
    for y, wanted in zip(found, interpret(make(), inputs), strict=True):
        assert y.dtype == np.float16
        np.testing.assert_allclose(
            y.astype(np.float32), wanted.astype(np.float32), rtol=2e-3, atol=2e-3
        )


def test_conversions() -> None:
    """A float becomes the nearest f16, ties to even; each f16 becomes the same float."""
    limits = np.array([65519, 65520, -7e4, 2**-24, 2**-25, 3 * 2**-26, 0, -0.0], np.float32)
    ties = np.array([1 + 2**-11, 1 + 3 * 2**-11, np.inf, -np.inf, np.nan], np.float32)
    x = np.concatenate([limits, ties, normal(1000)])
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)

    def make() -> Graph:
        g = GraphBuilder(x=x, every=every)
        narrow = g.op(nn.CastOp, [g.inputs["x"]], to=f16)
        wide = g.op(nn.CastOp, [g.inputs["every"]], to=f32)
        return g.graph(narrow, wide)

    model = build(make, places=["opencl/f16", "opencl/f32", "host"])
    narrow, wide = model.run(None, {"x": x, "every": every})
    assert any(isinstance(step, DeviceStep) for step in in_numpy(model))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(narrow, x.astype(np.float16))
    np.testing.assert_array_equal(wide, every.astype(np.float32))


def test_a_list_of_places() -> None:
    """The places say whether an f32 model is stored in f16."""
    x = normal(16, 16)

    def make() -> Graph:
        g = GraphBuilder(x=x)
        return g.graph(g.op(nn.TanhOp, [g.inputs["x"]]))

    model = build(make, places=["opencl/f16", "host"])
    wanted = interpret(make(), {"x": x})[0]
    np.testing.assert_allclose(model(x), wanted, rtol=2e-3, atol=1e-4)
    [op] = model.explain().ops
    assert (op["place"], op["arithmetic"]) == ("opencl/f16/nchw", "f32")
