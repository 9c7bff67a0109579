"""Gradients of ONNX ops against differences of ``onnx.reference``."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import tessella
from tessella.frontends.gradients import RULES
from tessella.frontends.onnx import OnnxSource
from tessella.support.errors import InvalidModelError, UnsupportedError
from tests.frontends.onnx.models import model, run, value

Array = npt.NDArray[Any]

TRAINING = "ai.onnx.preview.training"
STEP = 1e-6


def draw(*shape: int, low: float = -1.5) -> Array:
    return np.random.default_rng(shape).uniform(low, 1.5, shape)


@dataclass(frozen=True)
class Case:
    """A node: its op and attributes, operands, and further operands that are constants."""

    op: str
    operands: Sequence[Array]
    constants: Sequence[Array] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])


X = draw(2, 3)
AXES = np.array([1])

CASES = [
    *(Case(op, [X]) for op in "Abs Neg Relu Exp Sin Cos Tan Sinh Cosh Tanh Sigmoid".split()),
    *(Case(op, [X]) for op in ("Softplus", "Softmax", "LogSoftmax", "Softsign")),
    *(Case(op, [draw(2, 3, low=0.5)]) for op in ("Log", "Sqrt", "Reciprocal")),
    Case("Clip", [X], [np.array(-0.5), np.array(0.5)]),
    *(Case(op, [X, draw(3, low=0.5)]) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min")),
    Case("Pow", [draw(2, 3, low=0.5), draw(2, 1)]),
    Case("Where", [X, draw(3)], [np.array([[True], [False]])]),
    Case("MatMul", [draw(2, 2, 3), draw(3, 4)]),
    Case("MatMul", [draw(3), draw(3, 4)]),
    Case("Gemm", [X, draw(4, 3), draw(4)], attributes={"transB": 1, "alpha": 0.5}),
    Case("Conv", [draw(2, 3, 4), draw(2, 3, 2)]),
    Case(
        "Conv",
        [draw(1, 4, 5, 6), draw(2, 2, 3, 2), draw(2)],
        attributes={"strides": [2, 3], "pads": [1, 0, 2, 1], "dilations": [1, 2], "group": 2},
    ),
    Case("Conv", [draw(1, 1, 5, 5), draw(1, 1, 2, 2)], attributes={"strides": [3, 3]}),
    Case(
        "ConvTranspose",
        [draw(1, 2, 3, 2), draw(2, 3, 3, 2), draw(3)],
        attributes={"strides": [2, 1], "pads": [1, 0, 0, 1], "output_padding": [1, 0]},
    ),
    *(
        Case(op, [draw(2, 3, 2)], [AXES], {"keepdims": keepdims})
        for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin")
        for keepdims in (0, 1)
    ),
    Case("Reshape", [X], [np.array([3, 2])]),
    Case("Expand", [draw(2, 1)], [np.array([2, 2, 3])]),
    Case("Transpose", [draw(2, 3, 1)], attributes={"perm": [2, 0, 1]}),
    Case("Concat", [X, draw(2, 1)], attributes={"axis": 1}),
    Case("Slice", [draw(5, 2)], [np.array([1]), np.array([4])]),
    Case("Pad", [X], [np.array([0, 1, 2, 0])]),
    *(Case(op, [X]) for op in ("Floor", "Ceil", "Round", "Sign")),
    Case("Gather", [draw(2, 3, 2)], [np.array([[2, 0], [-1, 1]])], {"axis": 1}),
    Case("GatherElements", [draw(2, 3)], [np.array([[2, -1, 0, 0], [1, 1, -3, 2]])], {"axis": 1}),
    *(
        Case("Resize", [draw(1, 2, 5, 4)], [np.array([]), np.array(scales)], {"mode": mode})
        for mode in ("nearest", "linear")
        for scales in ([1, 1, 0.5, 2.5], [1, 1, 0.25, 1])
    ),
]  # fmt: skip


def loss(case: Case) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model of the sum of a node's weighted results, and its inputs."""
    operands = {f"x{i}": x for i, x in enumerate(case.operands)}
    constants = {f"c{i}": x for i, x in enumerate(case.constants)}
    names = [*operands, *constants]
    if case.op == "Where":
        names = ["c0", *operands]
    shape = np.asarray(_reference(case, names, operands, constants)).shape
    weights = {**constants, "w": np.random.default_rng(1).normal(size=shape)}
    nodes = [
        helper.make_node(case.op, names, ["y"], **case.attributes),
        helper.make_node("Mul", ["y", "w"], ["z"]),
        helper.make_node("ReduceSum", ["z"], ["loss"], keepdims=0),
    ]
    inputs = [value(name, x.shape, x.dtype) for name, x in operands.items()]
    return model(nodes, inputs, [value("loss", [], np.float64)], weights=weights), operands


def _reference(case: Case, names: Sequence[str], *arrays: Mapping[str, Array]) -> Any:
    node = helper.make_node(case.op, names, ["y"], **case.attributes)
    inputs = [value(n, x.shape, x.dtype) for each in arrays for n, x in each.items()]
    proto = model([node], inputs, [value("y", None, np.float64)])
    [result] = ReferenceEvaluator(proto).run(None, {n: x for a in arrays for n, x in a.items()})
    return result


def differentiated(proto: onnx.ModelProto, xs: Sequence[str], y: str) -> onnx.ModelProto:
    """The model, with the gradients of one of its values as outputs."""
    names = [f"d{x}" for x in xs]
    node = helper.make_node("Gradient", xs, names, domain=TRAINING, xs=xs, y=y)
    proto.graph.node.append(node)
    proto.opset_import.append(helper.make_opsetid(TRAINING, 1))
    proto.graph.ClearField("output")
    proto.graph.output.extend(value(name, None, np.float64) for name in names)
    return proto


def differences(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """The gradients of the only output, by differences."""
    evaluator = ReferenceEvaluator(proto)
    found: list[Array] = []
    for name, x in feeds.items():
        gradient = np.zeros_like(x)
        for place in np.ndindex(x.shape):
            step = np.zeros_like(x)
            step[place] = STEP
            moved = ({**feeds, name: x + sign * step} for sign in (1, -1))
            [above], [below] = (evaluator.run(None, each) for each in moved)
            gradient[place] = (np.asarray(above) - np.asarray(below)) / (2 * STEP)
        found.append(gradient)
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_as_differences(case: Case) -> None:
    proto, feeds = loss(case)
    wanted = differences(proto, feeds)
    found = run(differentiated(proto, [*feeds], "loss"), feeds)
    for gradient, expected in zip(found, wanted, strict=True):
        assert gradient.shape == expected.shape
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)


def test_every_rule_has_a_case() -> None:
    used = set[str]()
    for case in CASES:
        proto, feeds = loss(case)
        module = OnnxSource(proto).graph({name: x.shape for name, x in feeds.items()}).module
        used.update(op.name for op in module.walk())
    others = {f"nn.{name}" for name in ("log2", "log10", "cast", "erf", "mod")}
    others |= {"nn.grouped_matmul", "nn.grouped_outer"}  # tests/frontends/torch/test_grouped.py
    assert {op.name for op in RULES} - used <= others


def net() -> onnx.ModelProto:
    """A model of tanh (x * w), whose square is the loss."""
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["h"]),
        helper.make_node("Tanh", ["h"], ["t"]),
        helper.make_node("Mul", ["t", "t"], ["loss"]),
    ]
    inputs = [value(name, [2], np.float64) for name in "xw"]
    return model(nodes, inputs, [value("loss", [2], np.float64)])


FEEDS = {"x": np.array([0.5, -1.0]), "w": np.array([2.0, 0.25])}


def test_a_value_between_is_a_variable() -> None:
    [found] = tessella.compile(differentiated(net(), ["h"], "loss")).run(None, FEEDS)
    t = np.tanh(FEEDS["x"] * FEEDS["w"])
    np.testing.assert_allclose(found, 2 * t * (1 - t * t), rtol=1e-12)


def test_the_gradient_of_a_gradient() -> None:
    proto = differentiated(net(), ["x", "w"], "loss")
    second = helper.make_node(
        "Gradient", "xw", ["xx", "xw"], domain=TRAINING, xs=["x", "w"], y="dx"
    )
    proto.graph.node.append(second)
    proto.graph.output.extend(value(name, [2], np.float64) for name in ("xx", "xw"))
    xx = tessella.compile(proto).run(["xx"], FEEDS)[0]
    w = FEEDS["w"]
    t = np.tanh(FEEDS["x"] * w)
    u = 1 - t * t
    np.testing.assert_allclose(xx, 2 * w * w * u * (u - 2 * t * t), rtol=1e-10)


def test_the_gradient_of_erf() -> None:
    proto = model(
        [helper.make_node("Erf", ["x"], ["y"])],
        [value("x", [2], np.float64)],
        [value("y", [2], np.float64)],
    )
    x = FEEDS["x"]
    [found] = run(differentiated(proto, ["x"], "y"), {"x": x})
    np.testing.assert_allclose(found, 2 / np.sqrt(np.pi) * np.exp(-x * x), rtol=1e-12)


def test_the_gradient_of_a_large_kernel_is_refused() -> None:
    """The gradient with respect to the image is computed."""
    feeds = {"x": draw(1, 1, 13, 14), "w": draw(1, 1, 12, 12)}
    proto = model(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        [value(name, x.shape, np.float64) for name, x in feeds.items()],
        [value("y", [1, 1, 2, 3], np.float64)],
    )
    with pytest.raises(UnsupportedError, match="with a kernel of more than 128 elements"):
        run(differentiated(copy.deepcopy(proto), ["x", "w"], "y"), feeds)
    [found] = run(differentiated(proto, ["x"], "y"), feeds)
    wanted = sum(
        np.pad(feeds["w"], [(0, 0), (0, 0), (i, 1 - i), (j, 2 - j)])
        for i, j in itertools.product(range(2), range(3))
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_errors() -> None:
    proto = model(
        [helper.make_node("Asin", ["x"], ["y"])],
        [value("x", [2], np.float64)],
        [value("y", [2], np.float64)],
    )
    with pytest.raises(UnsupportedError, match=r"gradient of nn\.asin"):
        run(differentiated(proto, ["x"], "y"), {"x": np.ones(2)})
    unnamed = differentiated(net(), ["x"], "loss")
    unnamed.graph.node[-1].attribute.pop()
    with pytest.raises(InvalidModelError):
        OnnxSource(unnamed)
    absent = differentiated(net(), ["x"], "none")
    with pytest.raises(InvalidModelError, match="nothing computes"):
        OnnxSource(absent)
