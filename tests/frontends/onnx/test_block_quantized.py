"""Matrices of small integers in blocks, against ONNX Runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tessella
from tessella.support.errors import ShapeError, TessellaError, UnsupportedError
from tests.models import run_onnxruntime

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """A MatMulNBits."""

    n: int
    k: int
    block: int
    bits: int = 4
    zero: str = ""
    """The type of zero points: `packed`, `float`, or none."""
    level: int = 0
    bias: bool = False
    dtype: str = "float32"

    @property
    def blocks(self) -> int:
        return -(-self.k // self.block)


def product(case: Case, **attributes: int) -> onnx.ModelProto:
    """A model of one product with any number of rows."""
    draw, n, blocks = np.random.default_rng(case.n), case.n, case.blocks
    size = case.block * case.bits // 8
    floats = draw.uniform(0.01, 0.1, (n, blocks)).astype(case.dtype)
    weights = {"b": draw.integers(0, 256, (n, blocks, size), np.uint8), "s": floats, "z": None}
    if case.zero == "packed":
        weights["z"] = draw.integers(0, 256, (n, -(-blocks * case.bits // 8)), np.uint8)
    elif case.zero == "float":
        weights["z"] = draw.uniform(0, 15, (n, blocks)).astype(case.dtype)
    names = ["x", *(name if array is not None else "" for name, array in weights.items())]
    if case.bias:
        weights["c"] = draw.normal(size=n).astype(case.dtype)
        names += ["", "c"]
    settings: dict[str, Any] = {"K": case.k, "N": n, "bits": case.bits, "block_size": case.block}
    settings |= {"accuracy_level": case.level, **attributes}
    node = helper.make_node("MatMulNBits", names, ["y"], domain="com.microsoft", **settings)
    element = helper.np_dtype_to_tensor_dtype(np.dtype(case.dtype))
    graph = helper.make_graph(
        [node],
        "product",
        [helper.make_tensor_value_info("x", element, ["rows", case.k])],
        [helper.make_tensor_value_info("y", element, ["rows", n])],
        [numpy_helper.from_array(a, name) for name, a in weights.items() if a is not None],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def rows_of(count: int, case: Case) -> Array:
    return np.random.default_rng(count).normal(size=(count, case.k)).astype(case.dtype)


CASES = [
    Case(24, 64, 16),
    Case(17, 100, 32),
    Case(33, 256, 64, zero="packed"),
    Case(9, 300, 128, zero="packed", bias=True),
    Case(40, 512, 256),
    Case(16, 96, 32, zero="float"),
    Case(21, 128, 32, bits=8),
    Case(21, 128, 32, bits=8, zero="packed"),
    Case(19, 128, 32, dtype="float16"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_matmul_n_bits(case: Case) -> None:
    proto = product(case)
    model = tessella.compile(proto)
    for count in (1, 5, 64):
        x = rows_of(count, case)
        (expected,) = run_onnxruntime(proto, {"x": x})
        (found,) = model.run(None, {"x": x})
        assert found.dtype == expected.dtype
        tolerance = 2e-3 if case.dtype == "float16" else 1e-5
        largest = np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * largest)


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize(
    "case", [Case(24, 256, 32, level=4), Case(17, 100, 32, zero="packed", level=4)], ids=str
)
def test_quantized_rows(case: Case, rows: int) -> None:
    proto, x = product(case), rows_of(rows, case)
    model = tessella.compile(proto)
    (found,), (expected,) = model.run(None, {"x": x}), run_onnxruntime(proto, {"x": x})
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    assert "nn.quantize" in model.as_text("nn")


def test_rows_of_zeros_stay_zeros() -> None:
    case = Case(24, 64, 32, level=4)
    (found,) = tessella.compile(product(case)).run(None, {"x": np.zeros((2, 64), np.float32)})
    np.testing.assert_array_equal(found, np.zeros((2, 24)))


def test_weights_stay_packed() -> None:
    """In memory, a weight takes its bits and its share of the scales."""
    case = Case(64, 1024, 32)
    model = tessella.compile(product(case))
    model.run(None, {"x": rows_of(1, case)})
    text = model.as_text("tile")
    assert "tensor<64x32x4x1xi32" in text
    assert "xf32, #f32_packed" in text


@pytest.mark.parametrize(
    "error, message, attributes",
    [
        (TessellaError, "power of two from 16", {"block_size": 24}),
        (UnsupportedError, "integers of 3 bits", {"bits": 3}),
        (UnsupportedError, "packed for one machine", {"weight_prepacked": 1}),
        (ShapeError, "number of bytes", {"N": 25}),
        (ShapeError, "rows of K elements", {"K": 65}),
    ],
)
def test_malformed(error: type[Exception], message: str, attributes: dict[str, int]) -> None:
    with pytest.raises(error, match=message):
        tessella.compile(product(Case(24, 64, 16), **attributes)).prepare({"x": (1, 64)})


def test_an_order_of_rows_is_refused() -> None:
    proto = product(Case(24, 64, 16))
    proto.graph.node[0].input.append("order")
    order = numpy_helper.from_array(np.arange(64, dtype=np.int32), "order")
    proto.graph.initializer.append(order)
    with pytest.raises(UnsupportedError, match="g_idx"):
        tessella.compile(proto).prepare({"x": (1, 64)})


def test_a_computed_matrix_has_a_program_for_each_value() -> None:
    proto = product(Case(24, 64, 16))
    proto.graph.node[0].input[1] = "computed"
    nodes = [
        helper.make_node("Slice", ["x", "zeros", "ones"], ["one"]),
        helper.make_node("Cast", ["one"], ["byte"], to=TensorProto.UINT8),
        helper.make_node("Expand", ["byte", "shape"], ["computed"]),
        *proto.graph.node,
    ]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    for name, numbers in (("zeros", [0, 0]), ("ones", [1, 1]), ("shape", [24, 4, 8])):
        proto.graph.initializer.append(numpy_helper.from_array(np.array(numbers), name))
    model = tessella.compile(proto)
    for number in (3, 200):
        x = rows_of(2, Case(24, 64, 16))
        x[0, 0] = number
        (found,), (expected,) = model.run(None, {"x": x}), run_onnxruntime(proto, {"x": x})
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("code", [TensorProto.INT4, TensorProto.UINT4, TensorProto.INT8])
@pytest.mark.parametrize("block", [16, 20])
@pytest.mark.parametrize("op", ["MatMul", "Gemm"])
def test_dequantize_linear(op: str, block: int, code: int) -> None:
    """Whole blocks stay packed; a shorter last block computes the same."""
    draw, k, n = np.random.default_rng(block), 64, 9
    bits = 8 if code == TensorProto.INT8 else 4
    low = 0 if code == TensorProto.UINT4 else -(1 << (bits - 1))
    w = draw.integers(low, low + (1 << bits), (k, n))
    blocks = -(-k // block)
    zero = draw.integers(low, low + (1 << bits), (blocks, n))
    scale = draw.uniform(0.1, 0.2, (blocks, n)).astype(np.float32)
    initializers = [
        helper.make_tensor("w", code, w.shape, w.reshape(-1)),
        numpy_helper.from_array(scale, "s"),
        helper.make_tensor("z", code, zero.shape, zero.reshape(-1)),
    ]
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=0, block_size=block),
        helper.make_node(op, ["x", "d"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, k])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, n])],
        initializers,
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = draw.normal(size=(3, k)).astype(np.float32)
    model = tessella.compile(proto)
    (found,) = model.run(None, {"x": x})
    rows = np.repeat(np.arange(blocks), block)[:k]
    wanted = x.astype(np.float64) @ ((w - zero[rows]) * scale[rows].astype(np.float64))
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    assert ("nn.packed_matmul" in model.as_text("placed")) == (k % block == 0)


def node_model(
    node: onnx.NodeProto, arrays: dict[str, Array], inputs: list[Any]
) -> onnx.ModelProto:
    """A model of a node of ONNX Runtime's domain, with its result `y` of any shape."""
    graph = helper.make_graph(
        [node],
        "node",
        inputs,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("bits", [4, 8, 2])
@pytest.mark.parametrize("shape, block", [((11, 64), 32), ((7, 40), 16), ((5, 3, 32), 16)])
def test_gather_block_quantized(shape: tuple[int, ...], block: int, bits: int, zero: bool) -> None:
    draw, last = np.random.default_rng(bits), len(shape) - 1
    blocks = (*shape[:-1], -(-shape[-1] // block))
    arrays = {
        "w": draw.integers(0, 256, (*shape[:-1], shape[-1] * bits // 8), np.uint8),
        "s": draw.uniform(0.1, 0.2, blocks).astype(np.float32),
    }
    if zero:
        size = -(-blocks[-1] * bits // 8)
        arrays["z"] = draw.integers(0, 256, (*shape[:-1], size), np.uint8)
    node = helper.make_node(
        "GatherBlockQuantized",
        ["w", "i", *list(arrays)[1:]],
        ["y"],
        domain="com.microsoft",
        bits=bits,
        block_size=block,
        quantize_axis=last,
    )
    indices = np.array([[0, 4], [2, -1]], np.int64)
    info = helper.make_tensor_value_info("i", TensorProto.INT64, ["a", 2])
    proto = node_model(node, arrays, [info])
    model = tessella.compile(proto)
    (found,), (expected,) = model.run(None, {"i": indices}), run_onnxruntime(proto, {"i": indices})
    np.testing.assert_array_equal(found, expected)
    assert "host" not in {op["kernel"] for op in model.explain().ops}


def bnb4(kind: int, transposed: int) -> onnx.ModelProto:
    """A model of a MatMulBnb4 of 9x64 values, for any number of rows."""
    n, k, block, draw = 9, 64, 16, np.random.default_rng(kind)
    arrays = {
        "w": draw.integers(0, 256, n * k // 2, np.uint8),
        "s": draw.uniform(0.1, 0.2, n * k // block).astype(np.float32),
    }
    settings: dict[str, Any] = {"N": n, "K": k, "block_size": block}
    settings |= {"quant_type": kind, "transB": transposed}
    names = ["x", "w", "s"]
    node = helper.make_node("MatMulBnb4", names, ["y"], domain="com.microsoft", **settings)
    columns = k if transposed else n
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", columns])
    return node_model(node, arrays, [info])


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("kind", [0, 1])
def test_matmul_bnb4(kind: int, transposed: int) -> None:
    """ONNX Runtime computes transposed products alone; these give the matrix, too."""
    whole = bnb4(kind, 1)
    (matrix,) = run_onnxruntime(whole, {"x": np.eye(64, dtype=np.float32)})
    x = np.random.default_rng(2).normal(size=(3, 64 if transposed else 9)).astype(np.float32)
    model = tessella.compile(bnb4(kind, transposed))
    (found,) = model.run(None, {"x": x})
    assert ("nn.packed_matmul" in model.as_text("placed")) == bool(transposed)
    expected = x @ (matrix if transposed else matrix.T)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


class Decoder:
    """A language model of two layers of width 64, whose matrices have four bits."""

    WIDTH, HEADS, TOKENS, BLOCK = 64, 4, 50, 32

    def __init__(self, level: int) -> None:
        self.level = level
        self.draw = np.random.default_rng(7)
        self.nodes: list[onnx.NodeProto] = []
        self.arrays: dict[str, Array] = {}

    def op(self, op: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        name = f"{op}.{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], domain=domain, **attributes))
        return name

    def array(self, array: Array) -> str:
        name = f"array.{len(self.arrays)}"
        self.arrays[name] = array
        return name

    def table(self, rows: int, columns: int) -> tuple[str, str]:
        blocks = columns // self.BLOCK
        codes = self.draw.integers(0, 256, (rows, blocks, self.BLOCK // 2), np.uint8)
        scale = self.draw.uniform(0.01, 0.04, (rows, blocks)).astype(np.float32)
        return self.array(codes), self.array(scale)

    def linear(self, x: str, n: int, k: int) -> str:
        settings = {"N": n, "K": k, "bits": 4, "block_size": self.BLOCK}
        settings["accuracy_level"] = self.level
        return self.op("MatMulNBits", x, *self.table(n, k), domain="com.microsoft", **settings)

    def norm(self, x: str) -> str:
        ones = self.array(np.ones(self.WIDTH, np.float32))
        return self.op("LayerNormalization", x, ones, axis=-1)

    def heads(self, x: str) -> str:
        shape = self.array(np.array([0, 0, self.HEADS, -1]))
        return self.op("Transpose", self.op("Reshape", x, shape), perm=[0, 2, 1, 3])

    def attention(self, x: str) -> str:
        q, k, v = (self.heads(self.linear(x, self.WIDTH, self.WIDTH)) for _ in range(3))
        scores = self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.op("Mul", scores, self.array(np.array(0.25, np.float32)))
        beyond = self.op(
            "Sub",
            self.op("Trilu", self.op("Exp", self.op("Mul", scores, self.zero)), upper=0),
            self.one,
        )
        scores = self.op(
            "Add", scores, self.op("Mul", beyond, self.array(np.array(1e9, np.float32)))
        )
        y = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        y = self.op("Transpose", y, perm=[0, 2, 1, 3])
        return self.op("Reshape", y, self.array(np.array([0, 0, self.WIDTH])))

    def layer(self, x: str) -> str:
        y = self.linear(self.attention(self.norm(x)), self.WIDTH, self.WIDTH)
        x = self.op("Add", x, y)
        inner = self.norm(x)
        gate, up = (self.linear(inner, 96, self.WIDTH) for _ in range(2))
        y = self.op("Mul", self.op("Mul", gate, self.op("Sigmoid", gate)), up)
        return self.op("Add", x, self.linear(y, self.WIDTH, 96))

    def model(self) -> onnx.ModelProto:
        self.zero, self.one = (self.array(np.array(n, np.float32)) for n in (0, 1))
        codes, scale = self.table(self.TOKENS, self.WIDTH)
        self.arrays[codes] = self.arrays[codes].reshape(self.TOKENS, -1)
        settings = {"bits": 4, "block_size": self.BLOCK, "quantize_axis": 1}
        x = self.op("GatherBlockQuantized", codes, "i", scale, domain="com.microsoft", **settings)
        for _ in range(2):
            x = self.layer(x)
        self.op("Identity", self.linear(self.norm(x), self.TOKENS, self.WIDTH))
        self.nodes[-1].output[0] = "y"
        graph = helper.make_graph(
            self.nodes,
            "decoder",
            [helper.make_tensor_value_info("i", TensorProto.INT64, [1, "length"])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, "length", self.TOKENS])],
            [numpy_helper.from_array(array, name) for name, array in self.arrays.items()],
        )
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.slow
@pytest.mark.parametrize("level, tolerance", [(0, 1e-5), (4, 2e-2)])
def test_a_decoder(level: int, tolerance: float) -> None:
    """With accuracy level 4, an integer may round to another neighbour than in ONNX Runtime."""
    proto = Decoder(level).model()
    model = tessella.compile(proto)
    for length in (1, 9, 4):
        tokens = np.random.default_rng(length).integers(0, Decoder.TOKENS, (1, length))
        (found,) = model.run(None, {"i": tokens})
        (expected,) = run_onnxruntime(proto, {"i": tokens})
        largest = np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * largest)
