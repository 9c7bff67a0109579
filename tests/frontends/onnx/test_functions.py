"""Functions that a model defines, and branches that are decided at import."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tessella.dialects.graph import main_function
from tessella.dialects.nn.core import NnOp
from tessella.frontends.onnx import OnnxSource
from tessella.support.errors import InvalidModelError, ResourceError, ShapeError
from tests.frontends.onnx.models import model, run, value

node = helper.make_node
X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)


def test_function_of_the_model() -> None:
    body = [
        node("Mul", ["a", "b"], ["scaled"]),
        node("LeakyRelu", ["scaled"], ["result"]),
    ]
    body[1].attribute.add(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    imports = [helper.make_opsetid("", 16)]
    function = helper.make_function(
        "com.example", "Leaky", ["a", "b"], ["result"], body, imports, ["slope"]
    )
    call = node("Leaky", ["x", "x"], ["y"], domain="com.example", slope=0.5)
    twice = node("Leaky", ["y", "x"], ["z"], domain="com.example", slope=0.25, name="again")
    proto = model(
        [call, twice], [value("x", [2, 3])], [value("z", [2, 3])],
        domains={"com.example": 1}, functions=[function],
    )  # fmt: skip
    y = X * X
    z = np.where(y * X > 0, y * X, 0.25 * y * X)
    np.testing.assert_allclose(run(proto, {"x": X})[0], z)
    graph = OnnxSource(proto).graph({"x": (2, 3)})
    ops = [op for op in main_function(graph.module).body.block.ops if isinstance(op, NnOp)]
    assert ops[-1].node == "again/LeakyRelu_1"


def test_functions_that_call_each_other_for_ever() -> None:
    imports = [helper.make_opsetid("", 16), helper.make_opsetid("f", 1)]
    names = [f"F{i}" for i in range(30)]

    def twice(other: str) -> list[onnx.NodeProto]:
        return [node(other, ["a"], ["b"], domain="f"), node(other, ["b"], ["c"], domain="f")]

    functions = [
        helper.make_function("f", name, ["a"], ["c"], twice(after), imports)
        for name, after in zip(names, [*names[1:], names[0]], strict=True)
    ]
    call = node("F0", ["x"], ["y"], domain="f")
    proto = model([call], [value("x", [1])], [value("y", [1])], domains={"f": 1})
    proto.functions.extend(functions)
    with pytest.raises((InvalidModelError, ResourceError)):
        OnnxSource(proto).graph({"x": (1,)})


@pytest.mark.parametrize("taken", [True, False])
def test_if_that_is_decided(taken: bool) -> None:
    nodes = [node("Relu", ["x"], ["r"]), node("Add", ["r", "one"], ["t"])]
    one = helper.make_tensor("one", TensorProto.FLOAT, [], [1.0])
    then = helper.make_graph(nodes, "then", [], [value("t", [])], [one])
    other = helper.make_graph([node("Neg", ["x"], ["e"])], "else", [], [value("e", [])])
    branch = node("If", ["condition"], ["y"], then_branch=then, else_branch=other)
    proto = model(
        [branch], [value("x", [2, 3])], [value("y", [2, 3])], weights={"condition": np.array(taken)}
    )
    expected = np.maximum(X, 0) + 1 if taken else -X
    np.testing.assert_array_equal(run(proto, {"x": X})[0], expected)


def test_if_that_is_not_decided() -> None:
    then = helper.make_graph([node("Relu", ["x"], ["t"])], "then", [], [value("t", [2, 3])])
    branch = node("If", ["condition"], ["y"], then_branch=then, else_branch=then)
    inputs = [value("x", [2, 3]), value("condition", [], np.bool_)]
    proto = model([branch], inputs, [value("y", [2, 3])])
    with pytest.raises(ShapeError, match="condition"):
        OnnxSource(proto).graph({"x": (2, 3), "condition": ()})


def test_an_error_in_a_function_of_onnx_tells_the_operands_of_the_node() -> None:
    q, k = value("q", [1, 2, 2, 4]), value("k", [1, 2, 0, 4])
    proto = model([node("Attention", ["q", "k", "k"], ["y"])], [q, k], [value("y", None)], opset=23)
    with pytest.raises(ShapeError, match=r"Attention takes no operands .*1x2x0x4xf32"):
        OnnxSource(proto).graph({"q": (1, 2, 2, 4), "k": (1, 2, 0, 4)})
