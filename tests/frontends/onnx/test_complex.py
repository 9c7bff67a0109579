"""ONNX models with complex numbers: values in files, moves, arithmetic, artifacts, refusals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tessella
from tessella.driver.build.build import lower
from tessella.driver.options import make_options
from tessella.driver.stages.stage_file import save_stage
from tessella.frontends.onnx import OnnxSource
from tessella.support.errors import InputError, TessellaError, UnsupportedError
from tests.frontends.onnx.models import Array, model, value
from tests.native import normal

DTYPES = [np.complex64, np.complex128]


def numbers(*shape: int, seed: int = 0) -> Array:
    return (normal(*shape, seed=seed) + 1j * normal(*shape, seed=seed + 1)).astype(np.complex64)


def nodes(text: str, **attributes: Any) -> list[onnx.NodeProto]:
    """Nodes such as `y = Add(a, b)`, one a line; ``attributes`` are those of the ops, by name."""
    made: list[onnx.NodeProto] = []
    for line in text.strip().splitlines():
        outputs, _, call = line.strip().partition(" = ")
        op, _, inputs = call.rstrip(")").partition("(")
        given = [name.strip() for name in inputs.split(",")] if inputs else []
        made.append(
            helper.make_node(
                op, given, [name.strip() for name in outputs.split(",")], **attributes.get(op, {})
            )
        )
    return made


def run(
    text: str, feeds: Mapping[str, Array], outputs: str, weights: Any = None, **attributes: Any
) -> list[Any]:
    inputs = [value(name, x.shape, x.dtype) for name, x in feeds.items()]
    # the types of results follow from the nodes
    results = [helper.make_empty_tensor_value_info(name) for name in outputs.split()]
    for result in results:
        result.type.tensor_type.elem_type = TensorProto.COMPLEX64
    proto = model(nodes(text, **attributes), inputs, results, weights=weights)
    return tessella.compile(proto).run(None, dict(feeds))


def same(found: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(found, expected, 1e-5, 1e-6)


X, Y = numbers(2, 3, 4), numbers(2, 3, 4, seed=2)
FLAGS = np.abs(X) > 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("how", ["raw", "fields", "external"])
def test_values_in_files(dtype: Any, how: str, tmp_path: Path) -> None:
    w = np.array([1 + 2j, -3j, complex(np.inf, -0.0)], dtype)
    proto = model(
        nodes("y = Concat(x, w)", Concat={"axis": 0}),
        [value("x", ["n"], dtype)],
        [value("y", None, dtype)],
        weights={"w": w},
    )
    if how == "fields":
        code = helper.np_dtype_to_tensor_dtype(w.dtype)
        proto.graph.initializer[0].CopyFrom(helper.make_tensor("w", code, [3], w.tolist()))
    path = tmp_path / "m.onnx"
    onnx.save(proto, path, save_as_external_data=how == "external", size_threshold=0)
    found = tessella.compile(path)(np.array([5j], dtype))
    np.testing.assert_array_equal(found, np.array([5j, *w], dtype), strict=True)


def test_values_that_are_cut_off() -> None:
    proto = model(nodes("y = Identity(w)"), [], [value("y", [2], np.complex64)])
    tensor = TensorProto(name="w", data_type=TensorProto.COMPLEX64, dims=[2], float_data=[1, 2, 3])
    proto.graph.initializer.append(tensor)
    with pytest.raises(TessellaError, match=r"(?s)expected: 4.*found: 3"):
        tessella.compile(proto)


def test_moves() -> None:
    weights: dict[str, Array] = {
        "shape": np.array([4, 6]), "i": np.array([2, 0]), "one": np.array([1]),
        "nd": np.array([[1, 2], [0, 0]]), "rows": Y[:, 0], "ends": np.array([2]),
        "pads": np.array([0, 1, 0, 0, 0, 1]), "fill": np.array(1 + 2j, np.complex64),
        "twice": np.array([1, 2, 1]), "keep": np.array([True, False, True]),
    }  # fmt: skip
    text = """
    a = Reshape(x, shape)
    b = Transpose(x)
    c = Concat(x, y)
    d = Slice(x, one, ends)
    e = Gather(x, i)
    f = GatherND(x, nd)
    g = ScatterND(x, nd, rows)
    h = Pad(x, pads, fill)
    j = Tile(x, twice)
    k = Where(flags, x, y)
    l = Compress(x, keep)
    m, n = Split(x)
    """
    found = run(
        text,
        {"x": X, "y": Y, "flags": FLAGS},
        "a b c d e f g h j k l m n",
        weights,
        Gather={"axis": 1},
        Concat={"axis": 2},
        Compress={"axis": 1},
        Split={"axis": 2, "num_outputs": 2},
    )
    scattered = X.copy()
    scattered[1, 2], scattered[0, 0] = Y[:, 0]
    padded = np.pad(X, [(0, 0), (1, 0), (0, 1)], constant_values=1 + 2j)
    expected = [
        X.reshape(4, 6), X.T, np.concatenate([X, Y], 2), X[1:2], X[:, [2, 0]],
        X[[1, 0], [2, 0]], scattered, padded, np.tile(X, (1, 2, 1)), np.where(FLAGS, X, Y),
        X[:, [True, False, True]], X[:, :, :2], X[:, :, 2:],
    ]  # fmt: skip
    for one, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, wanted, strict=True)


def test_arithmetic() -> None:
    weights = {"w": numbers(4, 5, seed=4), "b": numbers(5, seed=6), "axis": np.array(1)}
    text = """
    a = Add(x, y)
    b1 = Div(x, y)
    c = Pow(x, y)
    d = Exp(x)
    e = Abs(x)
    f = Sum(x, y, x)
    g = Mean(x, y)
    h = MatMul(x, w)
    i = Einsum(x, y)
    j = ReduceSum(x)
    k = ReduceMean(x)
    l = CumSum(x, axis)
    m = Equal(x, y)
    n = Neg(x)
    first = Gather(x, axis)
    o = Gemm(first, w, b)
    """
    found = run(
        text,
        {"x": X, "y": Y},
        "a b1 c d e f g h i j k l m n o",
        weights,
        Einsum={"equation": "bij,bkj->bik"},
        Gemm={"alpha": 0.5},
    )
    w, b = weights["w"], weights["b"]
    expected = [
        X + Y, X / Y, X**Y, np.exp(X), np.abs(X), X + Y + X, (X + Y) / 2, X @ w,
        X @ Y.transpose(0, 2, 1), X.sum(keepdims=True), X.mean(keepdims=True), X.cumsum(1),
        X == Y, -X, np.complex64(0.5) * (X[1] @ w) + b,
    ]  # fmt: skip
    for one, wanted in zip(found, expected, strict=True):
        same(one, wanted)


def test_sequences_branches_and_loops() -> None:
    def body(text: str, inputs: list[Any], outputs: list[Any]) -> onnx.GraphProto:
        return helper.make_graph(nodes(text), "body", inputs, outputs)

    c64, scalar = np.complex64, ([], np.int64)
    loop = body(
        "again = Identity(c)\nh2 = Mul(h, step)\nout = Add(h, h2)",
        [value("i", *scalar), value("c", [], np.bool_), value("h", [4], c64)],
        [value("again", [], np.bool_), value("h2", [4], c64), value("out", [4], c64)],
    )
    branches = {
        "then_branch": body("t = Neg(row)", [], [value("t", [4], c64)]),
        "else_branch": body("e = Exp(row)", [], [value("e", [4], c64)]),
    }
    text = """
    row = Squeeze(x)
    s = SequenceConstruct(row, row)
    both = ConcatFromSequence(s)
    last, all = Loop(trips, true, row)
    b = If(flag)
    """
    weights = {"step": np.complex64(1j), "trips": np.array(3), "true": np.array(True)}
    row = numbers(1, 4)
    feeds = {"x": row, "flag": np.array(False)}
    attributes: dict[str, Any] = {
        "Loop": {"body": loop}, "If": branches, "ConcatFromSequence": {"axis": 0},
    }  # fmt: skip
    both, last, every, branch = run(text, feeds, "both last all b", weights, **attributes)
    same(both, np.concatenate([row[0], row[0]]))
    same(last, row[0] * np.complex64(-1j))
    same(every, [row[0] * np.complex64(1j**i * (1 + 1j)) for i in range(3)])
    same(branch, np.exp(row[0]))


def product(dtype: Any, rows: int | str = "n") -> onnx.ModelProto:
    """A product with weights, and real numbers that follow from it."""
    weights = {"w": numbers(4, 5).astype(dtype), "b": numbers(1, seed=3).astype(dtype)}
    real = np.abs(weights["b"]).dtype
    return model(
        nodes("h = MatMul(x, w)\ny = Mul(h, b)\na = Abs(y)\ne = Exp(a)"),
        [value("x", [rows, 4], dtype)],
        [value("y", None, dtype), value("e", None, real)],
        weights=weights,
    )


def computed(x: Array) -> list[Array]:
    y = (x @ numbers(4, 5).astype(x.dtype)) * numbers(1, seed=3).astype(x.dtype)
    return [y, np.exp(np.abs(y))]


@pytest.mark.parametrize("dtype", DTYPES)
def test_artifacts(dtype: Any, tmp_path: Path) -> None:
    x = numbers(3, 4, seed=5).astype(dtype)
    tessella.compile(product(dtype, 3)).save(tmp_path / "m.tsl")
    loaded = tessella.load(tmp_path / "m.tsl")
    assert [info.dtype for info in loaded.inputs] == [np.dtype(dtype).name]
    for found, expected in zip(loaded.run(None, {"x": x}), computed(x), strict=True):
        same(found, expected)


@pytest.mark.parametrize("stage", ["nn", "placed", "loops"])
def test_stage_files(stage: str, tmp_path: Path) -> None:
    x, path = numbers(3, 4, seed=5), tmp_path / f"m.{stage}"
    graph = OnnxSource(product(np.complex64, 3)).graph({"x": (3, 4)})
    if stage != "nn":
        graph.module = lower(graph, make_options(), stop=stage).stages[stage]
    save_stage(path, graph.module, graph.weights)
    found = tessella.compile(path).run(None, {"x": x})
    for one, expected in zip(found, computed(x), strict=True):
        same(one, expected)


def test_what_is_real_stays_native() -> None:
    compiled = tessella.compile(product(np.complex64, 3))
    kernels = {entry["op"]: entry["kernel"] for entry in compiled.explain().ops}
    assert kernels["nn.matmul"] == kernels["nn.abs"] == "host"
    assert kernels["nn.exp"] == "exp"


def test_places_are_for_floats() -> None:
    """A narrow float or another layout leaves complex numbers as they are."""
    x = numbers(3, 4, seed=5)
    places = ["x86/f16/nhwc", "x86/f32/nchw", "host"]
    found = tessella.compile(product(np.complex64, 3), places=places).run(None, {"x": x})
    same(found[0], computed(x)[0])
    with pytest.raises(TessellaError, match="no kernel on x86 reads c64"):
        tessella.compile(product(np.complex64, 3), places=["x86/c64/nchw"])


def test_inputs() -> None:
    compiled = tessella.compile(product(np.complex64, 1))
    for x in ([[1j, 2, 3, 4]], [[1.5, 2, 3, 4]], [[1, 2, 3, 4]]):
        same(compiled.run(None, {"x": x})[0], computed(np.array(x, np.complex64))[0])
    for wrong in (np.ones((1, 4), np.complex128), np.ones((1, 4), np.float32)):
        with pytest.raises(InputError, match="expected: complex64"):
            compiled.run(None, {"x": wrong})


@pytest.mark.parametrize(
    "op", ["Less", "Max", "Relu", "Softmax", "ReduceL2", "LpNormalization", "ArgMax", "TopK", "DFT"]
)
def test_ops_on_real_numbers_are_refused(op: str) -> None:
    inputs = {"Less": "x, y", "Max": "x, y", "TopK": "x, k"}.get(op, "x")
    outputs = "z, i" if op == "TopK" else "z"
    with pytest.raises(
        UnsupportedError, match=rf"{op} .*takes real numbers, and an input is complex"
    ):
        run(f"{outputs} = {op}({inputs})", {"x": X, "y": Y}, "z", {"k": np.array([1])})


@pytest.mark.parametrize("to", ["FLOAT", "FLOAT16", "BFLOAT16", "INT64", "STRING"])
def test_casts_to_real_types_are_refused(to: str) -> None:
    with pytest.raises(TessellaError, match="imaginary parts of complex numbers would be lost"):
        run("y = Cast(x)", {"x": X}, "y", Cast={"to": getattr(TensorProto, to)})


def test_gradients_are_refused() -> None:
    proto = model(
        nodes("c = Cast(x)\nz = Mul(c, w)\ny = Abs(z)\ng = Gradient(x)"),
        [value("x", [3])],
        [value("g", [3])],
        weights={"w": numbers(3)},
        domains={"ai.onnx.preview.training": 1},
    )
    gradient = proto.graph.node[3]
    gradient.domain = "ai.onnx.preview.training"
    gradient.attribute.extend([helper.make_attribute("xs", ["x"]), helper.make_attribute("y", "y")])
    proto.graph.node[0].attribute.append(helper.make_attribute("to", TensorProto.COMPLEX64))
    with pytest.raises(UnsupportedError, match="of complex numbers"):
        tessella.compile(proto)
