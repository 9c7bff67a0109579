"""Small models to attack, and what they compute."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

from tests.frontends.onnx.models import model, value

Array = npt.NDArray[Any]

W = np.linspace(-1, 1, 35, dtype=np.float32).reshape(5, 7)
X = np.linspace(-2, 2, 15, dtype=np.float32).reshape(3, 5)
Y = np.maximum(X @ W, 0).cumsum(axis=1)


def mixed(name: str = "") -> onnx.ModelProto:
    """Native code, a step in NumPy, a weight; ``name`` is part of all names."""
    x, a, b, w, axis, y = (f"{letter}{name}" for letter in "xabwky")
    nodes = [
        helper.make_node("MatMul", [x, w], [a], name=f"product{name}"),
        helper.make_node("Relu", [a], [b], name=f"rectifier{name}"),
        helper.make_node("CumSum", [b, axis], [y], name=f"sums{name}"),
    ]
    weights = {w: W, axis: np.array(1)}
    return model(nodes, [value(x, [3, 5])], [value(y, [3, 7])], weights=weights, opset=18)


def one(
    op: str, operands: Mapping[str, Any], outputs: int = 1, opset: int = 18, **attributes: Any
) -> onnx.ModelProto:
    """A model of one node; operands that are arrays are initializers, shapes are inputs."""
    weights = {name: x for name, x in operands.items() if isinstance(x, np.ndarray)}
    inputs = [value(name, x) for name, x in operands.items() if name not in weights]
    names = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, list(operands), names, **attributes)
    return model([node], inputs, [value(n, None) for n in names], weights=weights, opset=opset)


def calling(depth: int, calls: int, name: str = "") -> onnx.ModelProto:
    """Functions each of which calls the one before it some times."""
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]

    def body(op: str, domain: str) -> list[onnx.NodeProto]:
        values = ["a", *(f"v{i}" for i in range(calls - 1)), "b"]
        pairs = itertools.pairwise(values)
        return [helper.make_node(op, [x], [y], domain=domain, name=name) for x, y in pairs]

    bodies = [body("Relu", ""), *(body(f"F{i}", "f") for i in range(depth - 1))]
    functions = [
        helper.make_function("f", f"F{i}", ["a"], ["b"], nodes, imports)
        for i, nodes in enumerate(bodies)
    ]
    call = helper.make_node(f"F{depth - 1}", ["x"], ["y"], domain="f")
    return model(
        [call],
        [value("x", [2])],
        [value("y", [2])],
        domains={"f": 1},
        functions=functions,
        opset=18,
    )
