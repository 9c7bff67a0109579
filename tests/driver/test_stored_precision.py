"""Models of f32 at places that name another precision: stored in it, and run by native code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import tessella
from tessella import targets
from tessella.driver.explain.explain import explain
from tessella.passes.pick.choices import Fallback
from tessella.support.errors import OptionError
from tests.models import lowered_for, run_onnxruntime
from tests.native import normal

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


def test_floats_are_narrowed_to_a_smaller_range_only_if_it_is_listed_first(
    tmp_path: Path,
) -> None:
    onnx.save(gemm(), path := tmp_path / "model.onnx")
    grade = tessella.Options(pick="grade")
    x = np.random.default_rng(6).standard_normal((5, 33), np.float32)
    [expected] = run_onnxruntime(gemm(), {"x": x})
    for precisions, storage in ((["f16", "f32"], "f16"), (["f32", "f16"], "f32")):
        places = [f"{ARCH}/{precision}" for precision in precisions]
        model = tessella.compile(path, places=places, options=grade)
        product, relu = model.explain().ops
        assert (product["storage"], relu["storage"]) == (storage, "f32")
        np.testing.assert_allclose(model(x), expected, atol=4 * EPSILONS["f16"] * expected.max())


ELEMENTS = {
    "f16": (TensorProto.FLOAT16, np.float16),
    "bf16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
}


def half(precision: str, *shapes: tuple[int, ...]) -> ModelProto:
    """Products, one after the other, with everything stored in a narrow float."""
    kind, dtype = ELEMENTS[precision]
    weights: list[TensorProto] = []
    for i, shape in enumerate(shapes[1:]):
        array = normal(*shape, seed=i) / np.sqrt(shape[0])
        raw = array.astype(dtype).tobytes()
        weights.append(TensorProto(name=f"w{i}", data_type=kind, dims=shape, raw_data=raw))
    last = len(weights)
    names = ["x", *(f"v{i}" for i in range(1, last)), "y"]
    nodes = [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(last)]
    result = (shapes[0][0], shapes[-1][1])
    inputs = [helper.make_tensor_value_info("x", kind, shapes[0])]
    outputs = [helper.make_tensor_value_info("y", kind, result)]
    graph = helper.make_graph(nodes, "half", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def test_a_model_of_f16_is_computed_as_one_of_f32() -> None:
    """Its floats are widened once, weights when it is compiled, as products of f16 take longer."""
    shapes = (96, 128), (128, 160), (160, 112)
    model = half("f16", *shapes)
    explanation = explain(lowered_for(model, "avx512").stages)
    assert {op["storage"] for op in explanation.ops} == {"f32"}
    ends = [(c["source"].split("/")[1], c["target"].split("/")[1]) for c in explanation.conversions]
    assert ends == [("f16", "f32"), ("f32", "f16")]
    x = normal(*shapes[0]).astype(np.float16)
    y = tessella.compile(model)(x)
    assert y.dtype == np.float16
    weights = [normal(*shape, seed=i) / np.sqrt(shape[0]) for i, shape in enumerate(shapes[1:])]
    wanted = x.astype(np.float64)
    for w in weights:
        wanted = wanted @ w.astype(np.float16).astype(np.float64)
    # nothing is rounded to f16 but the result
    np.testing.assert_allclose(y, wanted, rtol=2.0**-11, atol=2e-5)


@pytest.mark.parametrize("precision", ELEMENTS)
def test_weights_that_come_from_memory_stay_narrow(precision: str) -> None:
    model = tessella.compile(half(precision, (1, 1024), (1024, 1024)))
    [op] = model.explain().ops
    assert op["storage"] == precision
    x = normal(1, 1024).astype(ELEMENTS[precision][1])
    w = (normal(1024, 1024) / 32).astype(ELEMENTS[precision][1])
    wanted = x.astype(np.float64) @ w.astype(np.float64)
    found = np.asarray(model(x)).view(ELEMENTS[precision][1]).astype(np.float64)
    np.testing.assert_allclose(found, wanted, rtol=EPSILONS[precision], atol=1e-4)


@pytest.mark.skipif(ARCH != "x86", reason="the targets are of x86")
def test_what_no_instruction_multiplies_is_said_to_be_widened(tmp_path: Path) -> None:
    onnx.save(gemm(), path := tmp_path / "model.onnx")
    wide = tessella.compile(path, target="avx2", places=["x86/bf16", "x86/f32"]).explain()
    assert wide.pick is not None
    assert wide.pick["widened"] == ["bf16"]
    assert "at x86/bf16, x86/f32; bf16 is widened to be multiplied\n" in f"{wide}\n"
    plain = tessella.compile(path, target="avx2").explain()
    assert plain.pick is not None
    assert plain.pick["widened"] == []
    assert "widened" not in str(plain)


@pytest.mark.parametrize("precision", ELEMENTS)
def test_a_place_that_names_no_element_leaves_them(precision: str) -> None:
    ops = tessella.compile(half(precision, (9, 64), (64, 32)), places=[ARCH]).explain().ops
    assert {op["storage"] for op in ops} == {precision}


def decoder(keys: int) -> ModelProto:
    """Attention of a new token, with caches of keys and values that are stored in bf16."""
    past, new = (1, 4, keys, 32), (1, 4, 1, 32)
    wide, narrow = TensorProto.FLOAT, TensorProto.BFLOAT16
    nodes = [
        *(helper.make_node("Cast", [x], [f"{x}_b"], to=narrow) for x in "kv"),
        *(helper.make_node("Concat", [f"past_{x}", f"{x}_b"], [f"new_{x}"], axis=2) for x in "kv"),
        *(helper.make_node("Cast", [f"new_{x}"], [f"{x}_f"], to=wide) for x in "kv"),
        helper.make_node("Transpose", ["k_f"], ["k_t"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "k_t"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v_f"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info(x, wide, new) for x in "qkv"]
    inputs += [helper.make_tensor_value_info(f"past_{x}", narrow, past) for x in "kv"]
    longer = (1, 4, keys + 1, 32)
    outputs = [helper.make_tensor_value_info("y", wide, new)]
    outputs += [helper.make_tensor_value_info(f"new_{x}", narrow, longer) for x in "kv"]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs)
    opsets = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.mark.parametrize("narrow", [False, True])
def test_caches_of_bf16(narrow: bool) -> None:
    """Attention at bf16 reads them as they are: the casts of the program are undone."""
    keys, dtype = 600, ml_dtypes.bfloat16
    places = [f"{ARCH}/bf16", f"{ARCH}/f32"] if narrow else [f"{ARCH}/f32", ARCH]
    model = tessella.compile(decoder(keys), places=places, options=tessella.Options(pick="grade"))
    [attention] = [op for op in model.explain().ops if op["op"] == "nn.attention"]
    assert attention["storage"] == ("bf16" if narrow else "f32")
    casts = [op["node"] for op in model.explain().ops if op["op"] == "nn.cast"]
    assert len(casts) == (2 if narrow else 4)
    q, k, v = (0.3 * normal(1, 4, 1, 32, seed=i) for i in range(3))
    past = [normal(1, 4, keys, 32, seed=i).astype(dtype) for i in (3, 4)]
    inputs = {"q": q, "k": k, "v": v, "past_k": past[0], "past_v": past[1]}
    y, *caches = model.run(None, inputs)
    joined = [np.concatenate([p, x.astype(dtype)], 2) for p, x in zip(past, (k, v), strict=True)]
    for cache, wanted in zip(caches, joined, strict=True):
        np.testing.assert_array_equal(np.asarray(cache).view(dtype), wanted)
    all_k, all_v = (x.astype(np.float64) for x in joined)
    seen = q.astype(dtype).astype(np.float64) if narrow else q
    weights = np.exp(seen @ all_k.swapaxes(-1, -2))
    exact = weights / weights.sum(-1, keepdims=True) @ all_v
    np.testing.assert_allclose(y, exact, rtol=2.0**-8 if narrow else 1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["arccos", "sin", "arctan"])
def test_digits_are_not_lost_where_a_place_takes_them_all(name: str) -> None:
    """Where f64 is allowed, f64 is computed in f64."""
    x = np.linspace(-1, 1, 40)
    function = getattr(np, name)
    np.testing.assert_allclose(tessella.jit(lambda x: function(x))(x), function(x), rtol=1e-15)
    asked = tessella.jit(lambda x: function(x), places=[f"{ARCH}/f32"])
    np.testing.assert_allclose(asked(x), function(x), rtol=1e-6, atol=1e-6)


# ** places of integers **


@pytest.mark.parametrize("places", [["i8"], ["i8", "u8"], ["i8", "host"], ["bool"]])
@pytest.mark.parametrize("fallback", ["allow", "error"])
def test_floats_are_never_stored_in_integers(
    places: list[str], fallback: Fallback, tmp_path: Path
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
    """Ops that read or write i8 are native there; ops with float operands alone need a place of
    their own."""
    onnx.save(quantized(), path := tmp_path / "model.onnx")
    places = [f"{ARCH}/i8", *([f"{ARCH}/f32"] if further else [])]
    model = tessella.compile(path, places=places)
    ops = {op["op"]: op for op in model.explain().ops}
    assert (ops["nn.relu"]["kernel"], ops["nn.relu"]["storage"]) == ("relu", "i8")
    assert ops["nn.dequantize"]["kernel"] == "dequantize"
    assert ops["nn.exp"]["kernel"] == ("exp" if further else "host")
    assert ops["nn.exp"]["fallback"] == (None if further else "host")
    x = np.arange(-82, 83).astype(np.int8).reshape(5, 33)
    y, z = model.run(None, {"x": x})
    np.testing.assert_allclose(y, np.exp(x.astype(np.float32) * np.float32(0.02)), rtol=1e-6)
    np.testing.assert_array_equal(z, np.maximum(x, 0))
