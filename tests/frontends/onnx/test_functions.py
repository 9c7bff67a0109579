"""Functions that a model defines, and branches that are decided at import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tessella
from tessella.dialects.graph import main_function
from tessella.dialects.nn.core import NnOp
from tessella.frontends.onnx import OnnxSource
from tessella.support.errors import InvalidModelError, ResourceError, ShapeError
from tests.frontends.onnx.models import model, run, same, value

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


def with_function(graph: str, function: str) -> onnx.ModelProto:
    """A model with a graph and a function of the domain `f`, as text."""
    opsets = 'opset_import: ["" : 21, "f" : 1]'
    return onnx.parser.parse_model(
        f'<ir_version: 10, {opsets}> g {graph} <domain: "f", {opsets}> {function}'
    )


def compare_with_onnxruntime(proto: onnx.ModelProto, feeds: Mapping[str, Any]) -> None:
    """The model gives the results of ONNX Runtime."""
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    found = tessella.compile(proto).run(None, dict(feeds))
    same(found, [np.asarray(y) for y in session.run(None, dict(feeds))])


@pytest.mark.parametrize("condition", [True, False])
def test_attributes_and_absent_inputs_of_a_call_in_a_branch(condition: bool) -> None:
    proto = with_function(
        "(float[2,3] x, bool c) => (float[2,3] y, float low) "
        "{low = Constant<value_float=2.0>() y = f.F<slope=0.25>(x, c)}",
        "F<slope>(x, c, low) => (y) {y = If(c)<"
        "then_branch = t () => (o) {o = LeakyRelu<alpha: float = @slope>(x)}, "
        "else_branch = e () => (o) {o = Clip(x, low)}>}",
    )
    compare_with_onnxruntime(proto, {"x": X, "c": np.array(condition)})


def test_an_attribute_of_a_call_in_a_loop() -> None:
    proto = with_function(
        "(float[2,3] x, int64 n) => (float[2,3] y) {y = f.F<slope=0.5>(x, n)}",
        "F<slope>(x, n) => (y) {y = Loop(n,,x)<body = b (int64 i, bool c, float[2,3] a) => "
        "(bool co, float[2,3] ao) {co = Identity(c) ao = LeakyRelu<alpha: float = @slope>(a)}>}",
    )
    compare_with_onnxruntime(proto, {"x": X, "n": np.array(3)})


GROWN = (
    "r = Loop(n,,b)<body = l (int64 i, bool c, float[q] d) => (bool co, float[w] e) "
    "{co = Identity(c) t = Neg(b) v = Add(t, b) u = Sub(v, b) e = Concat<axis=0>(d, u)}>"
)
"""A loop whose state grows, which is a step of a program: calls of a function around it are
replaced by its nodes. The body of the loop calls a value `t`."""

A, B = np.array([[1, 0, 2, 0, 3], [0, 5, 6, 7, 0]], np.float32)


def rename(proto: onnx.ModelProto, old: str, new: str) -> None:
    """Give a result of the graph another name, which the text of a model cannot have."""
    for node in proto.graph.node:
        node.output[:] = [new if name == old else name for name in node.output]
    for info in proto.graph.output:
        info.name = new if info.name == old else info.name


@pytest.mark.parametrize(
    "graph, function",
    [
        # an outer value has the name that a value of the body would get
        (
            "(float[p] a, float[p] b, int64 n) => (float[m] y, float[p] F_0_h) "
            "{y = f.F(a, n) F_0_h = Neg(b)}",
            "h = Abs(r) y = Neg(h)",
        ),
        # an operand has the name of a value in the body of the loop
        ("(float[p] t, int64 n) => (float[m] y) {y = f.F(t, n)}", "y = Neg(r)"),
        # a result that the call leaves out is read in the body
        (
            "(float[p] a, int64 n) => (float[m] y) {, y = f.F(a, n)}",
            "h = Abs(r) y = Mul(h, h)",
        ),
    ],
)
def test_names_where_nodes_replace_a_call(graph: str, function: str) -> None:
    results = "(h, y)" if "{," in graph else "(y)"
    proto = with_function(graph, f"F(b, n) => {results} {{{GROWN} {function}}}")
    rename(proto, "F_0_h", "F_0/h")
    feeds = {"a": A, "b": B, "t": A, "n": np.array(2)}
    compare_with_onnxruntime(proto, {info.name: feeds[info.name] for info in proto.graph.input})


def test_two_calls_of_one_name() -> None:
    proto = with_function(
        "(float[p] a, float[p] b, int64 n) => (float[m] y, float[k] z) "
        "{y = f.F(a, n) z = f.F(b, n)}",
        f"F(b, n) => (y) {{{GROWN} h = Abs(r) y = Neg(h)}}",
    )
    for call in proto.graph.node:
        call.name = "call"
    found = tessella.compile(proto).run(None, {"a": A, "b": B, "n": np.array(2)})
    same(found, [-np.concatenate([x, x, x]) for x in (A, B)])


def test_a_call_that_returns_an_operand() -> None:
    proto = with_function(
        "(float[p] a, int64 n) => (float[p] z, float[m] y) {z, y = f.F(a, n)}",
        f"F(b, n) => (b, y) {{{GROWN} y = Neg(r)}}",
    )
    found = tessella.compile(proto).run(None, {"a": A, "n": np.array(2)})
    same(found, [A, np.concatenate([-A, A, A])])
