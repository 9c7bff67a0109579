"""Models with float16 and bfloat16: tensors, casts and ops, against ONNX Runtime and ml_dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tessella
from tessella.frontends.onnx import load_model
from tests.frontends.onnx.models import Array, model, one_node, run, value
from tests.frontends.onnx.test_edges import runtime
from tests.native import normal

node = helper.make_node
BF16 = np.dtype(ml_dtypes.bfloat16)
HALVES = pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16], ids=["float16", "bfloat16"])


def values(dtype: np.dtype[Any], *shape: int) -> Array:
    return normal(*shape).astype(dtype)


def plain(array: Array) -> Array:
    """A result as float32."""
    if array.dtype.names:
        array = array.view(BF16)
    return array.astype(np.float32)


def tensor(name: str, array: Array, raw: bool) -> onnx.TensorProto:
    proto = numpy_helper.from_array(array, name)
    if not raw:
        proto.ClearField("raw_data")
        proto.int32_data.extend(array.view(np.uint16).reshape(-1).tolist())
    return proto


@HALVES
@pytest.mark.parametrize("raw", [True, False])
def test_a_product_with_a_constant(dtype: np.dtype[Any], raw: bool) -> None:
    x, w, b = values(dtype, 3, 16), values(dtype, 16, 8), values(dtype, 1)
    nodes = [node("MatMul", ["x", "w"], ["p"]), node("Add", ["p", "b"], ["s"]),
             node("Relu", ["s"], ["y"])]  # fmt: skip
    proto = model(nodes, [value("x", [3, 16], dtype)], [value("y", [3, 8], dtype)])
    proto.graph.initializer.extend([tensor("w", w, raw), tensor("b", b, raw)])
    found = tessella.compile(proto)
    assert [found.inputs[0].dtype, found.outputs[0].dtype] == [dtype.name] * 2
    (y,) = found.run(None, {"x": x})
    exact = np.maximum(plain(x) @ plain(w) + plain(b), 0)
    np.testing.assert_allclose(plain(y), exact, atol=4 * float(ml_dtypes.finfo(dtype).eps))
    if dtype == np.float16:
        np.testing.assert_allclose(y, runtime(proto, {"x": x})[0], atol=4e-3)


@HALVES
def test_casts(dtype: np.dtype[Any]) -> None:
    x = np.array([0, -0.0, 1.5, 1e-8, 3e38, 65504, np.inf, -np.inf, 0.1, 257, -3], np.float32)
    code = {np.dtype(np.float16): TensorProto.FLOAT16, BF16: TensorProto.BFLOAT16}[dtype]
    nodes = [node("Cast", ["x"], ["y"], to=code), node("Cast", ["y"], ["z"], to=1),
             node("CastLike", ["x", "y"], ["w"])]  # fmt: skip
    outputs = [value("y", [11], dtype), value("z", [11]), value("w", [11], dtype)]
    y, z, w = tessella.compile(model(nodes, [value("x", [11])], outputs)).run(None, {"x": x})
    with np.errstate(over="ignore"):
        expected = x.astype(dtype)
    for found in (y, w):
        np.testing.assert_array_equal(plain(found), expected.astype(np.float32))
    np.testing.assert_array_equal(z, expected.astype(np.float32), strict=True)


@HALVES
@pytest.mark.parametrize(
    "op, settings",
    [
        ("Exp", {}),
        ("Softmax", {"axis": 1}),
        ("ReduceSum", {}),
        ("Transpose", {"perm": [1, 0]}),
        ("Sqrt", {}),
        ("GlobalAveragePool", {}),
        ("Clip", {}),
    ],
)
def test_ops_round_once(op: str, settings: dict[str, Any], dtype: np.dtype[Any]) -> None:
    """Each as ONNX Runtime has it in float32, rounded."""
    x = abs(values(dtype, 3, 32))
    if op == "GlobalAveragePool":
        x = x[None]
    nodes = [node(op, ["x"], ["y"], **settings)]
    wide = model(nodes, [value("x", x.shape)], [value("y", None)])
    narrow = model(nodes, [value("x", x.shape, dtype)], [value("y", None, dtype)])
    (expected,) = runtime(wide, {"x": x.astype(np.float32)})
    (found,) = tessella.compile(narrow).run(None, {"x": x})
    eps = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(plain(found), expected, rtol=eps, atol=eps / 8)


@HALVES
def test_constants_of_options_and_files(dtype: np.dtype[Any], tmp_path: Any) -> None:
    x, c = values(dtype, 4), normal(4, seed=1).astype(dtype)
    inputs = [value("x", [4], dtype), value("c", [4], dtype)]
    proto = model([node("Mul", ["x", "c"], ["y"])], inputs, [value("y", [4], dtype)])
    (expected,) = tessella.compile(proto).run(None, {"x": x, "c": c})
    np.testing.assert_array_equal(plain(expected), plain((x * c).astype(dtype)))
    (found,) = run(proto, {"x": x}, constants={"c": c})
    np.testing.assert_array_equal(plain(found), plain(expected))
    onnx.save(proto, tmp_path / "m.onnx")
    assert load_model(tmp_path / "m.onnx").graph.name == "test"


@HALVES
def test_bounds_that_are_constants(dtype: np.dtype[Any]) -> None:
    nodes = [node("Clip", ["x", "low", "high"], ["y"])]
    proto = model(nodes, [value("x", [5], dtype)], [value("y", [5], dtype)])
    bounds = {"low": np.asarray(-1, dtype), "high": np.asarray(2, dtype)}
    proto.graph.initializer.extend([tensor(n, a, raw=True) for n, a in bounds.items()])
    x = np.array([-3, -1, 0.5, 2, 9], dtype)
    (y,) = tessella.compile(proto).run(None, {"x": x})
    assert plain(y).tolist() == [-1, -1, 0.5, 2, 2]


NONE = np.zeros(0, np.float32)
TRANSFORMS: list[tuple[str, tuple[int, ...], dict[str, Array], dict[str, Any]]] = [
    ("DFT", (1, 12, 1), {}, {}),
    ("STFT", (1, 12, 1), {"step": np.array(2), "window": np.ones(4)}, {}),
    (
        "Resize",
        (1, 2, 4, 4),
        {"roi": NONE, "scales": NONE, "sizes": np.array([1, 2, 7, 8])},
        {"mode": "linear"},
    ),
]


@HALVES
@pytest.mark.parametrize("op, shape, more, settings", TRANSFORMS)
def test_constants_of_transforms(
    dtype: np.dtype[Any],
    op: str,
    shape: tuple[int, ...],
    more: dict[str, Array],
    settings: dict[str, Any],
) -> None:
    """A constant that is computed at import has the element type of the op that uses it."""

    def proto(kind: npt.DTypeLike) -> onnx.ModelProto:
        operands = {n: a.astype(kind) if a.dtype == np.float64 else a for n, a in more.items()}
        feeds = {"x": x.astype(kind), **operands}
        return one_node(op, feeds, opset=19, constants=list(more), **settings)

    x = values(dtype, *shape)
    (y,) = tessella.compile(proto(dtype)).run(None, {"x": x})
    (wanted,) = runtime(proto(np.float32), {"x": x.astype(np.float32)})
    np.testing.assert_allclose(plain(y), wanted, atol=16 * float(ml_dtypes.finfo(dtype).eps))
