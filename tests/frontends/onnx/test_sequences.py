"""Sequences and optionals, against ONNX Runtime: those that are their elements at import, and those
that pass between steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tessella
from tessella.support.errors import ExecutionError, InputError, TessellaError
from tests.frontends.onnx.models import model, run, value
from tests.generators.scans import make
from tests.native import normal

LIST = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))


def sequence(name: str) -> onnx.ValueInfoProto:
    return helper.make_value_info(name, LIST)


def same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, list):
        assert isinstance(found, list)
        assert len(found) == len(wanted)
        for each, expected in zip(found, wanted, strict=True):
            same(each, expected)
    else:
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def compare(proto: onnx.ModelProto, *calls: Mapping[str, Any]) -> Any:
    """Compiled, interpreted, and from an artifact."""
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    compiled = tessella.compile(proto)
    for feeds in calls:
        wanted: Sequence[Any] = session.run(None, dict(feeds))
        for found in (run(proto, feeds), compiled.run(None, feeds)):
            same(list(found), list(wanted))
    return compiled


# ** known at import **


def test_parts_of_a_tensor_are_slices() -> None:
    """As `torch.split` and `torch.chunk` are exported."""
    nodes = make(("SplitToSequence", "x sizes", "s"), axis=1)
    nodes += make(*(("SequenceAt", f"s {i}", f"p{i}") for i in ("a", "b")), ("Add", "pa pb", "y"))
    numbers = {"sizes": np.array([2, 3, 2]), "a": np.array(0), "b": np.array(-1)}
    proto = model(nodes, [value("x", [4, 7])], [value("y", [4, 2])], weights=numbers)
    compiled = compare(proto, {"x": normal(4, 7)})
    assert "//" not in compiled.as_text("nn")


@pytest.mark.parametrize("new_axis", [0, 1])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_elements_of_a_tensor_are_joined(new_axis: int, keepdims: int) -> None:
    nodes = make(("SplitToSequence", "x", "s"), axis=0, keepdims=keepdims)
    nodes += make(("SequenceErase", "s one", "t"), ("SequenceErase", "t", "u"))
    nodes += make(("SequenceInsert", "u e", "v"), ("SequenceInsert", "v e one", "w"))
    nodes += make(("ConcatFromSequence", "w", "y"), axis=-1, new_axis=new_axis)
    nodes += make(("SequenceLength", "w", "n"))
    shape = [1, 3] if keepdims else [3]
    proto = model(
        nodes,
        [value("x", [4, 3]), value("e", shape)],
        [value("y", None), value("n", [], np.int64)],
        weights={"one": np.array(1)},
    )
    compare(proto, {"x": normal(4, 3), "e": normal(*shape)})


def test_a_map_of_a_sequence() -> None:
    body = helper.make_graph(
        make(("Mul", "e t", "m"), ("Exp", "m", "r")),
        "body",
        [value("e", [2]), value("t", [])],
        [value("r", [2])],
    )
    nodes = [
        *make(("SequenceConstruct", "a b", "s"), ("SequenceInsert", "s a", "l")),
        helper.make_node("SequenceMap", ["l", "k"], ["q"], body=body),
        *make(("ConcatFromSequence", "q", "y"), axis=0),
    ]
    inputs = [value("a", [2]), value("b", [2]), value("k", [])]
    proto = model(nodes, inputs, [value("y", [6])])
    feeds = {"a": normal(2), "b": normal(2, seed=1), "k": np.array(0.5, np.float32)}
    compiled = compare(proto, feeds)
    assert "//" not in compiled.as_text("nn")


def test_an_output_that_is_a_sequence() -> None:
    nodes = make(("Exp", "x", "e"), ("SequenceConstruct", "e x e", "s"), ("SequenceEmpty", "", "n"))
    nodes[-1].ClearField("input")
    proto = model(nodes, [value("x", [3])], [sequence("s"), value("e", [3]), sequence("n")])
    compare(proto, {"x": normal(3)})


# ** known when it runs **


PICKED = [
    *make(("SplitToSequence", "x sizes", "s"), axis=0),
    *make(("SequenceAt", "s at", "p"), ("SequenceLength", "s", "n"), ("Exp", "p", "y")),
]


def test_parts_whose_sizes_are_computed(tmp_path: Path) -> None:
    nodes = [*make(("Cast", "f", "sizes"), to=TensorProto.INT64), *PICKED]
    proto = model(
        nodes,
        [value("x", ["a", 3]), value("f", ["k"]), value("at", [], np.int64)],
        [value("y", None), value("n", [], np.int64), sequence("s")],
    )
    calls: list[dict[str, Any]] = [
        {"x": normal(sum(sizes), 3), "f": np.array(sizes, np.float32), "at": np.array(at)}
        for sizes, at in (([2, 3, 1], 1), ([6], -1), ([1, 5], 0), ([4, 2], 0))
    ]
    compiled = compare(proto, *calls)
    compiled.save(tmp_path / "m.tsl")
    loaded = tessella.load(tmp_path / "m.tsl")
    for feeds in calls:
        same(loaded.run(None, feeds), compiled.run(None, feeds))
    with pytest.raises(ExecutionError, match="no such position"):
        compiled.run(None, {**calls[0], "at": np.array(3)})


def test_an_input_that_is_a_sequence(tmp_path: Path) -> None:
    nodes = make(("Neg", "x", "e"), ("SequenceInsert", "s e at", "t"), ("SequenceAt", "t at", "p"))
    nodes += make(("ConcatFromSequence", "t", "c"), axis=0) + make(("Add", "c p", "y"))
    proto = model(
        nodes,
        [sequence("s"), value("x", [1, 2]), value("at", [], np.int64)],
        [value("y", None), sequence("t")],
    )
    lists = ([normal(n, 2, seed=n) for n in sizes] for sizes in ((3, 1), (), (5, 6, 7)))
    calls = [{"s": each, "x": normal(1, 2), "at": np.array(0)} for each in lists]
    compiled = compare(proto, *calls)
    compiled.save(tmp_path / "m.tsl")
    loaded = tessella.load(tmp_path / "m.tsl")
    for feeds in calls:
        same(loaded.run(None, feeds), compiled.run(None, feeds))
    assert str(compiled.inputs[0]) == "s: sequence"
    with pytest.raises(InputError, match="no sequence"):
        compiled.run(None, {**calls[0], "s": normal(3, 2)})
    with pytest.raises(TessellaError):
        compiled.run(None, {**calls[0], "s": ["text"]})


def test_a_loop_that_collects_a_sequence() -> None:
    body = helper.make_graph(
        make(("Mul", "h h", "k"), ("SequenceInsert", "l k", "m"), ("Identity", "c", "again")),
        "body",
        [value("i", [], np.int64), value("c", [], np.bool_), value("h", [2]), sequence("l")],
        [value("again", [], np.bool_), value("k", [2]), sequence("m")],
    )
    empty = helper.make_node("SequenceEmpty", [], ["none"])
    loop = helper.make_node("Loop", ["trips", "", "x", "none"], ["last", "all"], body=body)
    nodes = [empty, loop, *make(("ConcatFromSequence", "all", "y"), axis=0)]
    proto = model(
        nodes,
        [value("x", [2]), value("trips", [], np.int64)],
        [value("y", None), value("last", [2]), sequence("all")],
    )
    x = np.array([0.5, -1.5], np.float32)
    compare(proto, *({"x": x, "trips": np.array(n)} for n in (3, 1, 3)))


# ** symbols beside steps **


def test_sizes_of_inputs_stay_open_after_a_step() -> None:
    """What `Shape` gives is read after the step."""
    nodes = make(
        *(("Shape", "x", "shape"), ("Gather", "shape zero", "rows"), ("NonZero", "x", "n")),
        *(("Transpose", "n", "t"), ("GatherND", "x t", "g"), ("ReduceSum", "g", "total")),
        *(("Mul", "total one", "scaled"), ("Expand", "scaled rows", "y"), ("Range", "z r u", "v")),
        ("Squeeze", "rows", "r"),
    )
    nodes.insert(2, nodes.pop())
    weights = {
        "zero": np.array([0]),
        "one": np.array([2], np.float32),
        "z": np.array(0),
        "u": np.array(1),
    }
    proto = model(nodes, [value("x", ["a", 3])], [value("y", None), value("v", None, np.int64)])
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(a, n) for n, a in weights.items())
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    compiled = tessella.compile(proto, dims={})
    for rows in (20, 33, 1, 17, 5):
        x = normal(rows, 3)
        same(compiled.run(None, {"x": x}), session.run(None, {"x": x}))
    told = [line for _, each in compiled.explain().subprograms for line in each.sizes]
    assert any(line.startswith("a: open") for line in told), told
