"""ONNX's Loop and the first version of Scan, against ONNX Runtime, interpreted and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import tessella
from tessella.support.errors import (
    InvalidModelError,
    ResourceError,
    TessellaError,
    UnsupportedError,
)
from tests.frontends.onnx.models import Array, model, value
from tests.frontends.onnx.test_scan import compare
from tests.generators.scans import make

SIZE = 4
STEP = make(("Cast", "i", "number"), to=onnx.TensorProto.FLOAT) + make(
    ("Add", "h number", "a"), ("Mul", "a outer", "b"), ("Tanh", "b", "k"), ("Neg", "k", "y")
)
GO = make(("Identity", "c", "again"))


def loop(
    nodes: list[onnx.NodeProto],
    trips: int | None = 5,
    condition: bool | None = True,
    opset: int = 17,
    outputs: tuple[str, ...] = ("again", "k", "y"),
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A model with a Loop of this body, and inputs for it."""
    inputs = [value("i", [], np.int64), value("c", [], np.bool_), value("h", [SIZE])]
    types: dict[str, Any] = {"again": ([], np.bool_), "k": ([SIZE],)}
    results = [value(name, *types.get(name, (None,))) for name in outputs]
    body = helper.make_graph(nodes, "body", inputs, results)
    given = ("" if trips is None else "trips", "" if condition is None else "go", "h0")
    node = helper.make_node("Loop", given, ["t", "ys"], body=body, name="loop")
    weights: dict[str, Array] = {}
    if trips is not None:
        weights["trips"] = np.array(trips, np.int64)
    if condition is not None:
        weights["go"] = np.array(condition)
    proto = model(
        [*make(("Abs", "x", "outer")), node],
        [value("h0", [SIZE]), value("x", [SIZE])],
        [value("t", [SIZE]), value("ys", None)],
        weights=weights,
        opset=opset,
    )
    return proto, {"h0": np.arange(SIZE, dtype=np.float32), "x": -np.ones(SIZE, np.float32)}


@pytest.mark.parametrize("opset", [10, 11, 17, 21])
@pytest.mark.parametrize("trips", [5, 1, 0, -3])
@pytest.mark.parametrize("condition", [None, True, False])
@pytest.mark.sweep
def test_loops(opset: int, trips: int, condition: bool | None) -> None:
    compare(*loop([*GO, *STEP], trips, condition, opset))


def test_the_trip_count_may_be_a_shape() -> None:
    proto, feeds = loop([*GO, *STEP])
    shape = make(("Shape", "h0", "shape"), ("Squeeze", "shape", "count"))
    proto.graph.node[1].input[0] = "count"
    for node in reversed(shape):
        proto.graph.node.insert(0, node)
    compare(proto, feeds)


def test_a_step_gathers_by_its_number() -> None:
    nodes = make(("Gather", "outer i", "one"), ("Add", "h one", "k"), ("Mul", "k one", "y"))
    compare(*loop([*GO, *nodes], SIZE))


SLICED = make(
    ("Unsqueeze", "i zero", "start"),
    ("Add", "start two", "end"),
    ("Slice", "outer start end", "part"),
    ("ReduceSum", "part", "sum"),
    ("Add", "h sum", "k"),
    ("Tanh", "part", "y"),
)
COUNTED = make(("Less", "i two", "again"))


@pytest.mark.parametrize("nodes", [[*GO, *SLICED], [*COUNTED, *STEP]])
def test_steps_that_know_their_number(nodes: list[onnx.NodeProto]) -> None:
    proto, feeds = loop(nodes, 3)
    for name, number in (("zero", [0]), ("two", [2])):
        proto.graph.initializer.append(numpy_helper.from_array(np.array(number), name))
    compare(proto, feeds)


@pytest.mark.parametrize("trips", [3, 0, 65])
def test_a_state_that_grows(trips: int) -> None:
    proto, feeds = loop([*GO, *make(("Concat", "h outer", "k"), axis=0)], trips)
    _without_sequence(proto)
    proto.graph.output[0].CopyFrom(value("t", [(trips + 1) * SIZE]))
    compare(proto, feeds)


def _without_sequence(proto: onnx.ModelProto) -> None:
    del proto.graph.node[1].attribute[0].g.output[2:]
    del proto.graph.node[1].output[1:], proto.graph.output[1:]


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        (([*GO, *STEP], 1 << 40), ResourceError, "too large"),
        (([*GO, *STEP], 5, True, 17, ("again",)), InvalidModelError, "too few outputs"),
    ],
)
def test_what_is_wrong_is_said(
    arguments: tuple[Any, ...], error: type[TessellaError], message: str
) -> None:
    proto, _ = loop(*arguments)
    if "y" not in [name for node in arguments[0] for name in node.output]:
        _without_sequence(proto)
    with pytest.raises(error, match=message):
        tessella.compile(proto)


@pytest.mark.parametrize("trips", [3, 0])
def test_the_trip_count_may_be_an_input(trips: int) -> None:
    proto, feeds = loop([*GO, *STEP])
    del proto.graph.initializer[0]
    proto.graph.input.append(value("trips", [], np.int64))
    compare(proto, {**feeds, "trips": np.array(trips)})


@pytest.mark.parametrize("trips", [3, 0])
def test_the_trip_count_of_a_state_that_doubles_may_be_an_input(trips: int) -> None:
    """It is not appended to, and its size is known only at run time."""
    proto, feeds = loop([*GO, *make(("Concat", "h h", "k"), axis=0)])
    _without_sequence(proto)
    del proto.graph.initializer[0]
    proto.graph.input.append(value("trips", [], np.int64))
    proto.graph.output[0].CopyFrom(value("t", [SIZE << trips]))
    result = tessella.compile(proto).run(None, {**feeds, "trips": np.array(trips)})
    np.testing.assert_array_equal(result[0], np.tile(feeds["h0"], 1 << trips))


def scan_of_batch(
    batch: int, directions: list[int] | None, lengths: bool = False
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    nodes = make(("Add", "h a", "s"), ("Mul", "s b", "m"), ("Tanh", "m", "k"), ("Neg", "k", "y"))
    body = helper.make_graph(
        nodes,
        "body",
        [value(name, [SIZE]) for name in ("h", "a", "b")],
        [value(name, [SIZE]) for name in ("k", "y")],
    )
    given: dict[str, Any] = {"directions": directions} if directions else {}
    node = helper.make_node(
        "Scan",
        ["lengths" if lengths else "", "h0", "a0", "b0"],
        ["t", "ys"],
        body=body,
        num_scan_inputs=2,
        **given,
    )
    shapes = {"h0": (batch, SIZE), "a0": (batch, 3, SIZE), "b0": (batch, 3, SIZE)}
    proto = model(
        [node],
        [value(name, shape) for name, shape in shapes.items()],
        [value("t", [batch, SIZE]), value("ys", [batch, 3, SIZE])],
        weights={"lengths": np.full(batch, 3, np.int64)} if lengths else None,
        opset=8,
    )
    rng = np.random.default_rng(0)
    return proto, {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("directions", [None, [0, 1]])
def test_the_first_scan_runs_each_sequence_of_a_batch(
    batch: int, directions: list[int] | None
) -> None:
    compare(*scan_of_batch(batch, directions))


def test_the_first_scan_has_no_lengths() -> None:
    with pytest.raises(UnsupportedError, match="input sequence_lens is given"):
        tessella.compile(scan_of_batch(2, None, lengths=True)[0])
