"""Old versions of ops, which hold in attributes what newer ones take as inputs, and mean less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tessella.frontends.onnx import OnnxSource, check
from tessella.support.errors import ShapeError, UnsupportedError
from tests.frontends.onnx.models import Array, model, one_node, run, value
from tests.native import normal

X = normal(2, 3, 4, 5)


def softmax(x: Array, axis: Any) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def check_one(expected: Array, op: str, opset: int, *inputs: Array, **attributes: Any) -> None:
    feeds = {f"x{i}": array for i, array in enumerate(inputs)}
    found = run(one_node(op, feeds, opset=opset, **attributes), feeds)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, strict=True)


@pytest.mark.parametrize("opset", [1, 6])
def test_broadcast_and_axis(opset: int) -> None:
    channel, last = X[0, :, 0, 0], X[0, 0, 0]
    check_one(X + channel.reshape(3, 1, 1), "Add", opset, X, channel, broadcast=1, axis=1)
    check_one(X * last, "Mul", opset, X, last, broadcast=1)
    check_one(X - X[0, 0, :, 0].reshape(4, 1), "Sub", opset, X, X[0, 0, :, 0], broadcast=1, axis=-2)
    with pytest.raises(ShapeError, match="broadcast"):
        check_one(X, "Add", opset, X, last)
    with pytest.raises(ShapeError, match="axis"):
        check_one(X, "Add", opset, X, X[0], broadcast=1, axis=2)


def test_comparison_broadcast() -> None:
    x, y = X > 0, X[0, :, 0, 0] > 0
    check_one(x & y.reshape(3, 1, 1), "And", 6, x, y, broadcast=1, axis=1)


def test_softmax_flattens() -> None:
    for op, function in (("Softmax", lambda y: y), ("LogSoftmax", np.log)):
        for axis in (0, 1, 2, -1):
            flat = softmax(X.reshape(int(np.prod(X.shape[:axis])), -1), 1).reshape(X.shape)
            check_one(function(flat), op, 11, X, axis=axis)
        check_one(function(softmax(X, 1)), op, 13, X, axis=1)
    check_one(softmax(X, (1, 2, 3)), "Softmax", 9, X)


def test_clip() -> None:
    check_one(np.clip(X, -0.5, 0.5), "Clip", 6, X, min=-0.5, max=0.5)
    check_one(np.maximum(X, 0), "Clip", 6, X, min=0.0)
    check_one(np.minimum(X, 0), "Clip", 1, X, max=0.0)


def test_clip_of_large_integers() -> None:
    x = np.array([-5, 2**53 + 1, 2**60], np.int64)
    feeds = {"x": x, "low": np.array(0), "high": np.array(2**53 + 1)}
    proto = one_node("Clip", feeds, opset=12, constants=["low", "high"])
    np.testing.assert_array_equal(run(proto, {"x": x})[0], [0, 2**53 + 1, 2**53 + 1])


def test_pad() -> None:
    expected = np.pad(X, [(0, 0), (0, 1), (2, 0), (0, 0)], constant_values=3)
    check_one(expected, "Pad", 1, X, paddings=[0, 0, 2, 0, 0, 1, 0, 0], value=3.0)
    check_one(expected, "Pad", 2, X, pads=[0, 0, 2, 0, 0, 1, 0, 0], value=3.0)
    check_one(X[:, :, 1:, :-2], "Pad", 2, X, pads=[0, 0, -1, 0, 0, 0, 0, -2])
    edge = np.pad(X[:, :, 1:], [(0, 0), (0, 0), (0, 0), (2, 0)], mode="edge")
    check_one(edge, "Pad", 2, X, pads=[0, 0, -1, 2, 0, 0, 0, 0], mode="edge")


def test_shapes_as_attributes() -> None:
    check_one(X.reshape(2, 12, 5), "Reshape", 1, X, shape=[0, -1, 5])
    check_one(X[:, :1].reshape(2, 4, 5), "Squeeze", 11, X[:, :1], axes=[-3])
    check_one(X[:, None, ..., None], "Unsqueeze", 11, X, axes=[1, 5])
    check_one(X[:, 1:, -2:], "Slice", 9, X, starts=[1, -2], ends=[99, 2**31 - 1], axes=[1, 2])
    check_one(np.concatenate([X, X], 1), "Concat", 1, X, X)
    check_one(X.sum((1, 3)), "ReduceSum", 11, X, axes=[1, -1], keepdims=0)
    check_one(X.reshape(1, -1), "Flatten", 1, X, axis=0)


def test_split_and_tile() -> None:
    found = run(one_node("Split", {"x": X}, opset=2, outputs=3, axis=1), {"x": X})
    for i, part in enumerate(found):
        np.testing.assert_array_equal(part, X[:, i : i + 1])
    proto = one_node("Split", {"x": X}, opset=11, outputs=2, axis=3, split=[2, 3])
    np.testing.assert_array_equal(run(proto, {"x": X})[1], X[..., 2:])
    feeds = {"x": X, "tiles": np.array([2.0], "f4"), "axis": np.array([1.0], "f4")}
    proto = one_node("Tile", feeds, opset=1, constants=["tiles", "axis"])
    np.testing.assert_array_equal(run(proto, {"x": X})[0], np.tile(X, (1, 2, 1, 1)))


def test_top_k() -> None:
    feeds = {"x": X}
    values, indices = run(one_node("TopK", feeds, opset=9, outputs=2, k=2, axis=2), feeds)
    np.testing.assert_array_equal(values, -np.sort(-X, 2)[:, :, :2])
    assert indices.dtype == np.int64


def test_upsample() -> None:
    expected = X.repeat(2, 2).repeat(3, 3)
    check_one(expected, "Upsample", 7, X, scales=[1.0, 1.0, 2.0, 3.0])
    check_one(expected, "Upsample", 1, X, height_scale=2.0, width_scale=3.0)


def test_prelu_by_channel() -> None:
    slope = np.array([0.1, 0.2, 0.3], np.float32)
    expected = np.where(X < 0, X * slope.reshape(3, 1, 1), X)
    check_one(expected, "PRelu", 6, X, slope)
    check_one(expected, "PRelu", 9, X, slope.reshape(3, 1, 1))


def normalized(x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Array:
    return (x - mean) / np.sqrt(variance + np.float32(1e-5)) * scale + bias


@pytest.mark.parametrize("opset", [6, 7, 9, 14, 15])
def test_batch_normalization(opset: int) -> None:
    parameters = [np.abs(normal(3, seed=i)) for i in range(4)]
    expected = normalized(X, *(p.reshape(3, 1, 1) for p in parameters))
    mode = {"is_test": 1} if opset < 7 else {}
    check_one(expected, "BatchNormalization", opset, X, *parameters, **mode)


def test_batch_normalization_of_each_element() -> None:
    parameters = [np.abs(normal(*X.shape[1:], seed=i)) for i in range(4)]
    expected = normalized(X, *parameters)
    check_one(expected, "BatchNormalization", 7, X, *parameters, spatial=0)


def test_training_is_refused() -> None:
    parameters = {f"p{i}": np.ones(3, np.float32) for i in range(4)}
    feeds = {"x": X, **parameters}
    shapes = {name: array.shape for name, array in feeds.items()}
    with pytest.raises(UnsupportedError, match="is_test=0"):
        OnnxSource(one_node("BatchNormalization", feeds, opset=6)).graph(shapes)
    assert check(one_node("BatchNormalization", feeds, opset=9, outputs=5))
    with pytest.raises(UnsupportedError, match="training"):
        run(one_node("Dropout", {"x": X}, opset=6), {"x": X})
    check_one(X, "Dropout", 6, X, is_test=1)
    found = run(one_node("Dropout", {"x": X}, opset=7, outputs=2), {"x": X})
    np.testing.assert_array_equal(found[1], np.ones_like(X), strict=True)


def test_gemm_broadcast() -> None:
    a, b, c = X[0, 0], X[0, 0].T.copy(), X[0, 0, 0, :1].repeat(4)
    for opset in (6, 9, 13):
        flags = {"broadcast": 1} if opset < 7 else {}
        check_one(2 * a @ b + 0.5 * c, "Gemm", opset, a, b, c, alpha=2.0, beta=0.5, **flags)
        check_one(a.T @ a, "Gemm", opset, a, a, np.zeros(5, "f4"), transA=1, **flags)


def test_cast_by_name() -> None:
    check_one(X.astype(np.int32), "Cast", 5, X, to="INT32")
    check_one(X.astype(np.float64), "Cast", 5, X, to="DOUBLE")
    check_one(X.astype(np.float16), "Cast", 5, X, to="FLOAT16")
    assert check(one_node("Cast", {"x": X}, opset=5, to="COMPLEX32"))


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_auto_pad(mode: str) -> None:
    w = normal(2, 3, 2, 3)
    proto = one_node("Conv", {"x": X, "w": w}, opset=11, strides=[2, 2], auto_pad=mode)
    # height 4 with kernel 2: no padding; width 5 with kernel 3: one element on each side
    pads = [0, 0, 0, 0] if mode == "VALID" else [0, 1, 0, 1]
    same = one_node("Conv", {"x": X, "w": w}, opset=11, strides=[2, 2], pads=pads)
    feeds = {"x": X, "w": w}
    np.testing.assert_array_equal(run(proto, feeds)[0], run(same, feeds)[0])


def test_op_that_did_not_exist_yet() -> None:
    proto = one_node("Gelu", {"x": X}, opset=20)
    proto.opset_import[0].version = 19
    with pytest.raises(Exception, match="No Op registered for Gelu"):
        check(proto)


def test_no_op_set_is_version_1() -> None:
    proto = model([], [value("x", [2])], [value("x", [2])])
    del proto.opset_import[:]
    proto.ir_version = 1
    np.testing.assert_array_equal(run(proto, {"x": X[0, 0, 0, :2]})[0], X[0, 0, 0, :2])
