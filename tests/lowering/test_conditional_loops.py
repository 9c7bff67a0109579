"""Loops that a condition ends: native code against NumPy, by hand and by the interpreter."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.interpret import interpret
from tessella.driver.build.compile_graph import compile_graph
from tessella.driver.options import make_options
from tessella.runtime.native_steps import NativeStep
from tessella.runtime.scan import Loop
from tests.lowering.test_threads import check_bits
from tests.native import GraphBuilder, normal

Array = npt.NDArray[Any]
Feeds = dict[str, Array]
SIZE = 5
LIMIT = np.array(40, np.float32)
CASES = [*itertools.product((100.0, 3.0, 0.5, 1e-3), (True, False))]
"""Where the state starts, and whether the loop does."""


def compare(g: GraphBuilder, calls: Sequence[Feeds], *results: SSAValue) -> list[list[Array]]:
    """Compare the program's results with the interpreter's, and check that it is one native
    segment."""
    graph = g.graph(*results)
    wanted = [interpret(Graph(graph.module.clone(), graph.weights), feeds) for feeds in calls]
    program = compile_graph(graph, make_options()).program
    assert [type(step) for step in program.steps] == [NativeStep]
    found = [program.run(list(feeds.values())) for feeds in calls]
    for feeds, ys, expected in zip(calls, found, wanted, strict=True):
        for y, each in zip(ys, expected, strict=True):
            assert (y.dtype, y.shape) == (each.dtype, each.shape)
            np.testing.assert_allclose(y, each, rtol=1e-5, err_msg=str(feeds))
    return found


def doubling(g: GraphBuilder, values: Sequence[SSAValue]) -> Sequence[SSAValue]:
    """Twice the state, until its sum is at the limit; and the state as it was."""
    _, state, *_ = values
    new = g.op(nn.AddOp, [state, state])
    total = g.op(nn.ReduceSumOp, [new], axes=(0,), keepdims=False)
    return [g.op(nn.LessOp, [total, g.weight(LIMIT)]), new]


def doubled(state: Array, steps: int = 1000, go: bool = True) -> tuple[Array, list[Array]]:
    rows: list[Array] = []
    while go and len(rows) < steps:
        rows.append(state)
        state = state + state
        go = state.sum() < LIMIT
    return state, rows


def started(start: float, go: bool) -> Feeds:
    return {"go": np.array(go), "h": np.full(SIZE, start, np.float32)}


def test_while() -> None:
    calls = [started(*case) for case in CASES]
    g = GraphBuilder(**calls[0])
    found = g.scan([*g.inputs.values()], Loop(2, 0, conditional=True), lambda v: doubling(g, v))
    for (start, go), (_, last) in zip(CASES, compare(g, calls, *found), strict=True):
        state = np.full(SIZE, start, np.float32)
        np.testing.assert_allclose(last, doubled(state, go=go)[0])


@pytest.mark.parametrize("backward", [(), (0,), (1,)])
def test_rows_that_no_step_writes_are_zeros(backward: tuple[int, ...]) -> None:
    xs = normal(6, SIZE)
    calls = [{**started(*case), "xs": xs} for case in CASES]
    g = GraphBuilder(**calls[0])

    def body(values: Sequence[SSAValue]) -> Sequence[SSAValue]:
        return [*doubling(g, values), g.op(nn.MulOp, values[1:3])]

    found = g.scan([*g.inputs.values()], Loop(2, 1, backward, conditional=True), body)
    for (start, go), (_, last, rows) in zip(CASES, compare(g, calls, *found), strict=True):
        state, states = doubled(np.full(SIZE, start, np.float32), len(xs), go)
        np.testing.assert_allclose(last, state)
        taken = xs[::-1] if 0 in backward else xs
        expected = np.zeros_like(xs)
        for i, (h, x) in enumerate(zip(states, taken, strict=False)):
            expected[i] = h * x
        np.testing.assert_allclose(rows, expected[::-1] if 1 in backward else expected, rtol=1e-5)


def nested(g: GraphBuilder, starts: SSAValue, total: SSAValue, go: SSAValue) -> SSAValue:
    """A loop with a condition in each step of a scan: the sum of what they give."""

    def step(values: Sequence[SSAValue]) -> Sequence[SSAValue]:
        total, start, go = values
        loop = Loop(2, 0, conditional=True)
        _, last = g.scan([go, start], loop, lambda inner: doubling(g, inner))
        return [g.op(nn.AddOp, [total, last])]

    return g.scan([total, starts, go], Loop(1, 1), step)[0]


@pytest.mark.parametrize("size", [SIZE, 300])
def test_a_loop_in_a_loop(size: int) -> None:
    feeds: Feeds = {
        "starts": np.arange(6, dtype=np.float32).reshape(6, 1) * np.ones(size, np.float32) / size,
        "total": np.ones(size, np.float32),
        "go": np.array(True),
    }
    feeds["starts"][0] = 100
    g = GraphBuilder(**feeds)
    ((found,),) = compare(g, [feeds], nested(g, *g.inputs.values()))
    expected = feeds["total"] + sum(doubled(start)[0] for start in feeds["starts"])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.usefixtures("divide_all")
def test_threads_see_the_same_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    size, steps = 400, 7
    xs = normal(steps, 4, size)
    g = GraphBuilder(go=np.array(True), h=xs[0], xs=xs)
    square = g.weight(normal(size, size) / 20)

    def body(values: Sequence[SSAValue]) -> Sequence[SSAValue]:
        _, state, x, weight = values
        product = g.op(nn.MatmulOp, [state, weight], transpose_b=False)
        new = g.op(nn.AddOp, [state, g.op(nn.AbsOp, [product])])
        total = g.op(nn.ReduceSumOp, [new], axes=(0, 1), keepdims=False)
        return [g.op(nn.LessOp, [total, g.weight(LIMIT)]), new, g.op(nn.MulOp, [new, x])]

    _, last, rows = g.scan([*g.inputs.values(), square], Loop(2, 1, conditional=True), body)
    graph = g.graph(g.op(nn.MatmulOp, [last, square], transpose_b=False), g.op(nn.NegOp, [rows]))
    program = compile_graph(graph, make_options()).program
    (step,) = program.steps
    assert isinstance(step, NativeStep)
    assert step.shared
    for start, go in itertools.product((1e-4, 3e-4, 100.0), (True, False)):
        state = np.full((4, size), start, np.float32)
        check_bits(program, [np.array(go), state, xs], monkeypatch)
