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

LONGER = {"test_dropout_default_ratio", "test_dropout_default_mask_ratio"}
"""Cases with a value that an importer reads for some values of another one only."""


@pytest.mark.filterwarnings("ignore")
def test_they_are_what_the_import_of_a_node_reads() -> None:
    checked = 0
    for case in sample(node_cases()):
        try:
            proto, feeds = inputs_of(case)
            source = OnnxSource(proto)
        except (TessellaError, TypeError, ValueError):
            continue
        found = set(source.determining)
        assert read_by_import(source, feeds) == found or case.name in LONGER, case.name
        checked += bool(found)
    assert checked > 10


def read_by_import(source: OnnxSource, feeds: dict[str, Any]) -> set[str]:
    """The inputs whose values an import asks for, if it gets those that it asks for."""
    shapes = {i.name: feeds[i.name].shape if i.is_tensor else () for i in source.inputs}
    read: set[str] = set()
    while True:
        try:
            source.graph(shapes, {name: feeds[name] for name in read})
        except UnknownValueError as error:
            if error.is_computed or read.issuperset(error.names):
                return read
            read |= set(error.names)
        except TessellaError:
            return read
        else:
            return read


def shape_of_two(*nodes: onnx.NodeProto) -> Sequence[str]:
    """What determines the shapes of a graph that reshapes `x` to `shape`."""
    ints = [value(name, [1], np.int64) for name in ("n", "m")]
    inputs = [value("x", ["rows", 4]), value("mask", ["rows", 4], np.bool_), *ints]
    every = [*nodes, helper.make_node("Reshape", ["x", "shape"], ["y"])]
    return OnnxSource(model(every, inputs, [value("y", None)])).determining


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def test_integers_pass_through_arithmetic() -> None:
    add = node("Add", "n m", "both")
    assert shape_of_two(add, node("Concat", "both n", "shape", axis=0)) == ["n", "m"]


def test_the_shape_of_an_input_is_known() -> None:
    assert shape_of_two(node("Shape", "x", "shape")) == []
    cast = node("CastLike", "two m", "shape")
    assert shape_of_two(node("Shape", "x", "two"), cast) == []


def test_sizes_that_are_computed_from_data() -> None:
    cast = node("Cast", "mask", "bits", to=onnx.TensorProto.INT64)
    total = node("ReduceSum", "bits", "total", keepdims=0)
    assert shape_of_two(cast, total, node("Mul", "total n", "shape")) == []


def test_what_follows_a_graph_break_is_not_read_yet() -> None:
    found = node("NonZero", "mask", "found")
    count = node("Shape", "found", "count", start=1)
    assert shape_of_two(found, count, node("Concat", "count n", "shape", axis=0)) == []


def test_branches_of_an_input() -> None:
    side = helper.make_graph([node("Neg", "n", "z")], "side", [], [value("z", [1], np.int64)])
    cast = node("Cast", "m", "which", to=onnx.TensorProto.BOOL)
    branch = node("If", "which", "shape", then_branch=side, else_branch=side)
    assert shape_of_two(cast, branch) == ["n", "m"]


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
    assert source.determining == (["trips"] if slices else [])
