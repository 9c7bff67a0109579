"""ONNX's Loop with a computed end, against ONNX Runtime: which parts are native code."""

from __future__ import annotations

import ctypes
import gc
import signal
import threading
import time
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import tessella
from tessella import Model
from tessella.frontends.onnx import OnnxSource
from tessella.support.errors import ExecutionError
from tests.frontends.onnx import models
from tests.frontends.onnx.models import Array, model, value
from tests.generators.scans import make
from tests.turns import take_turns

SIZE = 3
FEEDS: Mapping[str, Array] = {
    "h0": np.ones(SIZE, np.float32),
    "x": np.array([1, -2, 3], np.float32),
}
GROWS = make(("Mul", "h outer", "m"), ("Add", "m h", "k"))
ROWS = make(("Neg", "k", "r"), ("Identity", "i", "n"))
END = make(("ReduceMax", "k", "top"), keepdims=0) + make(("Less", "top limit", "again"))

TYPES, SHAPES = {"n": np.int64}, {"n": []}


def loop(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[str] = ("", "", "h0"),
    elements: Sequence[str] = (),
    **weights: Any,
) -> onnx.ModelProto:
    """A model with a Loop; `trips` and `go` are inputs, unless there are weights of these names."""
    made = (value(n, SHAPES.get(n, [SIZE]), TYPES.get(n, np.float32)) for n in elements)
    results = [value("again", [], np.bool_), value("k", None), *made]
    declared = [value("i", [], np.int64), value("c", [], np.bool_), value("h", None)]
    body = helper.make_graph(nodes, "body", declared, results)
    outputs = ["t", *(f"all_{name}" for name in elements)]
    dtypes = {"trips": np.int64, "go": np.bool_}
    others = [value(name, [], dtypes[name]) for name in inputs if name in dtypes.keys() - weights]
    return model(
        [*make(("Abs", "x", "outer")), helper.make_node("Loop", inputs, outputs, body=body)],
        [value("h0", [SIZE]), value("x", [SIZE]), *others],
        [value("t", None), *(value(f"all_{n}", None, TYPES.get(n, np.float32)) for n in elements)],
        weights={"limit": np.array(100, np.float32), **weights},
        opset=17,
    )


def compare(proto: onnx.ModelProto, *calls: Mapping[str, Array], is_native: bool = True) -> Model:
    """Compile the model once for all calls. A native loop may run in chunks, but not iteration by
    iteration."""
    compiled = models.compare(proto, *calls)
    shapes = {name: array.shape for name, array in calls[0].items()}
    graph = OnnxSource(proto).graph(shapes)
    steps = [] if graph.rest is None else [step.function for step in graph.rest.steps]
    assert is_native == ("loop" not in steps)
    return compiled


OTHERS: Mapping[str, Array] = {"h0": FEEDS["x"], "x": FEEDS["h0"]}


@pytest.mark.parametrize("elements", [(), ("r", "n")])
@pytest.mark.parametrize("trips", [0, 1, 4, 100])
@pytest.mark.parametrize("go", [True, False])
def test_a_condition_ends_it(trips: int, go: bool, elements: Sequence[str]) -> None:
    nodes = [*GROWS, *END, *(ROWS if elements else ())]
    given = ("trips", "go", "h0")
    proto = loop(nodes, given, elements, trips=np.array(trips), go=np.array(go))
    compare(proto, FEEDS, OTHERS)


@pytest.mark.parametrize("largest", [False, True])
def test_nothing_but_its_condition_ends_it(largest: bool) -> None:
    weights: dict[str, Any] = {"trips": np.array(np.iinfo(np.int64).max)} if largest else {}
    inputs = ("trips" if largest else "", "", "h0")
    compare(loop([*GROWS, *END], inputs, **weights), FEEDS, OTHERS)
    compare(loop([*GROWS, *END, *ROWS], inputs, ("r",), **weights), FEEDS, OTHERS)


@pytest.mark.parametrize("inputs", [("trips", "", "h0"), ("trips", "go", "h0"), ("", "go", "h0")])
def test_its_end_is_an_input(inputs: Sequence[str]) -> None:
    calls = [
        {**feeds, "trips": np.array(trips), "go": np.array(go)}
        for feeds in (FEEDS, OTHERS)
        for trips in (-1, 0, 1, 3, 100)
        for go in (True, False)
    ]
    known = {"h0", "x", *inputs}
    calls = [{name: each for name, each in feeds.items() if name in known} for feeds in calls]
    compiled = compare(loop([*GROWS, *END], inputs), *calls)
    assert str(compiled.as_text("nn")).count("func.func @main") == 1


def test_an_always_true_condition_needs_no_bool() -> None:
    """The trip count alone is computed."""
    nodes = [*GROWS, *make(("Identity", "c", "again"))]
    calls = [{**FEEDS, "trips": np.array(trips)} for trips in (0, 1, 3)]
    compare(loop(nodes, ("trips", "", "h0")), *calls)


def test_the_number_of_the_step_is_data() -> None:
    nodes = make(("Gather", "outer n", "one"), ("Add", "h one", "k"))
    nodes = [*make(("Mod", "i three", "n")), *nodes, *END]
    compare(loop(nodes, three=np.array(3)), FEEDS, OTHERS)


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["numbers", "going", "state0", "following", "rows0"])
def test_it_reads_a_value_with_any_name(name: str) -> None:
    proto = loop([*GROWS, *END, *ROWS], elements=("r",))
    first, node = proto.graph.node
    node.name = "a"
    first.output[0] = node.attribute[0].g.node[0].input[1] = f"a/{name}"
    compare(proto, FEEDS, OTHERS)


def reads_open_sizes(name: str) -> onnx.ModelProto:
    """A loop in a model with a size that has this name."""
    nodes = [*make(("Expand", "step shape", "all"), ("Add", "h all", "k")), *ROWS, *END]
    proto = loop(nodes, elements=("r",), step=np.array(30, np.float32))
    proto.graph.node[1].name = "a"
    proto.graph.node[0].CopyFrom(*make(("Identity", name, "shape")))
    proto.graph.node.insert(0, *make(("Shape", "h0", name)))
    proto.graph.input.pop()
    proto.graph.input[0].CopyFrom(value("h0", ["n"]))
    return proto


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["a/numbers", "a/going", "a/following"])
def test_it_reads_an_open_size_with_any_name(name: str) -> None:
    models.compare(reads_open_sizes(name), {"h0": FEEDS["x"]}, {"h0": FEEDS["x"][:2]})


def test_it_reads_open_sizes(tmp_path: Path) -> None:
    """Its chunks are one program for all sizes."""
    proto = reads_open_sizes("size")
    feeds = [{"h0": np.arange(size, dtype=np.float32)} for size in (3, 4, 5, 9)]
    compiled = models.compare(proto, *feeds)
    compiled.save(tmp_path / "a.tsl")
    loaded = tessella.load(tmp_path / "a.tsl")
    for each in feeds:
        for found, wanted in zip(loaded.run(None, each), compiled.run(None, each), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_an_artifact_of_a_body_without_types(tmp_path: Path) -> None:
    proto = loop([*GROWS, *ROWS, *END], elements=("r",))
    for output in proto.graph.node[-1].attribute[0].g.output:
        output.ClearField("type")
    compiled = models.compare(proto, FEEDS, OTHERS)
    wanted = compiled.run(None, FEEDS)
    compiled.save(tmp_path / "a.tsl")
    for a, b in zip(tessella.load(tmp_path / "a.tsl").run(None, FEEDS), wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_it_reads_a_sequence() -> None:
    """Its steps are calls where they return elements."""
    nodes = [*make(("SequenceAt", "all zero", "one"), ("Add", "h one", "k")), *ROWS, *END]
    for elements in ((), ("r", "n")):
        proto = loop(nodes, elements=elements, zero=np.array(0))
        proto.graph.node.insert(1, *make(("SequenceConstruct", "outer x", "all")))
        compare(proto, FEEDS, OTHERS, is_native=not elements)


def test_what_fails_in_no_step_does_not_fail() -> None:
    """An index that is the same in all steps, and out of range."""
    nodes = [*make(("Gather", "outer at", "one"), ("Add", "h one", "k")), *END]
    proto = loop(nodes, ("trips", "", "h0"))
    proto.graph.input.append(value("at", [1], np.int64))
    feeds = {**FEEDS, "at": np.array([7])}
    compiled = tessella.compile(proto)
    (found,) = compiled.run(None, {**feeds, "trips": np.array(0)})
    np.testing.assert_array_equal(found, FEEDS["h0"])
    with pytest.raises(ExecutionError, match="out of range"):
        compiled.run(None, {**feeds, "trips": np.array(1)})


def failure(call: Callable[[], object]) -> str:
    """The error that a call raises. A call that does not return fails the test."""
    errors: list[str] = []

    def run() -> None:
        try:
            call()
        except ExecutionError as error:
            errors.append(str(error))

    # what does not stop leaves the interpreter to others
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "the call does not return"
    (error,) = errors
    return error


MANY = 4000


def walk(failing: Sequence[int]) -> onnx.ModelProto:
    """A loop in whose steps some of many indices go further on in a table. It has no other end than
    that of the table."""
    nodes = make(("Mul", "i speed", "n"), ("Gather", "table n", "found"))
    nodes += make(("ReduceMax", "found", "most"), keepdims=0) + make(("Mul", "h most", "k"))
    nodes += make(("ReduceMax", "k", "top"), keepdims=0) + make(("Greater", "top zero", "again"))
    weights: dict[str, Any] = {"table": np.ones(10, np.float32), "zero": np.array(0, np.float32)}
    return loop(nodes, speed=np.isin(np.arange(MANY), failing).astype(np.int64), **weights)


FAILING = [(MANY - 1,), (0,), (0, MANY - 1)]


@pytest.mark.parametrize("failing", FAILING)
@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_ends_it(failing: Sequence[int], threads: int) -> None:
    compiled = tessella.compile(walk(failing), threads=threads)
    for _ in range(2):
        assert "an index is out of range" in failure(lambda: compiled.run(None, FEEDS))


def test_an_error_keeps_no_rows() -> None:
    """None of those before it, until some garbage is collected."""
    nodes = make(("Gather", "outer i", "one"), ("Add", "h one", "k"), ("Identity", "c", "again"))
    compiled = tessella.compile(loop([*nodes, *ROWS], elements=("r",)))
    kept: list[weakref.ref[ExecutionError]] = []
    gc.disable()
    try:
        compiled.run(None, FEEDS)
    except ExecutionError as error:
        kept.append(weakref.ref(error))
    finally:
        gc.enable()
    assert [each() for each in kept] == [None]


@pytest.mark.usefixtures("divide_all")
@pytest.mark.parametrize("failing", FAILING)
@pytest.mark.parametrize("order", [None, (0, 1), (1, 0), (2, 0, 1)])
def test_an_error_of_one_thread_ends_it_for_all(
    failing: Sequence[int], order: Sequence[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = None if order is None else take_turns(monkeypatch, order)
    compiled = tessella.compile(walk(failing), threads=len(order or "12"))
    for _ in range(2):
        assert "an index is out of range" in failure(lambda: compiled.run(None, FEEDS))
    assert turns is None or turns.runs == 2


@pytest.mark.usefixtures("divide_all")
@pytest.mark.parametrize("failing", FAILING)
def test_an_error_in_an_inner_loop_ends_the_outer_one(failing: Sequence[int]) -> None:
    proto = walk(failing)
    inner = proto.graph.node.pop()
    inner.input[2], inner.output[0] = "p", "u"
    nodes = make(("Mul", "u zero", "s")) + make(("ReduceMax", "s", "least"), keepdims=0)
    nodes += make(("Less", "least limit", "more"))
    declared = [value("j", [], np.int64), value("d", [], np.bool_), value("p", [SIZE])]
    results = [value("more", [], np.bool_), value("s", [SIZE])]
    body = helper.make_graph([inner, *nodes], "outer_body", declared, results)
    proto.graph.node.append(helper.make_node("Loop", ["", "", "h0"], ["t"], body=body))
    compiled = tessella.compile(proto, threads=2)
    assert "an index is out of range" in failure(lambda: compiled.run(None, FEEDS))
    assert compiled.as_text("loops").count("rt.stop") == 2


class EndedError(BaseException):
    """An exception that ends a call."""


@contextmanager
def alarms() -> Generator[list[int]]:
    """Ring alarms, each 0.1 s after the one before. The third one raises. Yield their numbers."""
    rang: list[int] = []

    def ring(*_: object) -> None:
        rang.append(len(rang))
        if len(rang) == 3:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise EndedError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    try:
        yield rang
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("divide_all")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_signal_ends_it(threads: int) -> None:
    """A signal ends the call if its handler raises; other signals are handled while the loop runs
    on."""
    compiled = tessella.compile(walk(()), threads=threads)
    compiled.prepare()
    for _ in range(2):
        with alarms(), pytest.raises(EndedError):
            compiled.run(None, FEEDS)


@pytest.mark.parametrize("steps", [30, 1 << 40])
def test_a_signal_ends_loops_in_loops(steps: int) -> None:
    """An inner loop that is short or has no end."""
    nodes = make(("Add", "h zero", "k"), ("Less", "i steps", "again"))
    proto = loop(nodes, steps=np.array(steps), zero=np.array(0, np.float32))
    inner = proto.graph.node.pop()
    inner.input[2], inner.output[0] = "p", "u"
    declared = [value("j", [], np.int64), value("d", [], np.bool_), value("p", [SIZE])]
    results = [value("d", [], np.bool_), value("u", [SIZE])]
    body = helper.make_graph([inner], "outer_body", declared, results)
    proto.graph.input.append(value("trips", [], np.int64))
    proto.graph.node.append(helper.make_node("Loop", ["trips", "", "h0"], ["t"], body=body))
    compiled = tessella.compile(proto)
    compiled.prepare()
    for _ in range(2):
        with alarms(), pytest.raises(EndedError):
            compiled.run(None, {**FEEDS, "trips": np.array(1 << 40)})


@pytest.mark.parametrize("elements", [(), ("r",)])
def test_another_thread_ends_it(elements: Sequence[str]) -> None:
    """Another thread ends the call, also if the loop runs in chunks."""
    nodes = [*make(("Min", "h outer", "k")), *make(("Identity", "c", "again")), *ROWS]
    compiled = tessella.compile(loop(nodes, ("trips", "", "h0"), elements))
    few, many = ({**FEEDS, "trips": np.array(trips)} for trips in (3, 1 << 40))
    wanted, ended = compiled.run(None, few), threading.Event()

    def run() -> None:
        with pytest.raises(EndedError):
            compiled.run(None, many)
        ended.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    time.sleep(0.2)
    assert thread.ident is not None
    error = ctypes.py_object(EndedError)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), error)
    assert ended.wait(20)
    for found, expected in zip(compiled.run(None, few), wanted, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_what_cannot_fail_needs_no_stop() -> None:
    compiled = tessella.compile(loop([*GROWS, *END]))
    compiled.run(None, FEEDS)
    assert "rt.stop" not in compiled.as_text("loops")


@pytest.mark.usefixtures("divide_all")
@pytest.mark.parametrize("failing", FAILING)
@pytest.mark.parametrize("order", [None, (0, 1), (1, 0)])
def test_an_error_before_it_ends_it(
    failing: Sequence[int], order: Sequence[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of any thread ends the loop, though the first thread runs it alone. The loop that
    replaces it is endless."""
    nodes = make(("Add", "h step", "k"), ("Less", "k limit", "again"))
    proto = loop(nodes, table=np.zeros(10, np.float32))
    found = make(("Gather", "table at", "found"))
    for node in (*make(("ReduceMax", "found", "step"), keepdims=0), *found):
        proto.graph.node.insert(0, node)
    proto.graph.input[0].CopyFrom(value("h0", []))
    proto.graph.input.append(value("at", [MANY], np.int64))
    turns = None if order is None else take_turns(monkeypatch, order)
    compiled = tessella.compile(proto, threads=len(order or "1"))
    at = 10 * np.isin(np.arange(MANY), failing).astype(np.int64)
    feeds = {"h0": np.array(0, np.float32), "x": FEEDS["x"], "at": at}
    for _ in range(2):
        assert "an index is out of range" in failure(lambda: compiled.run(None, feeds))
    assert turns is None or turns.runs == 2


def look_up(rows: int) -> onnx.ModelProto:
    """A loop whose steps look up rows of a table, then a Gather of other rows, `at`."""
    nodes = make(("Mod", "i ten", "n"), ("Gather", "table n", "found"), ("Add", "h found", "k"))
    nodes += make(("Less", "i few", "again"))
    table = np.ones((10, SIZE), np.float32)
    proto = loop(nodes, table=table, few=np.array(3), ten=np.array(10))
    proto.graph.node.extend(make(("Gather", "table at", "rows")))
    proto.graph.input.append(value("at", [rows], np.int64))
    proto.graph.output.append(value("rows", None))
    return proto


@pytest.mark.usefixtures("divide_all")
@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_behind_it_is_none_of_the_next_call(threads: int) -> None:
    """The first thread looks at the statuses of others, which may begin later."""
    compiled = tessella.compile(look_up(MANY), threads=threads)
    good, bad = ({**FEEDS, "at": np.full(MANY, 0)} for _ in range(2))
    bad["at"][-1] = 10
    wanted = compiled.run(None, good)
    for _ in range(10):
        with pytest.raises(ExecutionError, match="out of range"):
            compiled.run(None, bad)
        for found, expected in zip(compiled.run(None, good), wanted, strict=True):
            np.testing.assert_array_equal(found, expected)


class LateError(BaseException):
    """An exception that is raised after a run has ended and before its status is read."""


@contextmanager
def raising_late(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Raise as a handler of signals does which runs then."""

    def fail(_: object) -> None:
        raise LateError

    with monkeypatch.context() as patch:
        patch.setattr("tessella.runtime.native_steps.NativeCall._fail", fail)
        with pytest.raises(LateError):
            yield


@pytest.mark.usefixtures("divide_all")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_call_that_is_not_looked_at_is_no_matter_of_the_next(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = tessella.compile(look_up(MANY), threads=threads)
    good, bad = ({**FEEDS, "at": np.full(MANY, 0)} for _ in range(2))
    bad["at"][:] = 10
    wanted = compiled.run(None, good)
    with raising_late(monkeypatch):
        compiled.run(None, bad)
    for found, expected in zip(compiled.run(None, good), wanted, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_what_ended_a_call_does_not_end_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = make(("Min", "h outer", "k"), ("Identity", "c", "again"))
    compiled = tessella.compile(loop(nodes))
    with alarms(), raising_late(monkeypatch):
        compiled.run(None, FEEDS)
    with alarms() as rang, pytest.raises(EndedError):
        compiled.run(None, FEEDS)
    assert len(rang) == 3


def test_elements_that_nothing_reads_need_no_room() -> None:
    proto = loop([*GROWS, *END, *ROWS], elements=("r",))
    (wanted, _) = tessella.compile(proto).run(None, dict(FEEDS))
    del proto.graph.output[1]
    proto.graph.node[1].output[1] = ""
    (found,) = tessella.compile(proto).run(None, dict(FEEDS))
    np.testing.assert_array_equal(found, wanted)
    shapes = {name: array.shape for name, array in FEEDS.items()}
    assert OnnxSource(proto).graph(shapes).rest is None


@pytest.mark.parametrize("elements", [(), ("r",)])
def test_a_loop_in_a_loop(elements: Sequence[str]) -> None:
    """Two loops have the same condition; the outer one adds up the results of the inner one."""
    inner = loop([*GROWS, *END], ("", "", "p")).graph.node[1]
    nodes = [*make(("Div", "h big", "p")), inner, *make(("Add", "h t", "s"))]
    tests = make(("ReduceMax", "s", "most"), keepdims=0) + make(("Less", "most wide", "more"))
    rows = make(("Neg", "s", "r")) if elements else []
    weights: dict[str, Any] = {"big": np.array(50, np.float32), "wide": np.array(3000, np.float32)}
    proto = loop(
        [*nodes, *tests, *rows], ("trips", "", "h0"), elements, trips=np.array(30), **weights
    )
    outer = proto.graph.node[1].attribute[0].g
    outer.output[0].name, outer.output[1].name = "more", "s"
    compiled = compare(proto, FEEDS, OTHERS)
    assert compiled.as_text("nn").count("conditional") == 2


def test_what_has_no_native_code_runs_in_the_same_program() -> None:
    nodes = make(("CumSum", "h zero", "s"), ("Mul", "s s", "k"))
    proto = loop([*nodes, *END], zero=np.array(0))
    compare(proto, FEEDS, OTHERS)


def test_a_state_that_grows_is_that_of_subprograms() -> None:
    nodes = make(("Concat", "h h", "k"), axis=0) + make(("ReduceSum", "k", "top"), keepdims=0)
    compare(loop([*nodes, *make(("Less", "top limit", "again"))]), FEEDS, is_native=False)


def test_the_trip_count_may_be_an_open_size() -> None:
    proto = loop([*GROWS, *END], ("trips", "", "h0"), trips=np.array(0))
    del proto.graph.initializer[1]
    shape = [*make(("Shape", "h0", "size")), *make(("Squeeze", "size", "trips"))]
    for node in reversed(shape):
        proto.graph.node.insert(0, node)
    proto.graph.node[2].input[0] = "x"
    for each in proto.graph.input:
        each.type.tensor_type.shape.dim[0].dim_param = "n"
    compiled = tessella.compile(proto, dims={})
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    for size in (2, 3, 5, 17, 40):
        feeds = {
            "h0": np.full(size, 1e-3, np.float32),
            "x": np.linspace(0, 1, size, dtype=np.float32),
        }
        expected: Sequence[Any] = session.run(None, feeds)
        np.testing.assert_allclose(compiled.run(None, feeds)[0], expected[0], rtol=1e-5)
