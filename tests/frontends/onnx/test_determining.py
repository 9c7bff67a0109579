"""The inputs whose values shapes depend on, as the graph tells before it is imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tessella.frontends.onnx import OnnxSource
from tessella.support.errors import TessellaError, UnknownValueError
from tests.frontends.onnx.models import model, value
from tests.frontends.onnx.suite import inputs_of, node_cases
from tests.sampling import sample

OPTIONAL = {"Dropout", "If", "Loop"}
"""Ops that can be imported without the values by which they are specialised."""


@pytest.mark.filterwarnings("ignore")
def test_they_are_what_the_import_of_a_node_reads() -> None:
    """Without one of them, the graph breaks at the node or is not imported."""
    checked = 0
    for case in sample(node_cases()):
        try:
            proto, feeds = inputs_of(case)
            source = OnnxSource(proto)
        except (TessellaError, TypeError, ValueError):
            continue
        found = source.determining
        assert reads_no_more(source, feeds, found), case.name
        is_optional = any(each.op_type in OPTIONAL for each in proto.graph.node)
        for name in found if not is_optional else ():
            others = [each for each in found if each != name]
            assert not reads_no_more(source, feeds, others), (case.name, name)
            checked += 1
    assert checked > 10


def reads_no_more(source: OnnxSource, feeds: dict[str, Any], names: Sequence[str]) -> bool:
    """Return whether an import reads only the values of these inputs."""
    shapes = {i.name: feeds[i.name].shape if i.is_tensor else () for i in source.inputs}
    source.determining = names
    try:
        graph = source.graph(shapes, {name: feeds[name] for name in names})
    except UnknownValueError:
        return False
    except TessellaError:
        return True
    return graph.rest is None or any(step.function for step in graph.rest.steps)


def shape_of_two(*nodes: onnx.NodeProto) -> Sequence[str]:
    """Return the inputs that determine the shapes of a graph that reshapes `x` to `shape`."""
    ints = [value(name, [1], np.int64) for name in ("n", "m")]
    inputs = [value("x", ["rows", 4]), value("mask", ["rows", 4], np.bool_), *ints]
    every = [*nodes, helper.make_node("Reshape", ["x", "shape"], ["y"])]
    return OnnxSource(model(every, inputs, [value("y", None)])).determining


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def test_integers_pass_through_arithmetic() -> None:
    add = node("Add", "n m", "both")
    assert shape_of_two(add, node("Concat", "both n", "shape", axis=0)) == ("n", "m")


def test_the_shape_of_an_input_is_known() -> None:
    assert shape_of_two(node("Shape", "x", "shape")) == ()
    cast = node("CastLike", "two m", "shape")
    assert shape_of_two(node("Shape", "x", "two"), cast) == ()


def test_sizes_that_are_computed_from_data() -> None:
    cast = node("Cast", "mask", "bits", to=onnx.TensorProto.INT64)
    total = node("ReduceSum", "bits", "total", keepdims=0)
    assert shape_of_two(cast, total, node("Mul", "total n", "shape")) == ()


def test_what_follows_a_graph_break_is_not_read_yet() -> None:
    found = node("NonZero", "mask", "found")
    count = node("Shape", "found", "count", start=1)
    assert shape_of_two(found, count, node("Concat", "count n", "shape", axis=0)) == ()


def test_branches_of_an_input() -> None:
    side = helper.make_graph([node("Neg", "n", "z")], "side", [], [value("z", [1], np.int64)])
    cast = node("Cast", "m", "which", to=onnx.TensorProto.BOOL)
    branch = node("If", "which", "shape", then_branch=side, else_branch=side)
    assert shape_of_two(cast, branch) == ("n", "m")


@pytest.mark.parametrize("slices", [True, False])
def test_a_loop_that_slices_by_its_number_is_unrolled(slices: bool) -> None:
    """Its trip count is known then; that of another loop need not be."""
    part = node("Slice", "x number number", "z") if slices else node("Neg", "x", "z")
    vector = node("Reshape", "i one", "number")
    body = helper.make_graph(
        [vector, part, node("Identity", "go", "again")],
        "body",
        [value("i", [], np.int64), value("go", [], np.bool_)],
        [value("again", [], np.bool_), value("z", None)],
    )
    loop = helper.make_node("Loop", ["trips", ""], ["y"], body=body)
    inputs = [value("x", [4, 4]), value("trips", [], np.int64)]
    one = {"one": np.array([1], np.int64)}
    source = OnnxSource(model([loop], inputs, [value("y", None)], weights=one))
    assert source.determining == (("trips",) if slices else ())
