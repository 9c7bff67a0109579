"""ONNX's If with a computed condition, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tessella
from tessella.frontends.onnx import OnnxSource
from tests.driver.test_subprograms import NONE, X, branches
from tests.frontends.onnx import test_while
from tests.frontends.onnx.models import Array, model, value
from tests.frontends.onnx.test_while import END, FEEDS, GROWS, OTHERS, loop
from tests.generators.scans import make


def compare(proto: onnx.ModelProto, *calls: Mapping[str, Array]) -> None:
    test_while.compare(proto, *calls)
    graph = OnnxSource(proto).graph({name: array.shape for name, array in calls[0].items()})
    assert graph.rest is None


def test_branches_of_one_type() -> None:
    compare(branches(make(("Exp", "a", "r")), make(("Neg", "a", "r"))), {"x": X}, {"x": NONE})


def test_a_branch_may_give_what_is_outside() -> None:
    compare(
        branches(make(("Identity", "a", "r")), make(("Add", "a a", "r"))), {"x": X}, {"x": NONE}
    )


def test_what_is_not_taken_does_not_fail() -> None:
    """One branch has an index that is out of range, and fails only if it is taken."""
    nodes = make(("Cast", "top", "number"), to=TensorProto.INT64)
    nodes += make(("Sub", "number three", "at"), ("Gather", "a at", "row"), ("Add", "a row", "r"))
    proto = branches(nodes, make(("Neg", "a", "r")))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(3), "three"))
    compare(proto, {"x": X}, {"x": NONE + 1}, {"x": NONE - 40})
    compiled = tessella.compile(proto)
    compiled.run(None, {"x": X})
    assert "rt.stop" not in compiled.as_text("loops"), "it ends after a step"


def test_branches_in_a_branch() -> None:
    def chosen(name: str, condition: str, *sides: Sequence[onnx.NodeProto]) -> onnx.NodeProto:
        graphs: dict[str, Any] = {
            f"{key}_branch": helper.make_graph(list(nodes), key, [], [value(name, [2, 3])])
            for key, nodes in zip(("then", "else"), sides, strict=True)
        }
        return helper.make_node("If", [condition], [f"{name}_"], name=name, **graphs)

    inner = chosen("s", "low", make(("Sqrt", "a", "s")), make(("Exp", "x", "s")))
    tests = make(("ReduceMin", "x", "least"), keepdims=0) + make(("Less", "least zero0", "low"))
    first = [*tests, inner, *make(("Neg", "s_", "r"))]
    proto = branches(first, make(("Neg", "a", "r")))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(0, np.float32), "zero0"))
    compare(proto, {"x": X}, {"x": NONE}, {"x": np.abs(X)})


def test_a_branch_in_a_loop() -> None:
    """The number of the step decides, and the state."""
    graphs: dict[str, Any] = {
        f"{key}_branch": helper.make_graph(nodes, key, [], [value("r", [3])])
        for key, nodes in (
            ("then", make(("Add", "h outer", "r"))),
            ("else", make(("Neg", "h", "r"))),
        )
    }
    node = helper.make_node("If", ["odd"], ["s"], name="if", **graphs)
    tests = make(("Mod", "i two", "n")) + make(("Cast", "n", "odd"), to=TensorProto.BOOL)
    more = [node, *make(("Add", "s outer", "p"), ("Add", "p h", "k"))]
    proto = loop([*tests, *more, *END], ("trips", "", "h0"), two=np.array(2), trips=np.array(90))
    compare(proto, FEEDS, OTHERS)


def test_a_loop_in_a_branch() -> None:
    inner = loop([*GROWS, *END]).graph.node[1]
    inner.input[2], inner.output[0] = "a", "r"
    *_, reduced, compared = inner.attribute[0].g.node
    reduced.output[0] = compared.input[0] = "peak"
    shape = [2, 3]
    inner.attribute[0].g.output[1].CopyFrom(value("k", shape))
    proto = branches([inner], make(("Neg", "a", "r")))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(90, np.float32), "limit"))
    proto.graph.node.insert(0, *make(("Exp", "x", "outer")))
    compare(proto, {"x": X}, {"x": NONE})


@pytest.mark.parametrize("size", [3, 1 << 20])
def test_results_of_many_bytes_are_those_of_subprograms(size: int) -> None:
    graphs: dict[str, Any] = {
        f"{key}_branch": helper.make_graph(make((op, "x", "r")), key, [], [value("r", [size])])
        for key, op in (("then", "Exp"), ("else", "Neg"))
    }
    tests = make(("ReduceMax", "x", "top"), keepdims=0) + make(("Greater", "top zero", "go"))
    node = helper.make_node("If", ["go"], ["y"], name="if", **graphs)
    proto = model(
        [*tests, node],
        [value("x", [size])],
        [value("y", [size])],
        weights={"zero": np.array(0, np.float32)},
    )
    graph = OnnxSource(proto).graph({"x": (size,)})
    assert (graph.rest is None) == (size == 3)
    x = np.ones(size, np.float32)
    compiled = tessella.compile(proto)
    np.testing.assert_allclose(compiled(x), np.exp(x), rtol=1e-6)
    np.testing.assert_allclose(compiled(-x), x, rtol=1e-6)
