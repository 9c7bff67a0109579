"""Products of narrow numbers, against NumPy's arithmetic."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.ir import SSAValue

from tessella import targets
from tessella.dialects import nn
from tessella.dialects.elements import attribute_of
from tessella.dialects.graph import Graph
from tessella.dialects.interpret import interpret
from tessella.driver.model.model import Model
from tessella.runtime.elements import DTYPES, as_own, converted, widened
from tessella.targets.instructions import of_product
from tests.native import EVERYWHERE, GraphBuilder, build
from tests.sampling import sampled

Array = npt.NDArray[Any]

I32 = attribute_of("i32")
NATIVE = ["native", *EVERYWHERE[1:]]
"""This machine with all that it has, and other plain targets."""
widths = pytest.mark.parametrize("target", NATIVE)
has_dot = pytest.mark.skipif(
    not any(of_product("u8", "i8", "i32", targets.native())), reason="needs a dot product of bytes"
)
few = settings(
    max_examples=sampled(6),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def tile_text(model: Model) -> str:
    """The stage `tile` without line breaks."""
    return " ".join(model.as_text("tile").split())


def numbers(dtype: type[np.integer[Any]], *shape: int, seed: int = 0) -> Array:
    """All numbers of an integer type, the extreme ones often."""
    random, limits = np.random.default_rng((seed, *shape)), np.iinfo(dtype)
    found = random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    extreme = random.choice(np.array([limits.min, limits.max], dtype), shape)
    return np.where(random.random(shape) < 0.25, extreme, found)


def product(a: Array, b: Array, target: str, *, constant: bool, transpose: bool = False) -> Model:
    """The model of a product, whose result was compared with NumPy's."""
    right = np.ascontiguousarray(b.swapaxes(-1, -2)) if transpose else b

    def make() -> Graph:
        g = GraphBuilder(a=a) if constant else GraphBuilder(a=a, b=right)
        other = g.weight(right) if constant else g.inputs["b"]
        return g.graph(g.op(nn.MatmulOp, [g.inputs["a"], other], transpose_b=transpose, sums=I32))

    model = build(make, target)
    (y,) = model.run(None, {"a": a} if constant else {"a": a, "b": right})
    np.testing.assert_array_equal(y, a.astype(np.int32) @ b.astype(np.int32))
    assert y.dtype == np.int32
    assert "host" not in {str(entry["kernel"]) for entry in model.explain().ops}
    return model


@widths
@few
@given(data=st.data())
def test_products_of_bytes(target: str, data: st.DataObject) -> None:
    m, n, k = (data.draw(st.integers(1, most)) for most in (40, 100, 70))
    batch = data.draw(st.sampled_from([(), (3,)]))
    elements = [data.draw(st.sampled_from([np.uint8, np.int8])) for _ in range(2)]
    a, b = numbers(elements[0], *batch, m, k), numbers(elements[1], k, n, seed=1)
    constant, transpose = data.draw(st.booleans()), data.draw(st.booleans())
    product(a, b, target, constant=constant, transpose=transpose)


@has_dot
@pytest.mark.parametrize("k", [2, 3, 4, 7, 64, 1029])
def test_the_tail_of_a_sum(k: int) -> None:
    """The values that are left after whole groups, which one masked load reads."""
    a, b = numbers(np.uint8, 5, k), numbers(np.int8, k, 33)
    model = product(a, b, "native", constant=True)
    assert " dot k " in tile_text(model)
    group = next(row.k for row in of_product("u8", "i8", "i32", targets.native()))
    assert ("vector.maskedload" in model.as_text("loops")) == (k % group != 0)


def test_sums_wrap() -> None:
    a, b = np.full((2, 70000), 255, np.uint8), np.full((70000, 16), -128, np.int8)
    product(a, b, "native", constant=True)


@has_dot
def test_a_large_product_has_blocked_code() -> None:
    """Its inner loop is dot products: a load for each vector and each row, no conversions."""
    a, b = numbers(np.uint8, 64, 256), numbers(np.int8, 256, 256)
    model = product(a, b, "native", constant=True)
    (loops,) = (k for k in model.as_text("loops").split("rt.kernel") if "rt.dot" in k)
    assert "arith.ext" not in loops


def test_operands_are_widened_before_the_loop() -> None:
    """The weights where they are packed, the others by a copy that two products share; one row
    reads weights as bytes, as memory is what it waits for."""
    a, b = numbers(np.uint8, 64, 256), numbers(np.int8, 256, 256)

    def make() -> Graph:
        g = GraphBuilder(a=a)
        x = g.inputs["a"]
        both = {"transpose_b": False, "sums": I32}
        return g.graph(*(g.op(nn.MatmulOp, [x, g.weight(w)], **both) for w in (b, -b)))

    model = build(make, "avx2")
    text = model.as_text("tile")
    assert text.count("tile.call @relayout") == 1
    assert "tensor<64x256xi16" in text
    assert "vpmaddwd" in text
    assert "tensor<256x256xi16" in text
    for found, w in zip(model.run(None, {"a": a}), (b, -b), strict=True):
        np.testing.assert_array_equal(found, a.astype(np.int32) @ w.astype(np.int32))
    row = product(a[:1], b, "avx2", constant=True)
    assert "tensor<256x256xi8" in row.as_text("tile")


@widths
def test_a_layer_with_a_bias(target: str) -> None:
    x, w = numbers(np.uint8, 9, 30), numbers(np.int8, 30, 20)
    b = np.arange(20, dtype=np.int32) * 100003

    def make() -> Graph:
        g = GraphBuilder(x=x)
        operands = [g.inputs["x"], g.weight(w), g.weight(b, "b")]
        return g.graph(g.op(nn.FcOp, operands, transpose_w=False, sums=I32))

    (y,) = build(make, target).run(None, {"x": x})
    np.testing.assert_array_equal(y, x.astype(np.int32) @ w.astype(np.int32) + b)


def convolution(x: Array, w: Array, target: str, **settings: Any) -> Model:
    """The model of a convolution in rows of channels, whose result was compared with NumPy's."""

    def make() -> Graph:
        g = GraphBuilder(x=x)
        return g.graph(g.op(nn.ConvOp, [g.inputs["x"], g.weight(w)], **settings, sums=I32))

    arch = targets.resolve(target).arch
    model = build(make, target, [f"{arch}/f32/nhwc", arch])
    (y,) = model.run(None, {"x": x})
    (wanted,) = interpret(make(), {"x": x})
    np.testing.assert_array_equal(y, wanted)
    assert "host" not in {str(entry["kernel"]) for entry in model.explain().ops}
    return model


@widths
@few
@given(data=st.data())
def test_convolutions_of_bytes(target: str, data: st.DataObject) -> None:
    groups = data.draw(st.sampled_from([1, 1, 1, 2, 3]))
    per_in, per_out = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 40))
    kernel = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    pads = tuple(data.draw(st.integers(0, 2)) for _ in range(4))
    stride, dilation = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 2))
    extents = (data.draw(st.integers(7, 14)), data.draw(st.integers(5, 12)))
    element = data.draw(st.sampled_from([np.uint8, np.int8]))
    x = numbers(element, data.draw(st.integers(1, 2)), groups * per_in, *extents)
    w = numbers(np.int8, groups * per_out, per_in, *kernel)
    convolution(
        x,
        w,
        target,
        strides=(stride, stride),
        pads=pads,
        dilations=(dilation, dilation),
        groups=groups,
    )


@has_dot
@pytest.mark.parametrize("channels", [3, 4, 64])
def test_a_convolution_is_a_dot_product_of_channels(channels: int) -> None:
    x, w = numbers(np.uint8, 1, channels, 9, 9), numbers(np.int8, 24, channels, 3, 3)
    settings = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1), "groups": 1}
    model = convolution(x, w, "native", **settings)
    assert " dot c " in tile_text(model)


@widths
def test_channels_apart(target: str) -> None:
    """A depthwise convolution has no groups: its products are widened."""
    x, w = numbers(np.uint8, 1, 40, 9, 9), numbers(np.int8, 40, 1, 3, 3)
    settings = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1), "groups": 40}
    model = convolution(x, w, target, **settings)
    assert " dot " not in tile_text(model)


def requantized(g: GraphBuilder, y: SSAValue, other: SSAValue) -> SSAValue:
    """Sums, scaled, with another tensor added, as bytes again."""
    channels = np.linspace(1e-4, 3e-4, 24, dtype=np.float32).reshape(1, -1, 1, 1)
    y = g.op(nn.CastOp, [y], to=attribute_of("f32"))
    y = g.op(nn.MulOp, [y, g.weight(channels, "scale")])
    other = g.op(nn.CastOp, [other], to=attribute_of("f32"))
    y = g.op(nn.AddOp, [y, other])
    y = g.op(nn.RoundOp, [g.op(nn.ReluOp, [y])])
    return g.op(nn.CastOp, [y], to=attribute_of("u8"))


@has_dot
def test_what_follows_runs_in_registers() -> None:
    """Scales, an addition and rounding join the kernel: it writes bytes, and no scalar code."""
    x, w = numbers(np.uint8, 1, 24, 16, 16), numbers(np.int8, 24, 24, 1, 1)
    settings = {"strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1), "groups": 1}

    def make() -> Graph:
        g = GraphBuilder(x=x)
        y = g.inputs["x"]
        for name in ("a", "b"):
            total = g.op(nn.ConvOp, [y, g.weight(w, name)], **settings, sums=I32)
            y = requantized(g, total, y)
        return g.graph(y)

    model = build(make, "native")
    (y,) = model.run(None, {"x": x})
    (wanted,) = interpret(make(), {"x": x})
    np.testing.assert_allclose(y.astype(int), wanted.astype(int), atol=1)
    text = tile_text(model)
    # both layers have the same code
    assert len(re.findall("tile.kernel @conv", text)) == text.count(" dot c ") == 1
    assert "vcvttss2si" not in model.as_text("asm")


def floats(*shape: int, seed: int = 0) -> Array:
    """Small integers as bf16: their sums are exact."""
    random = np.random.default_rng((seed, *shape))
    return converted(random.integers(-9, 10, shape), DTYPES["bf16"])


MACHINE = targets.native()
has_bf16 = pytest.mark.skipif(
    all(dot.rate_on(MACHINE) < 0.5 for dot in of_product("bf16", "bf16", "f32", MACHINE)),
    reason="needs a dot product of bf16 that is faster than multiply-adds",
)


@has_bf16
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("k", [2, 3, 64, 1101])
def test_products_of_bf16(k: int, constant: bool) -> None:
    """Sums are in f32. A copy of a variable has no zeros in the rest of a group."""
    a, b = floats(7, k), floats(k, 35, seed=1)

    def make() -> Graph:
        g = GraphBuilder(a=a) if constant else GraphBuilder(a=a, b=b)
        operands = [g.inputs["a"], g.weight(b) if constant else g.inputs["b"]]
        return g.graph(g.op(nn.MatmulOp, operands, transpose_b=False))

    model = build(make, "native", ["x86"])
    (y,) = model.run(None, {"a": a} if constant else {"a": a, "b": b})
    wanted = converted(widened(a).astype(float) @ widened(b).astype(float), DTYPES["bf16"])
    np.testing.assert_array_equal(as_own(y), wanted)
    if constant or k % 2:
        assert (" dot k " in tile_text(model)) == constant


@has_bf16
def test_convolutions_of_bf16() -> None:
    x, w = floats(1, 5, 9, 11), floats(20, 5, 3, 3)
    settings = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1), "groups": 1}

    def make() -> Graph:
        g = GraphBuilder(x=x)
        return g.graph(g.op(nn.ConvOp, [g.inputs["x"], g.weight(w)], **settings))

    model = build(make, "native", ["x86/bf16/nhwc", "x86"])
    (y,) = model.run(None, {"x": x})
    (wanted,) = interpret(make(), {"x": x})
    np.testing.assert_array_equal(as_own(y), wanted)
    assert " dot c " in tile_text(model)
