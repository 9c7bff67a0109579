"""The results that ONNX leaves open, as docs/operators.md decides them ("Where results differ")."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

import tessella
from tests.frontends.onnx.models import Array, one_node
from tests.frontends.onnx.test_edges import runtime, untyped

NAN, INF = np.nan, np.inf
PLACES = [None, ["host"]]


def ours(op: str, opset: int, *inputs: Array, places: list[str] | None = None, **kw: Any) -> Array:
    feeds = {f"x{i}": x for i, x in enumerate(inputs)}
    proto = untyped(one_node(op, feeds, opset=opset, **kw))
    return tessella.compile(proto, places=places).run(None, feeds)[0]


def theirs(op: str, opset: int, *inputs: Array, **kw: Any) -> Array:
    feeds = {f"x{i}": x for i, x in enumerate(inputs)}
    return runtime(untyped(one_node(op, feeds, opset=opset, **kw)), feeds)[0]


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


@pytest.mark.parametrize("places", PLACES)
def test_a_maximum_keeps_nan(places: list[str] | None) -> None:
    """The maxima of windows are those of NumPy; without NaN, those of ONNX Runtime too."""
    x = f32(1, NAN, 3, 4, 5, -INF, -INF, -INF, NAN, NAN, NAN, 1)[None, None]
    found = ours("MaxPool", 20, x, places=places, kernel_shape=[3])
    windows = np.lib.stride_tricks.sliding_window_view(x, 3, axis=2)
    np.testing.assert_array_equal(found, windows.max(axis=-1))
    known = theirs("MaxPool", 20, x, kernel_shape=[3])
    fine = np.isfinite(windows).all(axis=-1)
    np.testing.assert_array_equal(found[fine], known[fine])
    assert np.isnan(ours("GlobalMaxPool", 20, x, places=places)).all()
    for op in ("ArgMax", "ArgMin"):
        proto = one_node(op, {"x": x}, opset=20, axis=2)
        (expected,) = ReferenceEvaluator(proto).run(None, {"x": x})
        np.testing.assert_array_equal(ours(op, 20, x, places=places, axis=2), expected)


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint16])
def test_nan_is_quantized_to_the_least_number(dtype: type, places: list[str] | None) -> None:
    x = f32(NAN, INF, -INF, 1e10, -1e10, 0.5, 1.5, 2.5, -0.5, 127.5, 128, 3e38)
    operands = x, np.float32(1), np.array(3, dtype)
    found = ours("QuantizeLinear", 21, *map(np.asarray, operands), places=places)
    known = theirs("QuantizeLinear", 21, *map(np.asarray, operands))
    np.testing.assert_array_equal(found[1:], known[1:], strict=True)
    assert found[0] == np.iinfo(dtype).min


@pytest.mark.parametrize("places", PLACES)
def test_precision_is_that_of_the_division(places: list[str] | None) -> None:
    """The zero point is added to whole numbers, which float16 would round again."""
    values = f32(*range(-30000, 30000, 61)) / 100
    for x, scale, zero, precision in (
        (values.astype(np.float32), np.float32(1.7), np.uint8(3), TensorProto.FLOAT16),
        (values.astype(np.float16), np.float32(1.7), np.uint8(3), TensorProto.DOUBLE),
        (values.astype(np.int32), np.float32(1.7), np.int8(-3), TensorProto.FLOAT16),
        (values.astype(np.float32), np.float32(0.03), np.int16(3), TensorProto.FLOAT16),
        (values.astype(np.float16), np.float16(0.03), np.int16(3), 0),
    ):
        feeds = {"x0": x, "x1": np.asarray(scale), "x2": np.asarray(zero)}
        settings: dict[str, Any] = {"precision": precision} if precision else {}
        proto = one_node("QuantizeLinear", feeds, opset=23, **settings)
        (expected,) = ReferenceEvaluator(proto).run(None, feeds)
        found = ours("QuantizeLinear", 23, *feeds.values(), places=places, **settings)
        np.testing.assert_array_equal(found, np.asarray(expected), strict=True)


@pytest.mark.parametrize("places", PLACES)
def test_a_float16_scale_multiplies_numbers_that_float16_does_not_hold(
    places: list[str] | None,
) -> None:
    for x in (
        np.array([0, 2049, 65535], np.uint16),
        np.array([-(2**20), 2049, 70000], np.int32),
    ):
        operands = x, np.array(1e-3, np.float16), np.array(0, x.dtype)
        found = ours("DequantizeLinear", 21, *operands, places=places)
        expected = (x.astype(np.float32) * operands[1].astype(np.float32)).astype(np.float16)
        np.testing.assert_array_equal(found, expected, strict=True)


def test_products_are_rounded_once() -> None:
    x = np.array([[1e20, 1e20, 1e-20, 1e-20], [1e-30, 1e-30, 1e30, 1e30], [0, INF, 1, 1]])
    for places in PLACES:
        found = ours("ReduceProd", 13, x.astype(np.float32), places=places, axes=[1], keepdims=0)
        exact = theirs("ReduceProd", 13, x, axes=[1], keepdims=0)
        np.testing.assert_allclose(found, exact.astype(np.float32), rtol=1e-5)


def test_integers_wrap_around() -> None:
    x = np.array([[2**20, 2**20, 2**20, 3], [70000, 70000, 1, 1]], np.int32)
    for op in ("ReduceProd", "ReduceSumSquare", "ReduceSum"):
        feeds = {"x": x}
        settings: dict[str, Any] = {} if op == "ReduceSum" else {"axes": [1]}
        proto = one_node(op, feeds, opset=13, **settings)
        (expected,) = ReferenceEvaluator(proto).run(None, feeds)
        found = ours(op, 13, x, **settings)
        np.testing.assert_array_equal(found, np.asarray(expected).astype(np.int32), strict=True)


@pytest.mark.parametrize("scale", [1e30, 1e-30])
def test_float32_norms_overflow_as_in_onnx_runtime(scale: float) -> None:
    x = np.random.default_rng(0).standard_normal((4, 32)).astype(np.float32) * np.float32(scale)
    ones = np.ones(32, np.float32)
    cases: list[tuple[str, int, list[Array], dict[str, Any]]] = [
        ("LayerNormalization", 20, [x, ones], {}),
        ("RMSNormalization", 23, [x, ones], {}),
        ("ReduceL2", 13, [x], {"axes": [1]}),
        ("LpNormalization", 20, [x], {"axis": 1}),
    ]
    for op, opset, inputs, kw in cases:
        expected = theirs(op, opset, *inputs, **kw)
        np.testing.assert_allclose(ours(op, opset, *inputs, **kw), expected, rtol=1e-4, atol=1e-20)


def test_numpy_norms_are_those_of_float64() -> None:
    x = np.random.default_rng(0).standard_normal((4, 32)) * 1e30
    ones = np.ones(32)
    expected = theirs("LayerNormalization", 20, x, ones)
    found = ours(
        "LayerNormalization", 20, *(a.astype(np.float32) for a in (x, ones)), places=["host"]
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_factor_goes_into_a_constant_weight() -> None:
    a = np.full((4, 4), 1e30, np.float32)
    feeds = {"a": a, "b": a}
    for alpha, expected in ((0.0, 0.0), (1e-30, 4e30)):
        proto = untyped(one_node("Gemm", feeds, opset=13, constants=["b"], alpha=alpha))
        found = tessella.compile(proto).run(None, {"a": a})[0]
        np.testing.assert_allclose(found, np.full((4, 4), expected), rtol=1e-6)
        # an infinity that the operands have is no matter of rounding
        infinite = np.where(np.eye(4), np.float32(INF), np.float32(1))
        known = runtime(proto, {"a": infinite})[0]
        np.testing.assert_array_equal(
            np.isfinite(tessella.compile(proto).run(None, {"a": infinite})[0]), np.isfinite(known)
        )


@pytest.mark.parametrize("places", PLACES)
def test_integers_less_than_zero_shrink_as_in_onnx_runtime(places: list[str] | None) -> None:
    for dtype in (np.uint8, np.int8, np.int32):
        x = np.array([0, 1, 2, 3, 100, 127], dtype)
        for kw in ({"bias": 2.0}, {"bias": 2.5, "lambd": 1.0}):
            expected = theirs("Shrink", 9, x, **kw)
            np.testing.assert_array_equal(ours("Shrink", 9, x, places=places, **kw), expected)


@pytest.mark.parametrize("places", PLACES)
def test_integers_shrink_exactly(places: list[str] | None) -> None:
    """Python's fractions say the result, which is rounded towards zero and wraps around."""
    for dtype in (np.int64, np.uint64, np.int8):
        limits = np.iinfo(dtype)
        values = [limits.min, limits.max, limits.max - 1, *range(6)]
        values += [] if dtype == np.int8 else [2**53 + 1, 2**62 + 3]
        values += [] if dtype == np.uint64 else [-1, -2, -3, -4]
        for bias, lambd in ((0.0, 0.5), (2.0, 1.0), (2.5, 1.0), (-2.5, 3.0), (1.0, np.inf)):
            shrunk = [
                math.trunc(x + Fraction(bias))
                if x < -lambd
                else math.trunc(x - Fraction(bias))
                if x > lambd
                else 0
                for x in values
            ]
            span = 1 << limits.bits
            wrapped = [(y - limits.min) % span + limits.min for y in shrunk]
            found = ours(
                "Shrink", 9, np.array(values, dtype), places=places, bias=bias, lambd=lambd
            )
            np.testing.assert_array_equal(found, np.array(wrapped, dtype), strict=True)


@pytest.mark.parametrize("op", ["ReduceL2", "ReduceLogSum"])
def test_sums_beyond_float16_have_a_norm(op: str) -> None:
    x = np.full((3, 64), 1500, np.float16)
    expected = theirs(op, 18, x.astype(np.float32)).astype(np.float16)
    np.testing.assert_allclose(ours(op, 18, x), expected, rtol=1e-3)


@pytest.mark.parametrize("alpha, beta", [(0.5, 1.0), (2.0, 0.25), (0.5, 0.0)])
def test_fractions_of_integer_products(alpha: float, beta: float) -> None:
    a, b, c = (np.arange(9, dtype=np.int32).reshape(3, 3) + i for i in range(3))
    feeds = {f"x{i}": x for i, x in enumerate((a, b, c))}
    proto = one_node("Gemm", feeds, opset=13, alpha=alpha, beta=beta)
    (expected,) = ReferenceEvaluator(proto).run(None, feeds)
    found = ours("Gemm", 13, a, b, c, alpha=alpha, beta=beta)
    np.testing.assert_array_equal(found, np.asarray(expected).astype(np.int32), strict=True)


def test_columns_of_booleans_make_an_image() -> None:
    x = np.random.default_rng(0).random((1, 8, 4)) < 0.3
    feeds = {"x": x, "image": np.array([3, 3]), "block": np.array([2, 2])}
    proto = one_node("Col2Im", feeds, opset=18, constants=["image", "block"])
    (expected,) = ReferenceEvaluator(proto).run(None, feeds)
    (found,) = tessella.compile(untyped(proto)).run(None, {"x": x})
    np.testing.assert_array_equal(found, expected, strict=True)


def test_a_division_has_the_precision_that_is_asked_for() -> None:
    x, scale = np.linspace(-20, 20, 4001, dtype=np.float32), np.float32(0.12345)
    for precision in (TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT):
        feeds = {"x0": x, "x1": np.asarray(scale)}
        settings: dict[str, Any] = {"precision": precision, "output_dtype": TensorProto.INT8}
        proto = one_node("QuantizeLinear", feeds, opset=23, **settings)
        (expected,) = ReferenceEvaluator(proto).run(None, feeds)
        for places in PLACES:
            found = ours("QuantizeLinear", 23, *feeds.values(), places=places, **settings)
            np.testing.assert_array_equal(found, expected, strict=True)
