"""Indexed writes into tensors that nothing reads later, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tessella
from tessella.driver.build.compile_graph import compile_graph
from tessella.driver.options import make_options
from tessella.frontends.onnx import OnnxSource
from tests.frontends.onnx.models import Array, model, value
from tests.lowering.test_threads import check_bits
from tests.models import run_onnxruntime
from tests.native import normal

node = helper.make_node
ROWS, COLUMNS = 12, 20
FEEDS = {
    "x": normal(ROWS, COLUMNS),
    "i": np.array([[3], [0], [11]]),
    "j": np.array([[3], [3], [5]]),
    "u": normal(3, COLUMNS, seed=1),
}


def check(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> str:
    """Compare two calls, as what one has written over must not matter to the next; nothing that is
    passed changes. Returns the stage `tile`."""
    wanted, before = run_onnxruntime(proto, dict(feeds)), {k: v.copy() for k, v in feeds.items()}
    for threads in (1, 2):
        compiled = tessella.compile(proto, threads=threads)
        for _ in range(2):
            for found, right in zip(compiled.run(None, dict(feeds)), wanted, strict=True):
                np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)
    for name, array in feeds.items():
        np.testing.assert_array_equal(array, before[name])
    return compiled.as_text("tile")


def written(nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> onnx.ModelProto:
    inputs = [value(name, array.shape, array.dtype) for name, array in FEEDS.items()]
    return model(nodes, inputs, [value(name, None) for name in outputs], opset=18)


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
def test_one_write_after_the_other(reduction: str) -> None:
    """Of an input of the model, the first one writes a copy."""
    nodes = [
        node("ScatterND", ["x", "i", "u"], ["a"], reduction=reduction),
        node("ScatterND", ["a", "j", "u"], ["b"], reduction=reduction),
        node("ScatterND", ["b", "i", "u"], ["y"], reduction=reduction),
    ]
    text = check(written(nodes, ["y"]), FEEDS)
    assert text.count("tile.call") == 3
    assert text.count("in_place(") == 3  # the kernel, and two calls


def test_what_is_read_later_is_copied() -> None:
    nodes = [
        node("Softmax", ["x"], ["s"], axis=1),
        node("ScatterND", ["s", "i", "u"], ["a"]),
        node("ReduceMax", ["s"], ["m"]),
        node("ScatterND", ["a", "j", "u"], ["y"]),
    ]
    text = check(written(nodes, ["y", "m"]), FEEDS)
    assert text.count("in_place(") <= 2


def test_what_is_returned_is_copied() -> None:
    nodes = [node("Softmax", ["x"], ["s"], axis=1), node("ScatterND", ["s", "i", "u"], ["y"])]
    assert "in_place" not in check(written(nodes, ["s", "y"]), FEEDS)


def test_a_constant_is_copied() -> None:
    inputs = [value("i", [3, 1], np.int64), value("u", [3, COLUMNS])]
    nodes = [node("ScatterND", ["x", "i", "u"], ["y"])]
    proto = model(nodes, inputs, [value("y", None)], weights={"x": FEEDS["x"]}, opset=18)
    assert "in_place" not in check(proto, {name: FEEDS[name] for name in "iu"})


def cached(steps: int, *, until: float | None = None, rows: int = ROWS) -> onnx.ModelProto:
    """A loop whose steps write a row of a cache, and read all of it; it ends early where the mean
    is above a limit."""
    ends = "Identity" if until is None else "Less"
    body = helper.make_graph(
        [
            node("Reshape", ["step", "one"], ["at"]),
            node("Reshape", ["h", "row"], ["new"]),
            node("ReduceMax", ["cache", "first"], ["old"], keepdims=0),
            node("ScatterND", ["cache", "at", "new"], ["cache_out"]),
            node("ReduceMean", ["cache_out", "first"], ["mean"], keepdims=0),
            node("Add", ["mean", "old"], ["sum"]),
            node("Tanh", ["sum"], ["h_out"]),
            node("ReduceMean", ["h_out"], ["level"], keepdims=0),
            node(ends, ["go"] if until is None else ["level", "until"], ["go_out"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("step", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("cache", TensorProto.FLOAT, [rows, COLUMNS]),
            helper.make_tensor_value_info("h", TensorProto.FLOAT, [COLUMNS]),
        ],
        [
            helper.make_tensor_value_info("go_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("cache_out", TensorProto.FLOAT, [rows, COLUMNS]),
            helper.make_tensor_value_info("h_out", TensorProto.FLOAT, [COLUMNS]),
        ],
    )
    weights = {
        "steps": np.array(steps),
        "always": np.array(True),
        "one": np.array([1, 1]),
        "row": np.array([1, COLUMNS]),
        "first": np.array([0]),
        "until": np.array(until or 0, np.float32),
    }
    return model(
        [node("Loop", ["steps", "always", "x", "h0"], ["y", "h"], body=body)],
        [value("x", [rows, COLUMNS]), value("h0", [COLUMNS])],
        [value("y", [rows, COLUMNS]), value("h", [COLUMNS])],
        weights=weights,
        opset=18,
    )


@pytest.mark.parametrize("steps", [1, 2, 7])
@pytest.mark.parametrize("until", [None, 0.3, -9.0])
def test_a_cache_that_a_loop_carries(steps: int, until: float | None) -> None:
    """It is copied once, and stays in one buffer."""
    feeds = {"x": FEEDS["x"], "h0": normal(COLUMNS, seed=2)}
    text = check(cached(steps, until=until), feeds)
    assert text.count("in_place(") == 2


@pytest.mark.usefixtures("divide_all")
def test_threads_wait_for_the_step_before(monkeypatch: pytest.MonkeyPatch) -> None:
    proto, feeds = cached(7, rows=300), {"x": normal(300, COLUMNS), "h0": normal(COLUMNS, seed=2)}
    graph = OnnxSource(proto).graph({name: array.shape for name, array in feeds.items()})
    program = compile_graph(graph, make_options()).program
    check_bits(program, list(feeds.values()), monkeypatch)
