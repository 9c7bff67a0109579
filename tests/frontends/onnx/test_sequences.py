"""Sequences and optionals, against ONNX Runtime: those that are their elements at import, and those
that pass between steps."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tessella
from tessella.driver.model.model import Model
from tessella.runtime import rest
from tessella.runtime.loaded import LoadedModel
from tessella.support.errors import ExecutionError, InputError, ShapeError, TessellaError
from tests.frontends.onnx.models import compare, model, same, value
from tests.generators.scans import make
from tests.native import normal

LIST = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))


def sequence(name: str) -> onnx.ValueInfoProto:
    return helper.make_value_info(name, LIST)


def check_saved(compiled: Model, path: Path, calls: Sequence[Mapping[str, Any]]) -> LoadedModel:
    """The artifact of a model gives what the model does."""
    compiled.save(path)
    loaded = tessella.load(path)
    for feeds in calls:
        same(loaded.run(None, feeds), compiled.run(None, feeds))
    return loaded


# ** known at import **


def test_parts_of_a_tensor_are_slices() -> None:
    """`torch.split` and `torch.chunk` are exported this way."""
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
    check_saved(compiled, tmp_path / "m.tsl", calls)
    with pytest.raises(ExecutionError, match="outside of its sequence"):
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
    check_saved(compiled, tmp_path / "m.tsl", calls)
    assert str(compiled.inputs[0]) == "s: sequence"
    with pytest.raises(InputError, match="not a sequence"):
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


def check_own(model: Any, feeds: Mapping[str, Any]) -> None:
    """Nobody sees what a caller writes to results."""
    before, wanted = copy.deepcopy(feeds), copy.deepcopy(model.run(None, feeds))
    found = model.run(None, feeds)
    lists = [each for each in (*found, *feeds.values()) if isinstance(each, list)]
    assert len({id(each) for each in lists}) == len(lists)
    arrays = [x for each in found for x in (each if isinstance(each, list) else [each])]
    for i, array in enumerate(arrays):
        array.fill(i)
    for i, array in enumerate(arrays):
        assert (array == i).all()
    for each in lists:
        each.append(None)
    for each in feeds.values():
        if isinstance(each, list):
            each.pop()
    assert str(feeds) == str(before)
    same(model.run(None, feeds), wanted)


def check_own_everywhere(proto: onnx.ModelProto, feeds: Mapping[str, Any], path: Path) -> None:
    compiled = compare(proto, feeds)
    compiled.save(path)
    for each in (compiled, tessella.load(path)):
        check_own(each, feeds)


def test_callers_may_write_to_results(tmp_path: Path) -> None:
    nodes = make(("SequenceInsert", "s c", "t"), ("SequenceAt", "t last", "y"))
    nodes += make(("Identity", "t", "u"), ("SequenceAt", "s last", "e"), ("Identity", "s", "v"))
    nodes += make(("SequenceConstruct", "x x", "w"))
    numbers = {"c": normal(2), "last": np.array(-1)}
    outputs = [value("y", None), value("e", None), *map(sequence, "tuvw")]
    proto = model(nodes, [sequence("s"), value("x", [2])], outputs, weights=numbers)
    feeds = {"s": [normal(2, seed=1), normal(2, seed=2)], "x": normal(2, seed=3)}
    check_own_everywhere(proto, feeds, tmp_path / "m.tsl")


def test_callers_may_write_to_constants_of_later_subprograms(tmp_path: Path) -> None:
    nodes = make(("SequenceLength", "s", "n"), ("Sub", "n one", "k"))
    nodes += make(("SequenceInsert", "s c k", "t"), ("SequenceAt", "t k", "y"))
    numbers = {"c": normal(2), "one": np.array(1)}
    proto = model(nodes, [sequence("s")], [value("y", None), sequence("t")], weights=numbers)
    check_own_everywhere(proto, {"s": [normal(2, seed=1), normal(2, seed=2)]}, tmp_path / "m.tsl")


def test_elements_are_copied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sequence passes through each step of a loop, which is cut itself."""
    body = helper.make_graph(
        make(("SequenceInsert", "l h", "m"), ("Identity", "c", "again")),
        "body",
        [value("i", [], np.int64), value("c", [], np.bool_), sequence("l")],
        [value("again", [], np.bool_), sequence("m")],
    )
    loop = helper.make_node("Loop", ["trips", "", "s"], ["all"], body=body)
    inputs = [sequence("s"), value("h", [2]), value("trips", [], np.int64)]
    compiled = tessella.compile(model([loop], inputs, [sequence("all")]))
    feeds = {"s": [normal(2)] * 3, "h": normal(2), "trips": np.array(5)}
    compiled.run(None, feeds)
    calls: list[object] = []
    owned = rest.owned
    monkeypatch.setattr(rest, "owned", lambda *a: calls.append(a) or owned(*a))
    assert len(compiled.run(None, feeds)[0]) == 8
    assert len(calls) == 1


def test_a_program_for_values_that_no_call_had(tmp_path: Path) -> None:
    nodes = make(("SequenceAt", "s last", "e"), ("TopK", "e k", "y i"))
    inputs = [sequence("s"), value("k", [1], np.int64)]
    proto = model(nodes, inputs, [value("y", None)], weights={"last": np.array(-1)})
    calls = [{"s": [normal(n)], "k": np.array([k])} for n, k in ((3, 1), (4, 1), (3, 2))]
    compiled = compare(proto, *calls)
    loaded = check_saved(compiled, tmp_path / "m.tsl", calls)
    with pytest.raises(ShapeError, match="no program for what its steps found"):
        loaded.run(None, {"s": [normal(3)], "k": np.array([0])})


def test_arrays_for_sequences_are_refused() -> None:
    nodes = make(("SequenceInsert", "s x", "t"), ("SequenceAt", "t last", "y"))
    outputs = [sequence("t"), value("y", None)]
    inputs = [sequence("s"), value("x", [2])]
    outputs[0].ClearField("type")  # which follows
    compiled = tessella.compile(model(nodes, inputs, outputs, weights={"last": np.array(-1)}))
    feeds: dict[str, Any] = {"s": [normal(2)], "x": normal(2, seed=1)}
    y = np.zeros(2, np.float32)
    assert compiled.run(["y"], feeds, out=[y])[0] is y
    with pytest.raises(InputError, match="'t' is not an array"):
        compiled.run(None, feeds, out=[y, None])
    with pytest.raises(InputError, match="shares memory with an input"):
        compiled.run(["y"], feeds, out=feeds["s"])
    with pytest.raises(InputError, match=r"input 's\[0\]' is not an array"):
        compiled.run(None, {**feeds, "s": [[y, normal(3)]]})


# ** symbols beside steps **


def test_sizes_of_inputs_stay_open_after_a_step() -> None:
    """The result of `Shape` is read after the step."""
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
    told = compiled.explain().sizes
    assert any(line.startswith("a: open") for line in told), told


@pytest.mark.parametrize("is_input", [True, False])
def test_parts_of_no_elements(is_input: bool) -> None:
    nodes = make(("SplitToSequence", "x size", "s"), axis=0)
    nodes += make(("ConcatFromSequence", "s", "y"), axis=0)
    inputs, feeds, weights = [value("x", [4])], {"x": np.ones(4, np.float32)}, {}
    if is_input:
        inputs.append(value("size", [], np.int64))
    (feeds if is_input else weights)["size"] = np.array(0)
    proto = model(nodes, inputs, [value("y", None)], weights=weights)
    with pytest.raises(ShapeError, match="sizes of parts are not positive"):
        tessella.compile(proto).run(None, feeds)
