"""Convolutions by Winograd's method: sizes, padding, batches, and rounding errors."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.printing import to_text
from tessella.driver.options import Options
from tessella.frontends.compile import compile
from tessella.kernels.registry import kernels_of, registered
from tessella.kernels.winograd import POINTS, TAPS, transforms
from tests.models import lowered_for, run_onnxruntime
from tests.native import EVERYWHERE, Array, GraphBuilder, check, check_op, normal
from tests.sampling import seeds

tiles = pytest.mark.parametrize("m", POINTS)
widths = pytest.mark.parametrize("target", EVERYWHERE)
PLAIN: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "groups": 1}


@contextmanager
def cheap(m: int) -> Generator[None]:
    """The kernel costs nothing, and declares no work, and so is picked wherever it applies."""
    g = GraphBuilder(x=np.zeros((1, 1, 3, 3), np.float32))
    w = g.weight(np.zeros((1, 1, 3, 3), np.float32))
    op = nn.ConvOp.make([g.inputs["x"], w], pads=(0, 0, 0, 0), **PLAIN)
    kernel = next(k for k in kernels_of(op) if k.name == f"winograd{m}")
    with registered(replace(kernel, name="cheap", cost=lambda _, __: 1e-12, work=None)):
        yield


@tiles
def test_the_transforms_are_exact(m: int) -> None:
    """In fractions, the transforms give a correlation: with the finite points, and infinity."""
    t = transforms(POINTS[m], TAPS)
    n = m + TAPS - 1
    assert (t.a.shape, t.b.shape, t.g.shape) == ((m, n), (n, n), (n, TAPS))
    a, b, g = ([[Fraction(x).limit_denominator(10**6) for x in row] for row in each.tolist()]
               for each in (t.a, t.b, t.g))  # fmt: skip
    for u in range(m):
        for k in range(TAPS):
            for i in range(n):
                total = sum(a[u][p] * g[p][k] * b[p][i] for p in range(n))
                assert total == (i == u + k)


@tiles
@widths
@pytest.mark.parametrize(
    "x, out, pads",
    [
        ((1, 16, 8, 8), 16, (1, 1, 1, 1)),
        ((1, 17, 9, 12), 35, (1, 1, 1, 1)),
        ((2, 16, 7, 14), 16, (0, 0, 0, 0)),
        ((3, 20, 13, 6), 48, (2, 0, 1, 3)),
        ((1, 16, 4, 31), 64, (0, 2, 4, 1)),
        ((1, 64, 30, 5), 16, (1, 1, 1, 1)),
    ],
)
def test_sizes(x: tuple[int, ...], out: int, pads: tuple[int, ...], m: int, target: str) -> None:
    w, b = normal(out, x[1], 3, 3, seed=1) / 12, normal(out, seed=2)
    with cheap(m):
        model = check_op(
            nn.ConvOp, [normal(*x), w, b], constants=(1, 2), target=target, pads=pads, **PLAIN,
            rtol=1e-4, atol=1e-4,
        )  # fmt: skip
        assert [op["kernel"] for op in model.explain().ops] == ["cheap"]


@pytest.mark.sweep
@tiles
def test_random_sizes(m: int) -> None:
    rng = np.random.default_rng(m)
    with cheap(m):
        for case in seeds(12):
            n, c, o, h, w = (
                int(rng.integers(*r)) for r in ((1, 3), (16, 40), (16, 70), (4, 23), (4, 23))
            )
            pads = tuple(map(int, rng.integers(0, 3, 4)))
            operands = [normal(n, c, h, w, seed=case), normal(o, c, 3, 3, seed=case) / 12]
            check_op(nn.ConvOp, operands, constants=(1,), pads=pads, **PLAIN, atol=1e-4)


@tiles
@pytest.mark.parametrize("extent", [12, 15])
def test_what_follows_is_part_of_the_kernel(m: int, extent: int) -> None:
    """Bias, activation and residual are computed before the one store."""
    x, w, b = normal(1, 32, extent, extent), normal(32, 32, 3, 3) / 12, normal(32)

    def make() -> Graph:
        g = GraphBuilder(x=x)
        y = g.op(nn.ConvOp, [g.inputs["x"], g.weight(w), g.weight(b)], pads=(1, 1, 1, 1), **PLAIN)
        return g.graph(g.op(nn.ReluOp, [g.op(nn.AddOp, [y, g.inputs["x"]])]))

    with cheap(m):
        model = check(make, {"x": x}, atol=1e-4)
        last = model.as_text("tile").split("tile.kernel")
        [kernel] = [text for text in last if "cheap" in text and "contract +" in text]
        assert kernel.count("tile.contract") == 5


def conv_model(x: Array, w: Array, b: Array) -> onnx.ModelProto:
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1])
    shape = [x.shape[0], w.shape[0], *x.shape[2:]]
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def reference(x: Array, w: Array, b: Array) -> Array:
    """Return the result in float64."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    total = np.einsum("ncyxij,ocij->noyx", windows, w.astype(np.float64), optimize=True)
    return total + b.astype(np.float64)[None, :, None, None]


@tiles
@pytest.mark.parametrize("offset, scale", [(0.0, 1.0), (100.0, 1.0), (-1e4, 1.0), (3.0, 1e-3)])
@pytest.mark.parametrize("channels", [16, 128, 512])
def test_rounding_errors(channels: int, offset: float, scale: float, m: int) -> None:
    """At most four times those of a direct convolution, on inputs far from zero too."""
    rng = np.random.default_rng(channels)
    x = (offset + scale * rng.standard_normal((1, channels, 14, 14))).astype(np.float32)
    w = (rng.standard_normal((32, channels, 3, 3)) / np.sqrt(9 * channels)).astype(np.float32)
    b = rng.standard_normal(32).astype(np.float32)
    made, wanted = conv_model(x, w, b), reference(x, w, b)
    with cheap(m):
        ours = compile(made)(x)
    peers = run_onnxruntime(made, {"x": x})[0]
    mine, theirs = (np.sqrt(np.mean((y - wanted) ** 2)) for y in (ours, peers))
    assert mine <= 4 * theirs, f"{mine / theirs:.2f} times ONNX Runtime's error"


@pytest.mark.parametrize("extent", [64, 61])
def test_rows_of_tiles_share_a_loop(extent: int) -> None:
    """Intermediates have room for one step, in each thread's memory. Tiles need not divide the
    image."""
    x, w, b = normal(1, 64, extent, extent), normal(64, 64, 3, 3) / 24, normal(64)
    with cheap(4):
        early, late = (
            to_text(lowered_for(conv_model(image, w, b), "avx512").stages["tile"])
            for image in (x, x[..., :8, :8])
        )
    assert "#tile.nest<[16 by 1 parallel 1]" in early
    assert "#tile.nest" not in late


@pytest.mark.parametrize("extent", [56, 57, 59])
@tiles
def test_bits_are_those_of_one_thread(m: int, extent: int) -> None:
    x, w, b = normal(1, 64, extent, extent), normal(64, 64, 3, 3) / 24, normal(64)
    made = conv_model(x, w, b)
    with cheap(m):
        model = compile(made, threads=5)
    first = model(x)
    [program] = model._known_programs()
    np.testing.assert_allclose(first, reference(x, w, b), atol=1e-4)
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(program.run([x], threads)[0], first)


@pytest.mark.parametrize(
    "settings, kernel, reason",
    [
        ({"strides": (2, 2)}, 3, "no convolution of 3x3 with stride 1"),
        ({"dilations": (2, 2)}, 3, "no convolution of 3x3 with stride 1"),
        ({}, 1, "no convolution of 3x3 with stride 1"),
        ({}, 3, "not known"),
    ],
)
def test_what_it_does_not_compute(settings: dict[str, Any], kernel: int, reason: str) -> None:
    x, w = normal(1, 16, 12, 12), normal(16, 16, kernel, kernel) / 12
    constants = () if reason == "not known" else (1,)
    settings = {"pads": (0, 0, 0, 0), **PLAIN, **settings}
    model = check_op(nn.ConvOp, [x, w], constants=constants, **settings)
    [op] = model.explain().ops
    rejected = {each["kernel"]: each["reason"] for each in op["rejected"]}
    assert op["kernel"] == "conv"
    assert reason in rejected["winograd2"]
    assert reason in rejected["winograd4"]


def test_channels_and_images_that_are_too_small() -> None:
    for channels, extent, reason in ((15, 12, "fewer than 16"), (16, 1, "no fewer products")):
        x, w = normal(1, channels, extent, extent), normal(16, channels, 3, 3) / 12
        model = check_op(nn.ConvOp, [x, w], constants=(1,), pads=(1, 1, 1, 1), **PLAIN)
        [op] = model.explain().ops
        rejected = {each["kernel"]: each["reason"] for each in op["rejected"]}
        assert reason in rejected["winograd4"]


def test_the_option_refuses_it() -> None:
    x, w, b = normal(1, 64, 28, 28), normal(64, 64, 3, 3) / 24, normal(64)
    made = conv_model(x, w, b)
    [op] = compile(made).explain().ops[:1]
    assert str(op["kernel"]).startswith("winograd")
    model = compile(made, options=Options(kernels="-winograd"))
    [op] = model.explain().ops[:1]
    assert op["kernel"] == "conv"
    rejected = {each["kernel"]: each["reason"] for each in op["rejected"]}
    assert rejected["winograd2"] == "-winograd turns it off"
    np.testing.assert_allclose(model(x), reference(x, w, b), rtol=1e-4, atol=1e-4)
