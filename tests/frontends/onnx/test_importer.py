"""The source of programs: its signature, names, limits, and all that is unsupported at once."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tessella.dialects.graph import main_function, signature
from tessella.dialects.nn.core import NnOp
from tessella.frontends.onnx import OnnxSource, check
from tessella.support.errors import (
    InputError,
    InvalidModelError,
    ResourceError,
    ShapeError,
    Unsupported,
    UnsupportedError,
)
from tests.frontends.onnx.models import Array, Shape, model, one_node, run, value

node = helper.make_node
X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)


def ops_of(source: OnnxSource, **shapes: tuple[int, ...]) -> list[NnOp]:
    graph = source.graph(shapes)
    return [op for op in main_function(graph.module).body.block.ops if isinstance(op, NnOp)]


def test_symbolic_and_unknown_dimensions() -> None:
    shape = ["n", None, 3]
    proto = model([node("Relu", ["x"], ["y"])], [value("x", shape)], [value("y", shape)])
    source = OnnxSource(proto)
    assert source.inputs[0].shape == ("n", "x:1", 3)
    assert source.outputs[0].shape == ("n", "y:1", 3)
    graph = source.graph({"x": (2, 5, 3)})
    assert [info.shape for info in signature(graph.module)[0]] == [(2, 5, 3)]


def test_outputs_without_a_shape() -> None:
    def flatten(shape: Shape | None) -> OnnxSource:
        nodes = [node("Flatten", ["x"], ["y"])]
        return OnnxSource(model(nodes, [value("x", shape)], [value("y", None)]))

    source = flatten([2, 3, 4])
    assert source.outputs[0].shape == (2, 12)
    source = flatten(["n", 3])
    assert source.outputs[0].shape == ("y:*",)
    with pytest.raises(InvalidModelError, match="no shape"):
        flatten(None)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4, 1), (2, 3, 5), (-1, 3, 4)])
def test_shapes_that_do_not_fit(shape: tuple[int, ...]) -> None:
    proto = model(
        [node("Relu", ["x"], ["y"])], [value("x", ["n", "m", 4])], [value("y", ["n", "m", 4])]
    )
    with pytest.raises(ShapeError, match="'x'"):
        OnnxSource(proto).graph({"x": shape})


def test_equal_symbols_are_equal() -> None:
    inputs = [value("a", ["n"]), value("b", ["n"])]
    proto = model([node("Add", ["a", "b"], ["y"])], inputs, [value("y", ["n"])])
    OnnxSource(proto).graph({"a": (3,), "b": (3,)})
    with pytest.raises(ShapeError, match="n=3"):
        OnnxSource(proto).graph({"a": (3,), "b": (1,)})


def test_shapes_for_the_wrong_inputs() -> None:
    source = OnnxSource(one_node("Relu", {"x": X}, opset=21))
    for shapes in ({}, {"x": (2, 3), "z": (1,)}):
        with pytest.raises(InputError):
            source.graph(shapes)


def test_ops_carry_the_names_of_their_nodes() -> None:
    nodes = [node("Relu", ["x"], ["a"], name="/block/relu"), node("Exp", ["a"], ["b"])]
    nodes.append(node("Gelu", ["b"], ["y"]))
    proto = model(nodes, [value("x", [2])], [value("y", [2])])
    assert [op.node for op in ops_of(OnnxSource(proto), x=(2,))] == [
        "/block/relu",
        "Exp_1",
        "Gelu_2",
    ]


def test_weights_are_shared_and_used_ones_only() -> None:
    weights: dict[str, Array] = {
        "w": np.arange(3, dtype=np.float32),
        "unused": np.ones(5, np.float32),
        "one": np.ones(1, np.float32),
    }
    nodes = [node("Add", ["x", "w"], ["a"]), node("Mul", ["a", "w"], ["b"])]
    nodes += [node("Mul", ["b", "one"], ["y"]), node("Exp", ["unused"], ["dead"])]
    source = OnnxSource(model(nodes, [value("x", [2, 3])], [value("y", [2, 3])], weights=weights))
    graph = source.graph({"x": (2, 3)})
    assert list(graph.weights) == ["w"]
    names = [op.name for op in main_function(graph.module).body.block.ops]
    assert names == ["nn.weight", "nn.add", "nn.mul", "nn.splat", "nn.mul", "func.return"]
    again = source.graph({"x": (2, 3)})
    assert again.weights["w"] is graph.weights["w"]


def test_raw_data_is_not_copied() -> None:
    weights = {"w": np.arange(6, dtype=np.float32)}
    proto = model([node("Add", ["x", "w"], ["y"])], [value("x", [6])], [value("y", [6])],
                  weights=weights)  # fmt: skip
    array = OnnxSource(proto).graph({"x": (6,)}).weights["w"]
    assert not array.flags.owndata
    assert not array.flags.writeable


def test_all_types_of_initializers() -> None:
    for dtype in ("bool", "int8", "uint16", "int32", "uint32", "int64", "uint64", "float64"):
        array = np.array([0, 1, 1, 100], dtype)
        for raw in (True, False):
            data = array.tobytes() if raw else array.astype(object).tolist()
            code = helper.np_dtype_to_tensor_dtype(array.dtype)
            proto = model([node("Identity", ["w"], ["y"])], [], [value("y", [4], dtype)])
            proto.graph.initializer.append(helper.make_tensor("w", code, [4], data, raw=raw))
            np.testing.assert_array_equal(run(proto, {})[0], array, strict=True)


def test_a_bool_is_0_or_1() -> None:
    proto = model([node("Identity", ["w"], ["y"])], [], [value("y", [3], np.bool_)])
    tensor = TensorProto(name="w", data_type=TensorProto.BOOL, dims=[3], raw_data=b"\0\2\xff")
    proto.graph.initializer.append(tensor)
    assert run(proto, {})[0].view(np.uint8).tolist() == [0, 1, 1]


def test_sparse_initializer_and_constant() -> None:
    values = helper.make_tensor("w", TensorProto.FLOAT, [2], [5.0, 7.0])
    indices = helper.make_tensor("i", TensorProto.INT64, [2], [1, 5])
    sparse = helper.make_sparse_tensor(values, indices, [2, 3])
    nodes = [node("Constant", [], ["c"], sparse_value=sparse), node("Add", ["c", "x"], ["y"])]
    proto = model(nodes, [value("x", [2, 3])], [value("y", [2, 3])])
    expected = X + np.array([[0, 5, 0], [0, 0, 7]], np.float32)
    np.testing.assert_array_equal(run(proto, {"x": X})[0], expected)


def test_input_that_is_an_output() -> None:
    proto = model([node("Identity", ["x"], ["y"])], [value("x", [2, 3])], [value("y", [2, 3])])
    np.testing.assert_array_equal(run(proto, {"x": X})[0], X)


def test_everything_unsupported_is_listed_at_once() -> None:
    strange = TensorProto(name="strange", data_type=99, dims=[1], raw_data=b"1")
    wave = value("wave", [1])
    wave.type.tensor_type.elem_type = 99
    nodes = [
        node("Relu", ["x"], ["a"], name="fine"),
        node("NoSuchOp", ["a"], ["b"], name="unknown"),
        node("Fused", ["b"], ["c"], name="foreign", domain="com.example"),
        node("Cast", ["c"], ["d"], name="cast", to=99),
        node("LpNormalization", ["image"], ["p"], name="norm", p=3),
        node("Constant", [], ["e"], name="constant", value=strange),
        node("LpNormalization", ["dead"], ["dead2"], name="not needed", p=3),
        node("Sum", ["d", "e", "p"], ["y"], name="sum"),
        node("Sampling", ["strange"], ["z"], name="search", domain="com.microsoft"),
    ]
    nodes.insert(0, node("Relu", ["x"], ["dead"]))
    inputs = [value("x", [1]), value("image", [1, 1, 4, 4]), wave]
    outputs = [value("y", [1]), value("z", [1])]
    proto = model(nodes, inputs, outputs, domains={"com.example": 1, "com.microsoft": 1})
    proto.graph.initializer.append(strange)
    expected = [
        Unsupported("input", "wave", "type type number 99 is not supported"),
        Unsupported("initializer", "strange", "type type number 99 is not supported"),
        Unsupported("NoSuchOp", "unknown", "ONNX has no such op in opset 21"),
        Unsupported(
            "com.example.Fused",
            "foreign",
            "domain 'com.example' is not supported: a plugin can add its ops through an entry "
            "point 'com.example' of the group 'tessella.onnx' (docs/plugins.md)",
        ),
        Unsupported("Cast", "cast", "type type number 99 is not supported"),
        Unsupported("LpNormalization", "norm", "p=3; supported: 2, 1"),
        Unsupported(
            "Constant", "constant", "attribute 'value': type type number 99 is not supported"
        ),
        Unsupported(
            "com.microsoft.Sampling",
            "search",
            "the op wraps the search for tokens around a decoder; compile the decoder alone, and "
            "generate tokens in a loop around its calls (model.bind keeps the caches)",
        ),
    ]
    assert check(proto) == expected
    with pytest.raises(UnsupportedError, match="8 unsupported things") as caught:
        OnnxSource(proto).graph({"x": (1,), "image": (1, 1, 4, 4), "wave": (1,)})
    assert list(caught.value.issues) == expected


def test_what_depends_on_shapes_is_listed_at_once_too() -> None:
    nodes = [
        node("Resize", ["x", "", "s"], ["a"], name="first", exclude_outside=1),
        node("Relu", ["a"], ["b"]),
        node("Resize", ["b", "", "s"], ["c"], name="hidden behind the first", exclude_outside=1),
        node("Resize", ["x", "", "s"], ["d"], name="second", exclude_outside=1),
        node("Add", ["c", "d"], ["y"]),
    ]
    proto = model(
        nodes, [value("x", [2])], [value("y", [2])], weights={"s": np.array([2], np.float32)}
    )
    assert check(proto) == []
    with pytest.raises(UnsupportedError) as caught:
        OnnxSource(proto).graph({"x": (2,)})
    assert [issue.node for issue in caught.value.issues] == ["first", "second"]


def test_newer_op_set() -> None:
    proto = one_node("Relu", {"x": X}, opset=onnx.defs.onnx_opset_version() + 1)
    assert [issue.op for issue in check(proto)] == ["opset"]


def test_errors_name_the_node() -> None:
    nodes = [node("Add", ["x", "w"], ["y"], name="sum of it")]
    weights = {"w": np.ones(4, np.float32)}
    proto = model(nodes, [value("x", [3])], [value("y", [3])], weights=weights)
    with pytest.raises(ShapeError, match=r"node 'sum of it' \(Add\)"):
        OnnxSource(proto).graph({"x": (3,)})


def test_types_are_not_promoted() -> None:
    proto = one_node("Add", {"x": X, "w": np.ones(3, np.float64)}, opset=14)
    with pytest.raises(ShapeError, match="element types differ"):
        OnnxSource(proto).graph({"x": (2, 3), "w": (3,)})


@pytest.mark.parametrize(
    "shape", [[1 << 40], [1 << 62, 1 << 62], [1 << 33, 0], [0, 1 << 62], [1 << 16, 1 << 16, 4]]
)
def test_huge_tensors(shape: list[int]) -> None:
    proto = one_node("ConstantOfShape", {"shape": np.array(shape)}, opset=9, constants=["shape"])
    with pytest.raises(ResourceError, match="ConstantOfShape_0"):
        OnnxSource(proto).graph({})


def test_limits() -> None:
    proto = one_node("Relu", {"x": X}, opset=14)
    with pytest.raises(ResourceError, match="max_bytes"):
        OnnxSource(proto, max_bytes=23).graph({"x": (2, 3)})
    OnnxSource(proto, max_bytes=24).graph({"x": (2, 3)})
    symbolic = model([node("Relu", ["x"], ["y"])], [value("x", ["n"])], [value("y", ["n"])])
    with pytest.raises(ResourceError, match="'x'"):
        OnnxSource(symbolic).graph({"x": (1 << 60,)})


def test_constants() -> None:
    inputs = [value("x", [2, 3]), value("shape", [1], np.int64)]
    proto = model([node("Reshape", ["x", "shape"], ["y"])], inputs, [value("y", ["n"])])
    with pytest.raises(ShapeError, match="values=") as caught:
        OnnxSource(proto).graph({"x": (2, 3), "shape": (1,)})
    assert "'shape'" in str(caught.value)
    source = OnnxSource(proto, constants={"shape": np.array([6])})
    assert [info.name for info in source.inputs] == ["x"]
    np.testing.assert_array_equal(
        run(proto, {"x": X}, constants={"shape": np.array([-1])})[0], X.reshape(-1)
    )


@pytest.mark.parametrize(
    "constants", [{"z": np.array([6])}, {"shape": np.array([6.0])}, {"x": np.zeros((2, 4), "f4")}]
)
def test_constants_that_do_not_fit(constants: dict[str, Array]) -> None:
    inputs = [value("x", [2, 3]), value("shape", [1], np.int64)]
    proto = model([node("Reshape", ["x", "shape"], ["y"])], inputs, [value("y", ["n"])])
    with pytest.raises((InputError, ShapeError)):
        OnnxSource(proto, constants=constants)


def test_import_is_lazy_and_says_what_is_missing() -> None:
    code = (
        "import sys; sys.modules['onnx'] = None\n"
        "import tessella.frontends.onnx as frontend\n"
        "from tessella.support.errors import OptionError\n"
        "try: frontend.OnnxSource\n"
        "except OptionError as error: print(error.hint)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install tessella[onnx]" in done.stdout
