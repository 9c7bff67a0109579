"""Models of f32 at places that name another precision: stored in it, and run by native code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import tessella
from tessella import targets
from tessella.support.errors import OptionError
from tests.models import run_onnxruntime

ARCH = targets.native().arch
EPSILONS = {"f16": 2.0**-11, "bf16": 2.0**-8}
"""The largest relative error of rounding to a precision."""


def _model(
    kind: str, x: tuple[int, ...], y: tuple[int, ...], w: tuple[int, ...], **settings: Any
) -> ModelProto:
    """A product with a bias, and its activation."""
    random = np.random.default_rng(5)
    weight = numpy_helper.from_array(random.standard_normal(w, np.float32), "w")
    count = w[0] if kind == "Conv" else w[1]
    bias = numpy_helper.from_array(random.standard_normal(count, np.float32), "b")
    nodes = [
        helper.make_node(kind, ["x", "w", "b"], ["v"], **settings),
        helper.make_node("Relu", ["v"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)]
    graph = helper.make_graph(nodes, kind, inputs, outputs, [weight, bias])
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def gemm() -> ModelProto:
    return _model("Gemm", (5, 33), (5, 17), (33, 17))


def conv() -> ModelProto:
    return _model("Conv", (1, 3, 11, 13), (1, 8, 11, 13), (8, 3, 3, 3), pads=[1] * 4)


@pytest.mark.sweep
@pytest.mark.parametrize("further", [(), ("host",)], ids=["alone", "host"])
@pytest.mark.parametrize("precision", EPSILONS)
@pytest.mark.parametrize("make", [gemm, conv])
def test_a_model_is_stored_in_the_precision_of_its_place(
    make: Callable[[], ModelProto], precision: str, further: tuple[str, ...], tmp_path: Path
) -> None:
    onnx.save(make(), path := tmp_path / "model.onnx")
    model = tessella.compile(path, places=[f"{ARCH}/{precision}", *further])
    shape = tuple(map(int, model.inputs[0].shape))
    x = np.random.default_rng(6).standard_normal(shape, np.float32)
    explanation = model.explain()
    assert [op["kernel"] for op in explanation.ops if op["fallback"]] == []
    assert all(op["place"].startswith(f"{ARCH}/{precision}/") for op in explanation.ops)
    assert [c["op"] for c in explanation.conversions] == ["place.cast"] * 2
    [expected] = run_onnxruntime(make(), {"x": x})
    found = model(x)
    assert found.dtype == np.float32
    # operands and result are rounded; the sum is of about as many numbers as a row of weights has
    scale = float(np.abs(expected).max())
    error = float(np.abs(found - expected).max())
    assert 0 < error < 4 * EPSILONS[precision] * scale


def test_a_precision_without_native_code_is_refused(tmp_path: Path) -> None:
    onnx.save(gemm(), path := tmp_path / "model.onnx")
    with pytest.raises(OptionError, match=f"no kernel on {ARCH} reads f8E4M3FN"):
        tessella.compile(path, places=[f"{ARCH}/f8E4M3FN"])


def test_the_own_precision_goes_first(tmp_path: Path) -> None:
    onnx.save(gemm(), path := tmp_path / "model.onnx")
    for places in ([f"{ARCH}/f16", f"{ARCH}/f32"], [f"{ARCH}/f16", ARCH]):
        ops = tessella.compile(path, places=places).explain().ops
        assert {op["place"].split("/")[1] for op in ops} == {"f32"}


@pytest.mark.parametrize("name", ["arccos", "sin", "arctan"])
def test_digits_are_not_lost_where_a_place_takes_them_all(name: str) -> None:
    """Native code of these is for f32 alone: where f64 may stay, NumPy computes it."""
    x = np.linspace(-1, 1, 40)
    function = getattr(np, name)
    np.testing.assert_array_equal(tessella.jit(lambda x: function(x))(x), function(x))
    asked = tessella.jit(lambda x: function(x), places=[f"{ARCH}/f32"])
    np.testing.assert_allclose(asked(x), function(x), rtol=1e-6, atol=1e-6)


# ** places of integers **


@pytest.mark.parametrize("places", [["i8"], ["i8", "u8"], ["i8", "host"], ["bool"]])
@pytest.mark.parametrize("fallback", ["allow", "error"])
def test_floats_are_never_stored_in_integers(
    places: list[str], fallback: str, tmp_path: Path
) -> None:
    onnx.save(gemm(), path := tmp_path / "model.onnx")
    listed = [p if p == "host" else f"{ARCH}/{p}" for p in places]
    with pytest.raises(OptionError, match="the model has nothing of") as caught:
        tessella.compile(path, places=listed, fallback=fallback)
    assert caught.value.expected == "a place of one of its elements: f32"


def quantized() -> ModelProto:
    """A sum of bytes, as numbers and as they are."""
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "scale"], ["v"]),
        helper.make_node("Exp", ["v"], ["y"]),
        helper.make_node("Relu", ["x"], ["z"]),
    ]
    scale = numpy_helper.from_array(np.array(0.02, np.float32), "scale")
    inputs = [helper.make_tensor_value_info("x", TensorProto.INT8, (5, 33))]
    outputs = [
        helper.make_tensor_value_info("y", TensorProto.FLOAT, (5, 33)),
        helper.make_tensor_value_info("z", TensorProto.INT8, (5, 33)),
    ]
    graph = helper.make_graph(nodes, "quantized", inputs, outputs, [scale])
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize("further", [False, True])
def test_ops_of_integers_at_their_place(further: bool, tmp_path: Path) -> None:
    """What reads or writes i8 is native there; what has floats alone needs a place of its own."""
    onnx.save(quantized(), path := tmp_path / "model.onnx")
    places = [f"{ARCH}/i8", *([f"{ARCH}/f32"] if further else [])]
    model = tessella.compile(path, places=places)
    listed = model.explain().ops
    ops = {op["op"]: op for op in listed}
    assert (ops["nn.relu"]["kernel"], ops["nn.relu"]["storage"]) == ("relu", "i8")
    assert {op["kernel"] for op in listed if op["op"] == "nn.cast"} == {"cast"}
    assert ops["nn.exp"]["kernel"] == ("exp" if further else "host")
    assert ops["nn.exp"]["fallback"] == (None if further else "host")
    x = np.arange(-82, 83).astype(np.int8).reshape(5, 33)
    y, z = model.run(None, {"x": x})
    np.testing.assert_allclose(y, np.exp(x.astype(np.float32) * np.float32(0.02)), rtol=1e-6)
    np.testing.assert_array_equal(z, np.maximum(x, 0))
