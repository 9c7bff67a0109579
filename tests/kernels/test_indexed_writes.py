"""Scatters as native indexed writes, against NumPy and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import tessella
from tessella.dialects import nn
from tessella.dialects.tile import ContractOp
from tessella.driver.build.compile_graph import compile_graph
from tessella.driver.options import make_options
from tessella.frontends.onnx import OnnxSource
from tessella.support.errors import ExecutionError
from tests.frontends.onnx.models import model, value
from tests.lowering.test_threads import check_bits
from tests.models import lowered_for
from tests.native import EVERYWHERE, Array, check_op, normal

REDUCTIONS = ("none", "add", "mul", "max", "min")


def places(size: int, *shape: int, seed: int = 0) -> Array:
    """Indices with duplicates, of which some count from the back."""
    return np.random.default_rng(seed).integers(-size, size, shape)


def tuples(data: tuple[int, ...], shape: tuple[int, ...], depth: int) -> Array:
    return np.stack([places(data[d], *shape, seed=d) for d in range(depth)], -1)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("target", EVERYWHERE)
@pytest.mark.parametrize(
    "shape, axis", [((20, 37), 0), ((20, 37), 1), ((50,), 0), ((3, 5, 9), 1), ((1, 2), 0)]
)
def test_elements(target: str, shape: tuple[int, ...], axis: int, reduction: str) -> None:
    updates = tuple(n + 13 * (d == axis) for d, n in enumerate(shape))
    arrays = [normal(*shape), places(shape[axis], *updates), normal(*updates, seed=2)]
    check_op(nn.ScatterElementsOp, arrays, target=target, axis=axis, reduction=reduction)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("target", EVERYWHERE)
@pytest.mark.parametrize(
    "data, shape, depth",
    [((20, 37), (43,), 1), ((6, 7), (90,), 2), ((4, 3, 64), (4, 5), 2), ((9, 70), (), 1)],
)
def test_tuples(
    target: str, data: tuple[int, ...], shape: tuple[int, ...], depth: int, reduction: str
) -> None:
    updates = normal(*shape, *data[depth:], seed=2)
    arrays = [normal(*data), tuples(data, shape, depth), updates]
    check_op(nn.ScatterNdOp, arrays, target=target, reduction=reduction)


def test_a_place_out_of_range_is_an_error() -> None:
    """Nothing is written there."""
    data, updates = normal(5, 8), normal(3, 8, seed=1)
    for wrong in (5, -6, 1 << 40):
        with pytest.raises(ExecutionError, match="out of range"):
            tessella.ops.scatter_nd(data, np.array([[0], [wrong], [1]]), updates, reduction="add")


def scattered(rows: int, columns: int, points: int, **dims: str) -> tuple[Any, Mapping[str, Array]]:
    """A model that adds points to rows, and its inputs; ``dims`` names the open dimensions."""
    node = helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction="add")
    n, m, k = (
        dims.get(name, size) for name, size in zip("nmk", (rows, columns, points), strict=True)
    )
    inputs = [value("x", [n, m]), value("i", [k, 1], np.int64), value("u", [k, m])]
    feeds = {
        "x": normal(rows, columns),
        "i": places(rows, points, 1),
        "u": normal(points, columns, seed=1),
    }
    return model([node], inputs, [value("y", [n, m])]), feeds


@pytest.mark.usefixtures("divide_all")
@pytest.mark.parametrize("rows, columns, points", [(400, 1, 3000), (300, 9, 999), (7, 320, 99)])
def test_threads_write_the_same_bits(
    rows: int, columns: int, points: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They divide the columns, or the rows: each then looks at all points."""
    proto, feeds = scattered(rows, columns, points)
    graph = OnnxSource(proto).graph({name: array.shape for name, array in feeds.items()})
    program = compile_graph(graph, make_options()).program
    assert any(getattr(step, "shared", False) for step in program.steps)
    check_bits(program, list(feeds.values()), monkeypatch)


def test_open_sizes() -> None:
    proto, _ = scattered(5, 8, 3, n="n", m="m", k="k")
    compiled = tessella.compile(proto)
    for rows, columns, points in ((5, 8, 3), (9, 33, 40), (31, 7, 12), (1, 64, 2)):
        _, feeds = scattered(rows, columns, points)
        expected = np.array(feeds["x"])
        np.add.at(expected, feeds["i"][:, 0], feeds["u"])
        np.testing.assert_allclose(compiled(**feeds), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("form", ["ScatterElements", "ScatterND"])
def test_messages_are_one_statement(form: str) -> None:
    """Gathered, computed and added up, from node to node of a graph: no edge is in memory."""
    nodes, edges, width = 60, 500, 24
    ops = [
        helper.make_node("Gather", ["x", "from"], ["a"], axis=0),
        helper.make_node("Gather", ["x", "to"], ["b"], axis=0),
        helper.make_node("Sub", ["a", "b"], ["d"]),
        helper.make_node("Relu", ["d"], ["r"]),
        helper.make_node("Mul", ["r", "w"], ["m"]),
        helper.make_node("Sub", ["x", "x"], ["zeros"]),
        helper.make_node("Unsqueeze", ["to", "one"], ["column"]),
        helper.make_node("Expand", ["column", "shape"], ["places"]),
        helper.make_node(
            form,
            ["zeros", "places" if form == "ScatterElements" else "column", "m"],
            ["y"],
            reduction="add",
        ),
    ]
    inputs = [
        value("x", [nodes, width]),
        value("from", [edges], np.int64),
        value("to", [edges], np.int64),
        value("w", [edges, 1]),
    ]
    constants = {"one": np.array([1]), "shape": np.array([edges, width])}
    proto = model(ops, inputs, [value("y", [nodes, width])], weights=constants)
    feeds = {
        "x": normal(nodes, width),
        "from": places(nodes, edges),
        "to": np.abs(places(nodes - 1, edges, seed=1)),
        "w": normal(edges, 1),
    }
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    expected = np.asarray(session.run(None, feeds)[0])
    np.testing.assert_allclose(tessella.compile(proto)(**feeds), expected, rtol=1e-4, atol=1e-4)
    writes = [
        op
        for op in lowered_for(proto).stages["tile"].walk()
        if isinstance(op, ContractOp) and any(i.range == edges for i in op.index_list)
    ]
    assert [op.is_scatter for op in writes] == [True]
