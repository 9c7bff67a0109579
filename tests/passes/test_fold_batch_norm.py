"""Folding of batch normalizations, scales and shifts: the same function with fewer ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.nn.core import NnOp, shape_of, tensor
from tessella.passes.fold_batch_norm import FoldBatchNormPass
from tessella.passes.fold_constants import FoldConstantsPass
from tests.native import Array, known_shape
from tests.passes.harness import GraphBuilder, check, names, ops, sample

PASSES = (FoldBatchNormPass(), FoldConstantsPass())
WINDOW: dict[str, Any] = {
    "strides": (2, 1), "pads": (1, 0, 0, 2), "dilations": (1, 1), "groups": 1
}  # fmt: skip
CHANNELS = 6


def conv(g: GraphBuilder, x: SSAValue, *, bias: bool, groups: int = 1) -> SSAValue:
    inputs = known_shape(x)[1]
    w = g.weight(sample(1, CHANNELS, inputs // groups, 3, 2))
    b = [g.weight(sample(2, CHANNELS))] if bias else []
    return g.op(nn.ConvOp, [x, w, *b], **{**WINDOW, "groups": groups}, node="conv")


def conv_transpose(g: GraphBuilder, x: SSAValue, *, bias: bool, groups: int = 1) -> SSAValue:
    inputs = known_shape(x)[1]
    w = g.weight(sample(1, inputs, CHANNELS // groups, 3, 2))
    b = [g.weight(sample(2, CHANNELS))] if bias else []
    settings = {**WINDOW, "groups": groups, "output_pads": (1, 0)}
    return g.op(nn.ConvTransposeOp, [x, w, *b], **settings, node="conv")


def fc(g: GraphBuilder, x: SSAValue, *, transpose_w: bool) -> SSAValue:
    inputs = known_shape(x)[-1]
    w = sample(1, CHANNELS, inputs) if transpose_w else sample(1, inputs, CHANNELS)
    return g.op(nn.FcOp, [x, g.weight(w), g.weight(sample(2, CHANNELS))], transpose_w=transpose_w)


def matmul(g: GraphBuilder, x: SSAValue, *, transpose_b: bool) -> SSAValue:
    inputs = known_shape(x)[-1]
    w = sample(1, CHANNELS, inputs) if transpose_b else sample(1, inputs, CHANNELS)
    return g.op(nn.MatmulOp, [x, g.weight(w)], transpose_b=transpose_b)


def batch_norm(g: GraphBuilder, x: SSAValue, seed: int = 10) -> SSAValue:
    channels = known_shape(x)[1]
    scale, bias, mean = (g.weight(sample(seed + i, channels)) for i in range(3))
    variance = g.weight(np.abs(sample(seed + 3, channels)) + np.float32(0.5))
    return g.op(nn.BatchNormOp, [x, scale, bias, mean, variance], epsilon=1e-3, node="norm")


IMAGE, ROWS = (2, 4, 9, 7), (5, 4)
Producer = Callable[[GraphBuilder, SSAValue], SSAValue]
HOSTS: dict[str, tuple[tuple[int, ...], Producer, str]] = {
    "conv": (IMAGE, lambda g, x: conv(g, x, bias=True), "conv"),
    "conv without bias": (IMAGE, lambda g, x: conv(g, x, bias=False), "conv"),
    "conv in groups": (IMAGE, lambda g, x: conv(g, x, bias=True, groups=2), "conv"),
    "conv_transpose": (IMAGE, lambda g, x: conv_transpose(g, x, bias=True), "conv_transpose"),
    "conv_transpose without bias": (
        IMAGE, lambda g, x: conv_transpose(g, x, bias=False), "conv_transpose",
    ),
    "fc": (ROWS, lambda g, x: fc(g, x, transpose_w=False), "fc"),
    "transposed fc": (ROWS, lambda g, x: fc(g, x, transpose_w=True), "fc"),
    "matmul": (ROWS, lambda g, x: matmul(g, x, transpose_b=False), "fc"),
    "transposed matmul": (ROWS, lambda g, x: matmul(g, x, transpose_b=True), "fc"),
    "batch_norm": (ROWS, batch_norm, ""),
}  # fmt: skip


def fold(make: Callable[[GraphBuilder], SSAValue], **inputs: Array) -> Graph:
    """The folded program; asserts that it computes the same."""

    def graph() -> Graph:
        g = GraphBuilder(**inputs)
        return g.graph(make(g))

    return check(graph, inputs, *PASSES)


def computing(graph: Graph) -> list[str]:
    """The names of the ops that are not constants."""
    return [name for name in names(graph) if name not in ("weight", "splat")]


@pytest.mark.parametrize("name", HOSTS)
def test_batch_norm(name: str) -> None:
    shape, host, op = HOSTS[name]
    graph = fold(lambda g: batch_norm(g, host(g, g.inputs["x"])), x=sample(0, *shape))
    assert computing(graph) == ([op] if op else ["mul", "add"] * 2)


@pytest.mark.parametrize("name", HOSTS)
def test_scale_and_shift_after_batch_norm(name: str) -> None:
    """Caffe's pair of a BatchNorm and a Scale layer."""
    shape, host, op = HOSTS[name]
    vector = (CHANNELS if op else 4, *[1] * (len(shape) - 2))

    def make(g: GraphBuilder) -> SSAValue:
        value = batch_norm(g, host(g, g.inputs["x"]), 20)
        scaled = g.op(nn.MulOp, [g.weight(sample(3, *vector)), value])
        return g.op(nn.AddOp, [scaled, g.weight(sample(4, *vector))])

    graph = fold(make, x=sample(0, *shape))
    # a batch normalization after another one is not folded into it
    assert computing(graph) == ([op] if op else ["mul", "add"] * 2)


ARITHMETIC: list[tuple[type[NnOp], bool]] = [
    (nn.AddOp, False), (nn.AddOp, True), (nn.SubOp, False), (nn.MulOp, False), (nn.MulOp, True),
    (nn.DivOp, False),
]  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("op, swapped", ARITHMETIC)
@pytest.mark.parametrize("name", [name for name in HOSTS if name != "batch_norm"])
def test_arithmetic(name: str, op: type[NnOp], swapped: bool) -> None:
    shape, host, _ = HOSTS[name]
    vector = np.abs(sample(3, 1, CHANNELS, *[1] * (len(shape) - 2))) + np.float32(0.5)

    def make(g: GraphBuilder) -> SSAValue:
        operands = [host(g, g.inputs["x"]), g.weight(vector)]
        return g.op(op, operands[::-1] if swapped else operands)

    graph = fold(make, x=sample(0, *shape))
    (left,) = computing(graph)
    kept = "matmul" in name and op in (nn.MulOp, nn.DivOp)
    assert left == ("matmul" if kept else HOSTS[name][2])


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1), (1, CHANNELS, 1, 1)])
@pytest.mark.parametrize("is_splat", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("op", [nn.AddOp, nn.MulOp])
def test_shapes_of_constants(
    shape: tuple[int, ...], is_splat: bool, bias: bool, op: type[NnOp]
) -> None:
    def make(g: GraphBuilder) -> SSAValue:
        constant = g.weight(sample(3, *shape))
        if is_splat:
            splat = nn.SplatOp(0.7, tensor(f32, shape))
            g.main.body.block.add_op(splat)
            constant = splat.res
        return g.op(op, [conv(g, g.inputs["x"], bias=bias), constant])

    assert computing(fold(make, x=sample(0, *IMAGE))) == ["conv"]


def test_a_splat_of_the_whole_shape() -> None:
    def make(g: GraphBuilder) -> SSAValue:
        value = conv(g, g.inputs["x"], bias=True)
        splat = nn.SplatOp(0.7, tensor(f32, shape_of(value)))
        g.main.body.block.add_op(splat)
        return g.op(nn.AddOp, [value, splat.res])

    assert computing(fold(make, x=sample(0, *IMAGE))) == ["conv"]


def test_parameters_that_vary_along_other_axes_stay() -> None:
    def make(g: GraphBuilder) -> SSAValue:
        value = conv(g, g.inputs["x"], bias=True)
        _, _, height, width = known_shape(value)
        for vector in (
            (width,), (height, 1), (2, 1, 1, 1), (1, CHANNELS, 1, width), (2, CHANNELS, 1, 1)
        ):  # fmt: skip
            value = g.op(nn.AddOp, [value, g.weight(sample(3, *vector))])
        return value

    assert computing(fold(make, x=sample(0, *IMAGE))) == ["conv", *["add"] * 5]


def test_results_that_others_read_stay() -> None:
    def make(g: GraphBuilder) -> SSAValue:
        value = conv(g, g.inputs["x"], bias=True)
        return g.op(nn.AddOp, [batch_norm(g, value), value])

    assert computing(fold(make, x=sample(0, *IMAGE))) == ["conv", "mul", "add", "add"]


def test_parameters_that_are_no_constants_stay() -> None:
    def make(g: GraphBuilder) -> SSAValue:
        first = g.op(nn.ConvOp, [g.inputs["x"], g.inputs["w"]], **WINDOW)
        norm = batch_norm(g, first)
        second = g.op(
            nn.ConvOp,
            [norm, g.weight(sample(5, CHANNELS, CHANNELS, 1, 1))],
            **{**WINDOW, "pads": (0,) * 4},
        )
        scaled = g.op(nn.MulOp, [second, g.inputs["scale"]])
        zeros, ones = np.zeros(CHANNELS, np.float32), np.ones(CHANNELS, np.float32)
        parameters = [g.inputs["shift"], *(g.weight(v) for v in (zeros, zeros, ones))]
        return g.op(nn.BatchNormOp, [scaled, *parameters], epsilon=1e-5)

    graph = fold(
        make,
        x=sample(0, *IMAGE),
        w=sample(1, CHANNELS, 4, 3, 3),
        scale=sample(2, CHANNELS, 1, 1),
        shift=sample(3, CHANNELS),
    )
    assert computing(graph) == ["conv", "mul", "add", "conv", "mul", "batch_norm"]


def test_channels_elsewhere_than_where_the_norm_has_them() -> None:
    def make(g: GraphBuilder) -> SSAValue:
        return batch_norm(g, fc(g, g.inputs["x"], transpose_w=False))

    assert computing(fold(make, x=sample(0, 2, 5, 4))) == ["fc", "mul", "add"]


def test_transposed_convolutions_in_groups_stay() -> None:
    def make(g: GraphBuilder) -> SSAValue:
        return batch_norm(g, conv_transpose(g, g.inputs["x"], bias=True, groups=2))

    assert computing(fold(make, x=sample(0, *IMAGE))) == ["conv_transpose", "mul", "add"]


def test_a_division_by_zero_stays() -> None:
    def make(g: GraphBuilder) -> SSAValue:
        zero = nn.SplatOp(0.0, tensor(f32, ()))
        g.main.body.block.add_op(zero)
        return g.op(nn.DivOp, [conv(g, g.inputs["x"], bias=True), zero.res])

    assert computing(fold(make, x=sample(0, *IMAGE))) == ["conv", "div"]


FINITE = np.array([[0, 0, 0, 0], [1, -1, 2, 0], [-3, 1, 0, 0]], np.float32)


def scaled(*vector: float) -> Producer:
    """A product whose columns are divided by constants."""

    def make(g: GraphBuilder, x: SSAValue) -> SSAValue:
        value = matmul(g, x, transpose_b=False)
        return g.op(nn.DivOp, [value, g.weight(np.array(vector, np.float32))])

    return make


def large(dtype: type[Any], weight: float, *scales: float) -> Producer:
    """A product with large weights whose columns are multiplied by constants, in turn."""

    def make(g: GraphBuilder, x: SSAValue) -> SSAValue:
        w = np.full((4, 2), weight, dtype)
        w[1] = 0
        value = g.op(nn.FcOp, [x, g.weight(w), g.weight(np.ones(2, dtype))], transpose_w=False)
        for scale in scales:
            value = g.op(nn.MulOp, [value, g.weight(np.array([scale, 1], dtype))])
        return value

    return make


def normalized(host: bool, **values: float) -> Producer:
    """A batch normalization with these parameters in the first channel."""

    def make(g: GraphBuilder, x: SSAValue) -> SSAValue:
        if host:
            x = matmul(g, x, transpose_b=False)
        channels = known_shape(x)[1]
        parameters = {"scale": 1.0, "bias": 0.5, "mean": 0.0, "variance": 1.0}
        vectors = [np.full(channels, value, np.float32) for value in parameters.values()]
        for name, value in values.items():
            vectors[[*parameters].index(name)][0] = value
        return g.op(nn.BatchNormOp, [x, *map(g.weight, vectors)], epsilon=0.0)

    return make


OVERFLOWS: dict[str, tuple[Producer, Array]] = {
    "a division by 0": (scaled(1, 0, 2, 1, 1, 1), FINITE),
    "a division by numbers that are nearly 0": (scaled(1, 1e-44, 2, 1, 1, 1), FINITE),
    "a large scale of large weights": (large(np.float32, 1e30, 1e10), FINITE),
    "scales that are large together": (large(np.float32, 1e20, 1e10, 1e10), FINITE),
    "a large scale of f16": (large(np.float16, 300, 300), FINITE.astype(np.float16)),
    "an infinite scale": (large(np.float32, 1, np.inf), FINITE),
    "no variance": (normalized(True, variance=0.0), FINITE),
    "a large scale and a large mean": (
        normalized(False, scale=1e20, mean=1e20), np.full((2, 2), 1e20, np.float32)
    ),
    "no variance, before which is nothing": (normalized(False, variance=0.0), FINITE + 1),
}  # fmt: skip


@pytest.mark.parametrize("name", OVERFLOWS)
def test_parameters_stay_finite(name: str) -> None:
    """Infinite ones would give NaN for zeros of the input."""
    make, x = OVERFLOWS[name]
    fold(lambda g: make(g, g.inputs["x"]), x=x)


def test_a_scale_that_fits_is_folded_before_one_that_does_not() -> None:
    make = large(np.float32, 1e20, 1e10, 1e10)
    assert computing(fold(lambda g: make(g, g.inputs["x"]), x=FINITE)) == ["fc", "mul"]


def test_integers_stay() -> None:
    def make(g: GraphBuilder) -> SSAValue:
        product = g.op(
            nn.MatmulOp, [g.inputs["x"], g.weight(np.array([[2], [3]]))], transpose_b=False
        )
        return g.op(nn.DivOp, [product, g.weight(np.array([[[4]], [[3]]]))])

    assert computing(fold(make, x=np.array([[[1, -2]], [[3, 5]]]))) == ["matmul", "div"]


def test_where_the_parameters_come_from_is_told() -> None:
    graph = fold(lambda g: batch_norm(g, conv(g, g.inputs["x"], bias=False)), x=sample(0, *IMAGE))
    assert sorted(graph.weights) == ["conv.b", "conv.w"]
    assert [op.node for op in ops(graph) if isinstance(op, nn.ConvOp)] == ["conv"]
