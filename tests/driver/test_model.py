"""Calling compiled models: names, shapes, types, threads, and what goes wrong."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import tessella
from tessella.driver.model.model import MAX_EXECUTABLES, Model
from tessella.runtime.native_steps import NativeCall
from tessella.support.errors import (
    ExecutionError,
    InputError,
    OptionError,
    ResourceError,
    ShapeError,
)
from tests.native import normal
from tests.tools.networks import classifier

Array = npt.NDArray[Any]

W = normal(5, 7)


def model_of(
    nodes: list[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Sequence[int | str]]],
    outputs: Mapping[str, tuple[int, Sequence[int | str] | None]],
    **weights: Array,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in outputs.items()],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def two_outputs(batch: int | str = 3) -> onnx.ModelProto:
    return model_of(
        [
            helper.make_node("MatMul", ["x", "w"], ["y"], name="product"),
            helper.make_node("Relu", ["y"], ["z"], name="rectifier"),
        ],
        {"x": (TensorProto.FLOAT, [batch, 5])},
        {"y": (TensorProto.FLOAT, [batch, 7]), "z": (TensorProto.FLOAT, [batch, 7])},
        w=W,
    )


@pytest.fixture(scope="module")
def model() -> Model:
    return tessella.compile(two_outputs())


def test_signature(model: Model) -> None:
    (x,) = model.get_inputs()
    assert (x.name, x.shape, x.dtype, x.type) == ("x", (3, 5), "float32", "tensor(float)")
    assert [o.name for o in model.get_outputs()] == ["y", "z"]


def test_run_and_call(model: Model) -> None:
    x = normal(3, 5)
    y, z = model(x)
    np.testing.assert_allclose(y, x @ W, rtol=1e-5)
    np.testing.assert_array_equal(z, np.maximum(y, 0))
    (only,) = model.run(["z"], {"x": x})
    np.testing.assert_array_equal(only, z)


def test_any_memory_order(model: Model) -> None:
    x = normal(5, 6)
    strided = x[:, ::2].T
    read_only = np.ascontiguousarray(strided)
    read_only.flags.writeable = False
    for array in (strided, read_only, strided.tolist()):
        value = np.asarray(array, np.float32)
        np.testing.assert_allclose(model(value)[0], strided @ W, rtol=1e-5)


def test_unaligned_input(model: Model) -> None:
    raw = np.zeros(3 * 5 * 4 + 1, np.uint8)
    x = raw[1:].view(np.float32).reshape(3, 5)
    x[:] = 1
    np.testing.assert_allclose(model(x)[0], x @ W, rtol=1e-5)


def test_results_belong_to_the_caller(model: Model) -> None:
    x = np.ones((3, 5), np.float32)
    first = model(x)[0]
    kept = first.copy()
    model(x * 2)
    np.testing.assert_array_equal(first, kept)
    first[:] = 0
    np.testing.assert_array_equal(model(x)[0], kept)


def test_an_input_that_is_an_output_is_copied() -> None:
    model = tessella.compile(
        model_of(
            [helper.make_node("Identity", ["x"], ["y"])],
            {"x": (TensorProto.FLOAT, [4])},
            {"y": (TensorProto.FLOAT, [4])},
        )
    )
    x = np.ones(4, np.float32)
    y = model(x)
    y[:] = 5
    np.testing.assert_array_equal(x, 1)


def test_equal_outputs_have_memory_of_their_own() -> None:
    nodes = [
        helper.make_node("Neg", ["x"], ["y"]),
        helper.make_node("Neg", ["x"], ["z"]),
        helper.make_node("Identity", ["y"], ["w"]),
    ]
    shape = (TensorProto.FLOAT, [4])
    model = tessella.compile(model_of(nodes, {"x": shape}, dict.fromkeys("yzw", shape)))
    y, z, w = model(np.ones(4, np.float32))
    y[:] = 5
    np.testing.assert_array_equal(z, -1)
    np.testing.assert_array_equal(w, -1)


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("missing", {}, r"an input is missing: x: float32\[3, 5\]"),
    ("extra", {"x": np.zeros((3, 5), np.float32), "q": 1}, "an input is unknown: 'q'"),
    ("other name", {"q": 1, "p": 2}, "an input is missing: x.*; inputs are unknown: 'q', 'p'"),
    ("shape", {"x": np.zeros((3, 6), np.float32)}, "shape"),
    ("rank", {"x": np.zeros((1, 3, 5), np.float32)}, "shape"),
    ("scalar", {"x": np.float32(1)}, "shape"),
    ("dtype", {"x": np.zeros((3, 5))}, "element type"),
    ("integers", {"x": np.zeros((3, 5), np.int64)}, "element type"),
    ("objects", {"x": np.full((3, 5), None)}, "element type"),
    ("ragged", {"x": [[1.0], [1.0, 2.0]]}, "not an array"),
    ("byte order", {"x": np.zeros((3, 5), ">f4")}, "element type"),
]


@pytest.mark.parametrize("feeds, message", [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_wrong_inputs(model: Model, feeds: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        model.run(None, feeds)
    assert caught.value.expected
    model(np.zeros((3, 5), np.float32))


def test_wrong_calls(model: Model) -> None:
    x = np.zeros((3, 5), np.float32)
    with pytest.raises(InputError, match="too many inputs"):
        model(x, x)
    with pytest.raises(InputError, match="no output 'q'"):
        model.run(["q"], {"x": x})
    with pytest.raises(OptionError, match="stage"):
        model.as_text("bytecode")


def test_concurrent_calls(model: Model) -> None:
    xs = [normal(3, 5, seed=i) for i in range(8)]
    wrong: list[int] = []

    def work(i: int) -> None:
        right = [np.allclose(model(xs[i])[0], xs[i] @ W, rtol=1e-4, atol=1e-5) for _ in range(200)]
        wrong.append(right.count(False))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == [0] * 8


def test_symbolic_batch() -> None:
    model = tessella.compile(two_outputs("batch"))
    assert model.get_inputs()[0].shape == ("batch", 5)
    with pytest.raises(ShapeError, match="symbolic"):
        model.as_text("nn")
    for batch in (1, 4, 1, *range(2, MAX_EXECUTABLES + 3)):
        x = normal(batch, 5)
        np.testing.assert_allclose(model(x)[0], x @ W, rtol=1e-4, atol=1e-5)


def test_symbols_agree() -> None:
    model = tessella.compile(
        model_of(
            [helper.make_node("Add", ["a", "b"], ["y"])],
            {"a": (TensorProto.FLOAT, ["n"]), "b": (TensorProto.FLOAT, ["n"])},
            {"y": (TensorProto.FLOAT, ["n"])},
        )
    )
    with pytest.raises(InputError, match="two sizes"):
        model(np.zeros(3, np.float32), np.zeros(4, np.float32))
    assert model(np.ones(3, np.float32), np.ones(3, np.float32)).tolist() == [2, 2, 2]


@pytest.mark.parametrize("index", [4, -5, 2**62, -(2**63)])
def test_index_out_of_range(index: int) -> None:
    model = tessella.compile(
        model_of(
            [helper.make_node("Gather", ["w", "i"], ["y"], name="lookup")],
            {"i": (TensorProto.INT64, [2])},
            {"y": (TensorProto.FLOAT, [2, 3])},
            w=np.arange(12, dtype=np.float32).reshape(4, 3),
        )
    )
    assert [e["kernel"] for e in model.explain().ops] == ["gather"]
    with pytest.raises(ExecutionError, match="lookup"):
        model(np.array([0, index]))
    assert model(np.array([-1, 0]))[0].tolist() == [9, 10, 11]


def test_options() -> None:
    proto = two_outputs()
    with pytest.raises(OptionError, match="x87"):
        tessella.compile(proto, places=["x87/f32"])
    with pytest.raises(OptionError, match="target"):
        tessella.compile(proto, target="z80")
    with pytest.raises(OptionError, match="thread"):
        tessella.compile(proto, threads=0)
    assert tessella.compile(proto, threads=1)(np.ones((3, 5), np.float32))[0].shape == (3, 7)


def test_host_places_run_in_numpy() -> None:
    model = tessella.compile(two_outputs(), places=["host"])
    assert {e["kernel"] for e in model.explain().ops} == {"host"}
    x = np.ones((3, 5), np.float32)
    np.testing.assert_allclose(model(x)[0], x @ W, rtol=1e-5)


@pytest.mark.usefixtures("sums_in_numpy")
def test_native_and_host_steps_alternate() -> None:
    model = tessella.compile(
        model_of(
            [
                helper.make_node("MatMul", ["x", "w"], ["a"]),
                helper.make_node("CumSum", ["a", "axis"], ["b"]),
                helper.make_node("Relu", ["b"], ["y"]),
            ],
            {"x": (TensorProto.FLOAT, [3, 5])},
            {"y": (TensorProto.FLOAT, [3, 7])},
            w=W,
            axis=np.array(1),
        )
    )
    assert {"matmul", "host", "relu"} <= {e["kernel"] for e in model.explain().ops}
    x = normal(3, 5)
    np.testing.assert_allclose(
        model(x), np.maximum(np.cumsum(x @ W, axis=1), 0), rtol=1e-4, atol=1e-5
    )


def test_callers_of_two_models_on_several_threads() -> None:
    """They share the threads of the process; each gets what one thread computes, to the bit."""
    x, w = normal(256, 256), normal(256, 256, seed=1)

    def product(x: Any, w: Any) -> Any:
        return tessella.softmax(x @ w, axis=-1)

    def sums(x: Any, w: Any) -> Any:
        return (tessella.exp(x) * w).sum(axis=0)

    wants = [tessella.jit(function, threads=1)(x, w) for function in (product, sums)]
    calls = [tessella.jit(function, threads=3) for function in (product, sums)]
    results: list[list[Any]] = [[] for _ in range(8)]

    def work(i: int) -> None:
        for _ in range(20):
            results[i].append(calls[i % 2](x, w))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, found in enumerate(results):
        assert len(found) == 20
        assert {y.tobytes() for y in found} == {wants[i % 2].tobytes()}


def test_inputs_by_name_in_a_call() -> None:
    a, b = np.array([1, 2], np.float32), np.array([5, 3], np.float32)
    model = tessella.compile(make_difference())
    for got in (model(a, b), model(a, b=b), model(b=b, a=a)):
        np.testing.assert_array_equal(got, a - b)
    with pytest.raises(InputError, match=r"too many(.|\n)*found: 1 in order, and by name 'a'"):
        model(a, a=a)
    with pytest.raises(InputError, match=r"an input is missing: b.*; an input is unknown: 'c'"):
        model(a, c=b)
    with pytest.raises(InputError, match=r"inputs are missing: a: float32\[2\], b: float32\[2\]\n"):
        model()


def test_options_of_a_run_are_taken(model: Model) -> None:
    x = np.ones((3, 5), np.float32)
    np.testing.assert_array_equal(model.run(["y"], {"x": x}, object())[0], model(x)[0])


def test_a_model_shows_what_it_is(tmp_path: Path) -> None:
    model = tessella.compile(make_difference(), target="avx2", threads=1)
    signature = "(a: float32[2], b: float32[2]) -> (y: float32[2]); avx2"
    assert repr(model) == f"<Model {signature}, 1 thread, 0 B of weights>"
    model = tessella.compile(two_outputs("n"), threads=2)
    assert repr(model).endswith(", 2 threads>")  # no program has been made
    model(np.ones((3, 5), np.float32))
    size = model.weight_bytes
    assert 5 * 7 * 4 <= size <= 5 * 16 * 4
    model(np.ones((4, 5), np.float32))
    assert model.weight_bytes == size
    model.save(tmp_path / "m.tsl")
    loaded = tessella.load(tmp_path / "m.tsl", threads=2)
    loaded(np.ones((4, 5), np.float32))
    assert repr(loaded) == repr(model).replace("<Model", "<LoadedModel")


def make_difference() -> onnx.ModelProto:
    sizes: Sequence[int | str] = [2]
    a, b, y = ((name, (TensorProto.FLOAT, sizes)) for name in "aby")
    return model_of([helper.make_node("Sub", ["a", "b"], ["y"])], dict([a, b]), dict([y]))


def test_a_call_that_fails_while_memory_is_made_leaves_nothing_half_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next call begins anew, as if it was the first in its workspace."""
    model = tessella.compile(classifier(), threads=1)
    x = normal(1, 3, 8, 8)
    expected = model(x)
    model._workspaces.release()  # as when other threads have them

    def fail(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(NativeCall, "resize", fail)
        with pytest.raises(ResourceError):
            model(x)
    np.testing.assert_array_equal(model(x), expected)


def test_prepare_takes_values_without_shapes(compiled: list[str]) -> None:
    proto = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2,3] x, int64[2] s) => (float[a,b] y) '
        "{ y = Reshape(x, s) }"
    )
    model = tessella.compile(proto)
    model.prepare(values={"s": [3, 2]})
    count = len(compiled)
    assert count
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(model(x, np.array([3, 2])), x.reshape(3, 2))
    assert len(compiled) == count


@pytest.mark.parametrize("shape", [5, "ab", [1.5], None])
def test_prepare_refuses_what_is_no_shape(shape: Any) -> None:
    proto = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[n] x) => (float[n] y) { y = Relu(x) }'
    )
    with pytest.raises(InputError, match="the shape does not fit the input 'x'"):
        tessella.compile(proto).prepare({"x": shape})
