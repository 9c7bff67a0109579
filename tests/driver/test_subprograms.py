"""Programs that are cut: what depends on sizes that only a step finds, against ONNX Runtime."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tessella
from tessella.dialects.graph import Graph
from tessella.driver.build import compile_graph
from tessella.driver.build.build import Built
from tessella.runtime.loaded import from_bytes
from tessella.support.conditions import UndecidedSizeError
from tessella.support.errors import ExecutionError, InvalidModelError, ShapeError, TessellaError
from tessella.tools.cli import main
from tests.frontends.onnx.models import Array, compare, model, one_node, value
from tests.generators.artifact_damage import repacked, unpacked
from tests.generators.scans import make
from tests.native import normal


@pytest.fixture
def programs(compiled: list[str]) -> list[str]:
    """A list with an entry for each compiled program."""
    return compiled


X = np.array([[1, 0, 3], [0, -5, 0]], np.float32)
NONE = np.zeros((2, 3), np.float32)


# ** steps in NumPy **


PICKED = make(
    ("Exp", "x", "e"),
    ("NonZero", "x", "n"),
    ("Transpose", "n", "at"),
    ("GatherND", "e at", "g"),
    ("Neg", "g", "y"),
)


def cut(rows: int | str, columns: int) -> onnx.ModelProto:
    """A model with a graph break at a step that takes the element of a sequence."""
    nodes = (
        *make(("ReduceMax", "x", "e"), keepdims=0),
        *make(("SequenceAt", "s zero", "n")),
        *make(("Add", "n e", "y")),
    )
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    return model(
        nodes,
        [value("x", [rows, columns]), sequence],
        [value("y", ["n", columns])],
        weights={"zero": np.array(0)},
    )


LIST: Any = [X]
"""The sequence that the model with a graph break takes."""


def test_what_follows_a_step() -> None:
    outputs = [value("y", ["n"]), value("e", ["a", "b"]), value("n", ["r", "n"], np.int64)]
    proto = model(PICKED, [value("x", ["a", "b"])], outputs)
    compare(proto, {"x": X}, {"x": NONE}, {"x": X[:1]}, {"x": normal(*(3, 4), seed=1)}, {"x": X})


COUNTS = [*range(20), 54, 33, 1, 0]


def counted(rows: int, count: int) -> Array:
    """An array in which so many elements are not zero."""
    x = np.zeros((rows, 9), np.float32)
    x.reshape(-1)[::-1][:count] = np.arange(1, 1 + count)[: x.size]
    return x


@pytest.mark.sweep
@pytest.mark.parametrize("dims", ["fixed", "auto", {}, {"a": (1, 50)}])
def test_a_new_count_costs_no_compilation(dims: Any, programs: list[str]) -> None:
    """The count is a symbol of the program, which has versions for the sizes of its inputs
    alone."""
    outputs = [value("y", ["n"]), value("e", ["a", "b"]), value("n", ["r", "n"], np.int64)]
    proto = model(PICKED, [value("x", ["a", "b"])], outputs)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    compiled = tessella.compile(proto, dims=dims)
    for rows, expected in ((6, 1), (3, 2 if isinstance(dims, str) else 1)):
        for count in COUNTS:
            x = counted(rows, count)
            wanted: Sequence[Any] = session.run(None, {"x": x})
            for y, each in zip(compiled.run(None, {"x": x}), wanted, strict=True):
                assert y.shape == each.shape
                np.testing.assert_allclose(y, each, rtol=1e-5)
        assert len(programs) == expected
    compiled(counted(3, 17))
    sizes = compiled.explain().sizes
    assert any(line.startswith("count_0: defined by NonZero_1, from 0") for line in sizes)
    assert ("a: open, from 2 to 15" in sizes) == (dims != "fixed")
    assert not compiled.explain().subprograms


def test_results_of_a_step_have_one_size(programs: list[str]) -> None:
    """The three results of Unique share one symbolic size: the elements, their first positions and
    their counts."""
    nodes = make(("Unique", "x", "u first which many"))
    nodes += make(("Cast", "many", "f"), to=TensorProto.FLOAT) + make(("Mul", "u f", "p"))
    nodes += make(("Gather", "p which", "y"))
    proto = model(nodes, [value("x", [40])], [value("y", [40]), value("p", ["n"])], opset=17)
    x = np.arange(40, dtype=np.float32)
    calls = [{"x": np.floor_divide(x, by)} for by in (1, 3, 40, 2, 5, 7, 20, 21, 1.5)]
    compare(proto, *calls)
    assert len(programs) == 1


def test_ops_that_need_a_number_for_a_count() -> None:
    """Whether vectors of `count` and of four elements broadcast depends on the count: the graph
    breaks before the op that adds them."""
    nodes = make(("Compress", "x mask", "c"), ("Neg", "c", "n"), ("Add", "n w", "y"))
    proto = model(
        nodes,
        [value("x", ["a"]), value("mask", ["a"], np.bool_)],
        [value("y", ["k"]), value("c", ["m"])],
        weights={"w": np.arange(4, dtype=np.float32)},
    )
    x = np.arange(9, dtype=np.float32)
    calls = [{"x": x, "mask": (x + shift) % 9 < count} for count in (4, 1) for shift in (0, 3)]
    compare(proto, *calls)
    compiled = tessella.compile(proto)
    compiled.run(None, calls[0])
    assert "count_0: defined by Compress_0, from 0 to 9" in compiled.explain().sizes
    [(where, after)] = compiled.explain().subprograms
    assert where == "after a size that is computed"
    assert [entry["op"] for entry in after.ops] == ["nn.neg", "nn.add"]


def test_a_pass_that_needs_a_number_for_a_count(monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[str] = []
    whole = compile_graph.build

    def build(graph: Graph, *options: Any, **more: Any) -> Built:
        if not refused:
            refused.append(graph.stage)
            raise UndecidedSizeError("a pass needs a number", ["count_0"])
        return whole(graph, *options, **more)

    monkeypatch.setattr(compile_graph, "build", build)
    outputs = [value("y", ["n"]), value("e", ["a", "b"]), value("n", ["r", "n"], np.int64)]
    proto = model(PICKED, [value("x", ["a", "b"])], outputs)
    wanted = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": X})
    compiled = tessella.compile(proto)
    for y, each in zip(compiled.run(None, {"x": X}), wanted, strict=True):
        np.testing.assert_allclose(y, np.asarray(each), rtol=1e-5)
    [(_, after)] = compiled.explain().subprograms
    assert [entry["op"] for entry in after.ops] == ["nn.transpose", "nn.gather_nd", "nn.neg"]
    assert "nn.trim" in {entry["op"] for entry in compiled.explain().ops}


@pytest.mark.sweep
@pytest.mark.parametrize("dims", ["fixed", "auto", {}])
def test_boxes_of_a_detector(dims: Any, programs: list[str]) -> None:
    """The selected boxes are gathered, as exporters write it."""
    nodes = make(
        *(("Mul", "boxes scale", "scaled"), ("NonMaxSuppression", "scaled scores most iou", "k")),
        *(("Slice", "k last end one", "at"), ("Reshape", "at flat", "i")),
        *(("Squeeze", "scaled first", "b"), ("Gather", "b i", "y")),
    )
    numbers = {"last": [2], "end": [3], "flat": [-1], "first": [0], "one": [1], "most": [100]}
    weights = {name: np.array(each) for name, each in numbers.items()}
    weights |= {"scale": np.array(2, np.float32), "iou": np.array([0.1], np.float32)}
    inputs = [value("boxes", [1, "n", 4]), value("scores", [1, 1, "n"])]
    proto = model(nodes, inputs, [value("y", ["m", 4])], weights=weights)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    compiled = tessella.compile(proto, dims=dims)
    for count in (40, 25, 33, 16):
        boxes = np.random.default_rng(count).uniform(0, 1, (1, count, 4)).astype(np.float32)
        feeds = {"boxes": boxes, "scores": normal(1, 1, count, seed=count)}
        wanted: Sequence[Any] = session.run(None, feeds)
        np.testing.assert_allclose(compiled.run(None, feeds)[0], wanted[0])
    assert len(programs) <= (8 if isinstance(dims, str) else 4)


def test_a_step_that_needs_what_follows_another() -> None:
    nodes = [
        *PICKED,
        *make(("Less", "y half", "low"), ("Compress", "g low", "c"), ("NonZero", "c", "m")),
        *make(("Add", "m m", "z"), ("Identity", "x", "same")),
    ]
    outputs = [value("z", None, np.int64), value("same", [2, 3]), value("c", ["n"])]
    proto = model(
        nodes, [value("x", [2, 3])], outputs, weights={"half": np.array(-2.0, np.float32)}
    )
    compare(proto, {"x": X}, {"x": NONE}, {"x": normal(*(2, 3), seed=2)})


def test_a_size_that_is_computed_from_data() -> None:
    nodes = make(("ReduceMax", "x", "top"), keepdims=0)
    nodes += make(("Cast", "top", "number"), to=TensorProto.INT64)
    nodes += make(("Reshape", "number one", "k"), ("Mul", "x x", "squares"))
    nodes += make(("TopK", "squares k", "y i"))
    proto = model(
        nodes, [value("x", [6])], [value("y", ["k"])], weights={"one": np.array([1], np.int64)}
    )
    compare(proto, *({"x": np.array([1, -2, top, 0, -3, 1], np.float32)} for top in (3, 5, 3)))


def test_a_size_that_is_computed_from_a_mask(programs: list[str]) -> None:
    """The masks are data: only what is counted in them matters."""
    nodes = make(("ReduceSum", "mask", "count"), keepdims=0)
    nodes += make(("Reshape", "count one", "shape"), ("Expand", "x shape", "y"))
    proto = model(
        nodes,
        [value("x", [1]), value("mask", [2, 4], np.int64)],
        [value("y", ["k"])],
        weights={"one": np.array([1], np.int64)},
    )
    compiled = tessella.compile(proto)
    for at in range(8):
        mask = np.arange(8).reshape(2, 4) == at
        assert compiled(X[0, :1], mask.astype(np.int64)).shape == (1,)
    assert len(programs) == 2


def test_constants_cross_the_cut() -> None:
    w = normal(*(1, 4), seed=3)
    nodes = make(
        *(("Compress", "x mask", "c"), ("Unsqueeze", "c axes", "u"), ("MatMul", "u w", "m")),
        *(("Add", "m b", "y"), ("Shape", "x", "shape"), ("Add", "m count", "z")),
    )
    weights = {
        "w": w,
        "b": w[0],
        "count": np.array(2.0, np.float32),
        "axes": np.array([1], np.int64),
    }
    proto = model(
        nodes,
        [value("x", [3]), value("mask", [3], np.bool_)],
        [value("y", ["n", 4]), value("z", ["n", 4])],
        weights=weights,
    )
    x = normal(*(3,), seed=4)
    masks = ([True, False, True], [False] * 3, [True] * 3)
    compare(proto, *({"x": x, "mask": np.array(mask)} for mask in masks))


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("is_sorted", [0, 1])
def test_unique(axis: int | None, is_sorted: int) -> None:
    x = np.random.default_rng(5).integers(0, 2, (4, 3)).astype(np.float32)
    settings: dict[str, Any] = {"sorted": is_sorted}
    if axis is not None:
        settings["axis"] = axis
    compare(one_node("Unique", {"x": x}, opset=11, outputs=1, **settings), {"x": x}, {"x": -x})


@pytest.mark.parametrize("most", [0, 1, 3, 100])
@pytest.mark.parametrize("overlap", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("centered", [0, 1])
def test_non_max_suppression(most: int, overlap: float, centered: int) -> None:
    random = np.random.default_rng(6)
    boxes = random.uniform(0, 1, (2, 12, 4)).astype(np.float32)
    feeds = {
        "boxes": boxes,
        "scores": random.uniform(0, 1, (2, 3, 12)).astype(np.float32),
        "most": np.array(most),
        "overlap": np.array(overlap, np.float32),
        "least": np.array(0.25, np.float32),
    }
    names = ("most", "overlap", "least")
    proto = one_node(
        "NonMaxSuppression", feeds, opset=11, constants=names, center_point_box=centered
    )
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    compare(proto, {name: array for name, array in feeds.items() if name not in names})


def test_constants_are_found_at_import() -> None:
    proto = one_node("NonZero", {"x": X}, opset=13, constants=["x"])
    text = tessella.compile(proto).as_text("nn")
    assert "nn.weight" in text
    assert "// " not in text


def test_what_a_step_refuses_is_said_with_its_node() -> None:
    feeds = {"x": X, "mask": np.array([False, False, True, True])}
    compiled = tessella.compile(one_node("Compress", feeds, opset=11, axis=1))
    with pytest.raises(ExecutionError, match="node 'Compress_0'"):
        compiled.run(None, feeds)


def test_parts_are_explained() -> None:
    compiled = tessella.compile(cut(2, 3))
    compiled(X, LIST)
    where = "after SequenceAt SequenceAt_1"
    assert f"{where}:" in str(compiled.explain())
    assert list(json.loads(compiled.explain().json())["subprograms"]) == [where]
    assert "nn.add" in compiled.as_text("nn")


def check_elsewhere(model: Any, elsewhere: Any, *calls: Mapping[str, Array]) -> None:
    for feeds in calls:
        for y, wanted in zip(elsewhere.run(None, feeds), model.run(None, feeds), strict=True):
            assert y.dtype == wanted.dtype
            np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("dims", ["auto", pytest.param({}, marks=pytest.mark.slow)])
def test_artifacts_serve_all_counts(dims: Any, tmp_path: Path, programs: list[str]) -> None:
    outputs = [value("y", ["n"]), value("e", ["a", "b"]), value("n", ["r", "n"], np.int64)]
    compiled = tessella.compile(model(PICKED, [value("x", ["a", "b"])], outputs), dims=dims)
    if dims == "auto":
        compiled.prepare({"x": (6, 9)})
    else:
        compiled.prepare()
    compiled(counted(6, 20))
    made, explained = len(programs), str(compiled.explain())
    compiled.save(tmp_path / "m.tsl")
    loaded = tessella.load(tmp_path / "m.tsl")
    calls = [{"x": counted(6, count)} for count in COUNTS]
    for elsewhere in (loaded, pickle.loads(pickle.dumps(compiled))):
        check_elsewhere(compiled, elsewhere, *calls)
    assert len(programs) == made
    assert str(loaded.explain()) == explained
    assert "nn.trim" in {row.kernel for row in loaded.profile(counted(6, 20), runs=2).rows}


def test_artifacts_from_the_command_line(tmp_path: Path) -> None:
    proto = model(PICKED, [value("x", ["a", 9])], [value("y", ["n"])])
    onnx.save(proto, tmp_path / "m.onnx")
    argv = ["compile", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.tsl"), "--dim"]
    assert main([*argv, "a=2..15", "--target", "avx2"]) == 0
    compiled, loaded = tessella.compile(proto), tessella.load(tmp_path / "m.tsl")
    calls = [{"x": counted(rows, count)} for count in (0, 1, 7, 30) for rows in (2, 8)]
    check_elsewhere(compiled, loaded, *calls)
    with pytest.raises(ShapeError, match=r"x \[a, 9\] with a from 2 to 15"):
        loaded(counted(16, 3))
    assert main([*argv, "a=5..2"]) == 2
    argv = ["compile", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.placed"), "--dim"]
    assert main([*argv, "a=2..15"]) == 0
    onnx.save(cut("a", 9), tmp_path / "m.onnx")
    assert main([*argv, "a=2..15"]) == 2


def test_loops_in_chunks_are_compiled_ahead(tmp_path: Path) -> None:
    proto = while_loop(make(("Add", "h outer", "k"), ("Neg", "k", "r")), extra=["r"])
    onnx.save(proto, tmp_path / "m.onnx")
    assert main(["compile", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.tsl")]) == 0
    compiled, loaded = tessella.compile(proto), tessella.load(tmp_path / "m.tsl")
    check_elsewhere(compiled, loaded, FEEDS, {"h0": FEEDS["x"], "x": FEEDS["h0"]})


def test_what_only_a_call_tells_is_not_compiled_ahead(tmp_path: Path) -> None:
    nodes = [*make(("Add", "h h", "s")), *make(("Concat", "h s", "k"), axis=0)]
    proto = while_loop(nodes)
    onnx.save(proto, tmp_path / "m.onnx")
    assert main(["compile", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.tsl")]) == 2
    compiled = tessella.compile(proto)
    compiled.run(None, FEEDS)
    compiled.save(tmp_path / "m.tsl")
    loaded = tessella.load(tmp_path / "m.tsl")
    check_elsewhere(compiled, loaded, FEEDS)


def test_an_artifact_without_a_program_for_what_is_found(tmp_path: Path) -> None:
    compiled = tessella.compile(cut(2, 3))
    compiled(X, LIST)
    compiled.save(tmp_path / "m.tsl")
    loaded = tessella.load(tmp_path / "m.tsl")
    np.testing.assert_array_equal(loaded(-X, LIST), compiled(-X, LIST))
    with pytest.raises(ShapeError, match="no program for what its steps found"):
        loaded(X, [X[0]])


def _steps(manifest: Any) -> Any:
    return manifest["programs"][0]["rest"]["steps"]


def _subprograms(manifest: Any) -> Any:
    return manifest["programs"][0]["rest"]["subprograms"]


def _inner(manifest: Any) -> Any:
    return _subprograms(manifest)[0]["models"][0]


LIES: Sequence[tuple[Any, str]] = (
    (lambda m: _steps(m)[0].update(function="system"), "unknown step 'system'"),
    (lambda m: _steps(m)[0].update(inputs=["other"]), "no step before it"),
    (lambda m: _steps(m)[0].update(outputs=[]), "reads what is not there"),
    (
        lambda m: _steps(m)[0].update(bodies=[{"takes": [], "subprogram": 7}]),
        "a subprogram is missing",
    ),
    (lambda m: _subprograms(m).clear(), "a subprogram is missing"),
    (lambda m: _subprograms(m)[0]["interface"].update(inputs=["n", "e"]), "takes other values"),
    (lambda m: _inner(m)["programs"][0]["program"].update(weights=[9]), "reads no weight"),
    (lambda m: _inner(m)["programs"][0].update(shapes=[]), "not the inputs"),
    (lambda m: m["programs"][0]["rest"]["returned"].append("x"), "gives other outputs"),
    (lambda m: m["programs"][0]["rest"].update(outputs=[]), "computed by no step"),
    (lambda m: m["programs"][0]["rest"].update(outputs=["y", "z"]), "gives other values"),
    (lambda m: m["outputs"][0].update(name="other"), "computed by no step"),
    (
        lambda m: m["programs"][0]["rest"]["constants"].update(
            c={"slot": 50, "spec": {"shape": [], "dtype": {"dtype": "float32"}}}
        ),
        "is no weight",
    ),
)


@pytest.fixture(scope="module")
def artifact() -> bytes:
    """A model that is cut once."""
    compiled = tessella.compile(cut(2, 3))
    compiled(X, LIST)
    return compiled.__reduce__()[1][0]


@pytest.mark.parametrize("change, message", LIES)
def test_artifacts_that_lie(artifact: bytes, change: Any, message: str) -> None:
    manifest, blobs = unpacked(artifact)
    change(manifest)
    with pytest.raises(InvalidModelError, match=message):
        from_bytes(repacked(manifest, blobs))


def test_settings_that_a_step_has_not(artifact: bytes) -> None:
    manifest, blobs = unpacked(artifact)
    _steps(manifest)[0]["settings"] = {"other": [1, {"dtype": "float32"}]}
    with pytest.raises(ExecutionError, match="a step raised TypeError"):
        from_bytes(repacked(manifest, blobs))(X, LIST)


def test_outputs_that_a_step_has_not(artifact: bytes) -> None:
    manifest, blobs = unpacked(artifact)
    _steps(manifest)[0]["outputs"] = ["n", "first", "which", "many", "other"]
    manifest["outputs"][0]["name"] = "other"
    with pytest.raises(ExecutionError, match="gives fewer values") as found:
        from_bytes(repacked(manifest, blobs))(X, LIST)
    assert "SequenceAt" in str(found.value)


@pytest.mark.parametrize("function", ["sequence", "nothing", "sequence_length", "branch", "loop"])
def test_steps_that_are_others(artifact: bytes, function: str) -> None:
    """A step whose results are not what the continuation takes is an error."""
    manifest, blobs = unpacked(artifact)
    step = _steps(manifest)[0]
    step.update(function=function, settings={})
    _steps(manifest)[:0] = [{**step, "function": "sequence", "outputs": ["l"]}]
    step["inputs"] = ["l"]
    with pytest.raises(TessellaError):
        from_bytes(repacked(manifest, blobs))(X, LIST)


# ** control flow **


def branches(nodes: list[onnx.NodeProto], others: list[onnx.NodeProto]) -> onnx.ModelProto:
    """An If whose condition is computed from `x`."""
    graphs: dict[str, Any] = {
        f"{name}_branch": helper.make_graph(each, name, [], [value("r", None)])
        for name, each in (("then", nodes), ("else", others))
    }
    tests = make(("ReduceMax", "x", "top"), keepdims=0) + make(("Greater", "top two", "go"))
    tests += make(("Abs", "x", "a"))
    chosen = helper.make_node("If", ["go"], ["t"], name="if", **graphs)
    return model(
        [*tests, chosen, *make(("Neg", "t", "y"))],
        [value("x", [2, 3])],
        [value("y", None)],
        weights={"two": np.array(2, np.float32), "zero": np.array([0], np.int64)},
    )


def test_a_condition_that_is_computed() -> None:
    row = make(("Slice", "a zero one zero", "row"), ("Squeeze", "row zero", "r"))
    proto = branches(make(("Exp", "a", "r")), row)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "one"))
    compare(proto, {"x": X}, {"x": NONE}, {"x": X})


def test_a_step_in_a_branch() -> None:
    picked = make(("NonZero", "x", "n"), ("Transpose", "n", "at"), ("GatherND", "a at", "r"))
    proto = branches(picked, make(("Flatten", "a", "r")))
    compare(proto, {"x": X}, {"x": NONE}, {"x": X})


def while_loop(
    nodes: list[onnx.NodeProto], trips: int | None = None, extra: Sequence[str] = ()
) -> onnx.ModelProto:
    """A Loop that ends when its state `h` is large."""
    tests = make(("ReduceMax", "k", "top"), keepdims=0) + make(("Less", "top limit", "again"))
    inputs = [value("i", [], np.int64), value("c", [], np.bool_), value("h", None)]
    results = [value("again", [], np.bool_), value("k", None), *(value(n, None) for n in extra)]
    body = helper.make_graph([*nodes, *tests], "body", inputs, results)
    outputs = ["t", *(f"all_{name}" for name in extra)]
    weights: dict[str, Array] = {"limit": np.array(100, np.float32)}
    if trips is not None:
        weights["trips"] = np.array(trips)
    node = helper.make_node(
        "Loop", ["" if trips is None else "trips", "", "h0"], outputs, body=body
    )
    return model(
        [*make(("Abs", "x", "outer")), node, *make(("Neg", "t", "y"))],
        [value("h0", [3]), value("x", [3])],
        [value("y", None), *(value(f"all_{name}", None) for name in extra)],
        weights=weights,
    )


FEEDS = {"h0": np.ones(3, np.float32), "x": np.array([1, -2, 3], np.float32)}


@pytest.mark.parametrize("trips", [None, 0, 2, 100])
def test_a_condition_of_a_loop_that_is_computed(trips: int | None) -> None:
    nodes = make(("Add", "h outer", "s"), ("Mul", "s s", "k"), ("Neg", "s", "r"))
    proto = while_loop(nodes, trips, ["r"])
    if trips == 0:
        proto.graph.node[1].attribute[0].g.output[2].CopyFrom(value("r", [3]))
    compare(proto, FEEDS, {"h0": FEEDS["x"], "x": FEEDS["h0"]})


def test_a_state_that_is_collected() -> None:
    """The body gives one value twice."""
    nodes = make(("Add", "h outer", "s"), ("Mul", "s s", "k"))
    compare(while_loop(nodes, extra=["k"]), FEEDS, {"h0": FEEDS["x"], "x": FEEDS["h0"]})


def test_a_result_that_is_given_twice(tmp_path: Path) -> None:
    before = model(make(("Exp", "x", "y")), [value("x", [3])], [value("y", [3])] * 2)
    after = model(PICKED, [value("x", [2, 3])], [value("y", ["n"]), value("e", [2, 3])] * 2)
    for proto, x in ((before, X[0]), (after, X)):
        compiled = tessella.compile(proto)
        results = compiled.run(None, {"x": x})
        half = len(results) // 2
        for y, same in zip(results[:half], results[half:], strict=True):
            np.testing.assert_array_equal(y, same)
            assert not np.may_share_memory(y, same)
        compiled.save(tmp_path / "m.tsl")
        check_elsewhere(compiled, tessella.load(tmp_path / "m.tsl"), {"x": x})


def test_a_state_that_grows() -> None:
    nodes = make(("Mul", "h outer", "m"), ("Add", "m outer", "s"))
    nodes += make(("ReduceSum", "s", "sum"), keepdims=1) + make(("Concat", "sum s", "k"), axis=0)
    proto = while_loop(nodes)
    for node in proto.graph.node[1].attribute[0].g.node[:2]:
        node.input[1] = "h"
    compare(proto, FEEDS)


def test_a_state_that_grows_needs_few_programs(programs: list[str]) -> None:
    """Its first size is a number, until there is another one."""
    proto = while_loop(make(("Add", "h one", "s")) + make(("Concat", "s one", "k"), axis=0))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(1, np.float32), "one"))
    compare(proto, FEEDS, {**FEEDS, "h0": -FEEDS["h0"]}, {**FEEDS, "h0": -FEEDS["x"]})
    assert len(programs) <= 6


def test_a_step_in_a_loop() -> None:
    nodes = make(("Add", "h outer", "s"), ("NonZero", "s", "n"), ("Squeeze", "n zero", "at"))
    nodes += make(("Gather", "s at", "g")) + make(("ReduceSum", "g", "sum"), keepdims=0)
    nodes += make(("Add", "s sum", "k"))
    proto = while_loop(nodes)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0]), "zero"))
    compare(proto, FEEDS, {"h0": -FEEDS["x"], "x": np.array([1, 0, 3], np.float32)})


def test_a_loop_in_a_loop() -> None:
    inner = while_loop(make(("Add", "h outer", "k")), extra=["k"]).graph.node[1]
    inner.input[2] = "p"
    nodes = [*make(("Mul", "h outer", "p")), inner, *make(("Add", "p t", "k"))]
    proto = while_loop(nodes)
    compare(proto, FEEDS)


@pytest.mark.parametrize("reverse", [0, 1])
def test_a_step_in_a_scan(reverse: int) -> None:
    """A step in ONNX's Scan: the body adds up the elements that are not zero."""
    nodes = make(("Add", "x0 h", "s"), ("NonZero", "s", "n"), ("Squeeze", "n zero", "at"))
    nodes += make(("Gather", "s at", "g")) + make(("ReduceSum", "g", "sum"), keepdims=0)
    nodes += make(("Add", "h sum", "k"), ("Mul", "k outer", "y0"))
    results = [value("k", [2]), value("y0", [2])]
    body = helper.make_graph(nodes, "body", [value("h", [2]), value("x0", [2])], results)
    settings: dict[str, Any] = {
        "num_scan_inputs": 1,
        "scan_input_axes": [1],
        "scan_input_directions": [reverse],
        "scan_output_axes": [1],
        "scan_output_directions": [reverse],
    }
    node = helper.make_node("Scan", ["h0", "x"], ["t", "ys"], body=body, **settings)
    proto = model(
        [*make(("Abs", "h0", "outer")), node],
        [value("h0", [2]), value("x", [2, 3])],
        [value("t", [2]), value("ys", [2, 3])],
        weights={"zero": np.array([0], np.int64)},
        opset=17,
    )
    compare(proto, {"x": X, "h0": np.array([0, -1], np.float32)})


# ** functions **


def test_a_step_in_a_function() -> None:
    imports = [helper.make_opsetid("", 21)]
    picks = helper.make_function(
        "own", "Picked", ["v"], ["w"],
        [
            helper.make_node("NonZero", ["v"], ["n"]),
            helper.make_node("Transpose", ["n"], ["y"]),
            helper.make_node("GatherND", ["v", "y"], ["w"]),
        ],
        imports,
    )  # fmt: skip
    nodes = [
        helper.make_node("Exp", ["x"], ["n"]),
        helper.make_node("Picked", ["x"], ["p"], domain="own", name="first"),
        helper.make_node("Picked", ["p"], ["q"], domain="own", name="second"),
        helper.make_node("ReduceSum", ["n"], ["sum"], keepdims=0),
        helper.make_node("Add", ["q", "sum"], ["y"]),
    ]
    proto = model(
        nodes, [value("x", [2, 3])], [value("y", ["k"])], domains={"own": 1}, functions=[picks]
    )
    compare(proto, {"x": X}, {"x": NONE})
