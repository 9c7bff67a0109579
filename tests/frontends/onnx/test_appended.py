"""Loops whose steps append to a state: which are native code, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tessella.frontends.onnx import OnnxSource
from tests.frontends.onnx.models import Array, compare, model, value
from tests.generators.scans import make

STEP = make(("Mul", "h w", "k"), ("Neg", "k", "piece"), ("Less", "i last", "again"))
ONE, BOTH = (
    make(("Concat", "s piece", "t"), axis=-1),
    make(("Concat", "s piece piece", "t"), axis=1),
)
SUM = make(("Concat", "s p", "t"), axis=1)


def growing(
    nodes: Sequence[onnx.NodeProto], trips: int | str | None, **rows: Any
) -> onnx.ModelProto:
    """A Loop that carries `h` and `s`; its state `t` becomes `grown`."""
    known: Mapping[str, Any] = {
        "i": ([], np.int64),
        "c": ([], np.bool_),
        "s": ([2, None],),
        "h": ([2, 1],),
    }
    inputs = [value(name, *known[name]) for name in "icsh"]
    results = [value("again", [], np.bool_), value("t", [2, None]), value("k", [2, 1])]
    results += [value(name, shape) for name, shape in rows.items()]
    body = helper.make_graph([*STEP, *nodes], "body", inputs, results)
    made = ["grown", "end", *(f"all_{name}" for name in rows)]
    taken = ["" if trips is None else "trips", "", "s0", "h0"]
    loop = helper.make_node("Loop", taken, made, body=body)
    weights = {"w": np.array(0.9, np.float32)}
    given = [value("s0", [2, None]), value("h0", [2, 1]), value("last", [], np.int64)]
    if isinstance(trips, int):
        weights["trips"] = np.array(trips)
    elif trips is not None:
        given.append(value("trips", [], np.int64))
    return model([loop], given, [value(name, None) for name in made], weights=weights, opset=17)


def feeds(length: int, last: int, **others: int) -> Mapping[str, Array]:
    first = np.arange(2 * length, dtype=np.float32).reshape(2, length)
    numbers = {name: np.array(number) for name, number in others.items()}
    return {"s0": first, "h0": np.ones((2, 1), np.float32), "last": np.array(last), **numbers}


def steps(proto: onnx.ModelProto) -> Sequence[str]:
    """The functions of the steps that its program is cut at."""
    given = feeds(3, 2, trips=2)
    names = [each.name for each in proto.graph.input]
    rest = OnnxSource(proto).graph({name: given[name].shape for name in names}).rest
    return [] if rest is None else [step.function for step in rest.steps]


@pytest.mark.parametrize("concat", [ONE, BOTH])
@pytest.mark.parametrize("rows", [{}, {"piece": [2, 1]}])
@pytest.mark.parametrize("trips", [None, 0, 7, 200])
def test_a_condition_ends_it(concat: Any, rows: Any, trips: int | None) -> None:
    proto = growing(concat, trips, **rows)
    compare(proto, *(feeds(length, last) for length, last in [(3, 4), (0, 0), (1, 15), (4, 130)]))
    assert steps(proto) == ["chunks"]


def test_its_trip_count_is_an_input() -> None:
    proto = growing(ONE, "trips")
    compare(proto, *(feeds(2, 20, trips=trips) for trips in (3, 0, -1, 16, 17, 100)))
    assert steps(proto) == ["chunks"]


@pytest.mark.parametrize("trips", [1, 5, 70])
def test_a_trip_count_ends_it(trips: int) -> None:
    """There is no step in Python."""
    proto = growing(ONE, trips, piece=[2, 1])
    del proto.graph.node[0].attribute[0].g.node[2]
    proto.graph.node[0].attribute[0].g.output[0].name = "c"
    compare(proto, *(feeds(length, 0) for length in (3, 0, 1)))
    assert steps(proto) == []


@pytest.mark.sweep
@pytest.mark.parametrize(
    "nodes",
    [
        make(("Concat", "piece s", "t"), axis=1),
        make(("Concat", "s s", "t"), axis=1),
        make(("Concat", "s piece s", "t"), axis=1),
        [*make(("Concat", "s piece", "r"), axis=1), *make(("Abs", "r", "t"))],
        [*make(("ReduceMax", "s", "m"), ("Add", "piece m", "p")), *SUM],
    ],
    ids=["before", "itself", "itself again", "a function of it", "what reads it"],
)
def test_near_misses(nodes: Sequence[onnx.NodeProto]) -> None:
    """Each step is a call."""
    proto = growing(nodes, 4)
    compare(proto, feeds(3, 1), feeds(2, 3))
    assert steps(proto) == ["loop"]


def test_a_result_that_is_collected_too() -> None:
    proto = growing([*ONE, *make(("Shape", "t", "size"))], 4)
    proto.graph.node[0].attribute[0].g.output.append(value("size", [2], np.int64))
    proto.graph.node[0].output.append("sizes")
    proto.graph.output.append(value("sizes", None, np.int64))
    compare(proto, feeds(3, 1), feeds(2, 3))
    assert steps(proto) == ["loop"]
