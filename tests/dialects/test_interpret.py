"""The interpreter of programs: order, names, places, groups, and what it frees."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import test as test_dialect
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Block, Operation, Region, SSAValue

from tessella.dialects import interpret as interpreter
from tessella.dialects import nn
from tessella.dialects.graph import Graph, finish_main, make_main
from tessella.dialects.interpret import interpret
from tessella.dialects.layout import NCHW, NHWC, Layout, Piece, pack
from tessella.dialects.nn.core import Tensor, tensor
from tessella.dialects.place import CastOp, PlaceAttr, RelayoutOp, placed
from tessella.runtime.weights import WeightStore
from tessella.support.errors import InputError, InternalError
from tests.dialects.oracle import Array, sample

X = tensor(f32, (2, 3))


class Program:
    """A graph under construction."""

    def __init__(self, **inputs: Tensor) -> None:
        self.func = make_main(list(inputs), list(inputs.values()))
        self.weights = WeightStore()
        self.args = self.func.body.block.args

    def add(self, op: Operation) -> SSAValue:
        """Append an op; its first result."""
        self.func.body.block.add_op(op)
        return op.results[0]

    def finish(self, **outputs: SSAValue) -> Graph:
        """The graph that returns these values."""
        finish_main(self.func, list(outputs), list(outputs.values()))
        module = ModuleOp([self.func])
        module.verify()
        return Graph(module, self.weights)


def test_a_program_with_weights_and_two_outputs() -> None:
    w = sample(0, (3, 4))
    program = Program(x=X, y=X)
    x, y = program.args
    total = program.add(nn.AddOp.make([x, y]))
    symbol = program.weights.add("w", w)
    weight = program.add(nn.WeightOp(symbol, tensor(f32, (3, 4))))
    half = program.add(nn.SplatOp(0.5, tensor(f32, (4,))))
    product = program.add(nn.FcOp.make([total, weight, half], transpose_w=False))
    graph = program.finish(total=total, product=product)
    a, b = sample(1, (2, 3)), sample(2, (2, 3))
    # by name, in whatever order
    found = interpret(graph, {"y": b, "x": a})
    np.testing.assert_array_equal(found[0], a + b)
    np.testing.assert_allclose(found[1], (a + b) @ w + np.float32(0.5), rtol=1e-6)


def test_inputs_and_one_value_twice_as_outputs() -> None:
    program = Program(x=X)
    (x,) = program.args
    doubled = program.add(nn.AddOp.make([x, x]))
    a = sample(0, (2, 3))
    found = interpret(program.finish(a=x, b=doubled, c=doubled), {"x": a})
    assert [y.tolist() for y in found] == [a.tolist(), (a + a).tolist(), (a + a).tolist()]


def test_several_results() -> None:
    program = Program(x=X)
    top = nn.TopkOp.make([program.args[0]], k=1, axis=1, largest=True)
    program.add(top)
    graph = program.finish(where=top.indices)
    assert interpret(graph, {"x": np.array([[1, 3, 2], [6, 5, 4]], np.float32)})[0].tolist() == [
        [1],
        [0],
    ]


@pytest.mark.parametrize(
    "inputs, message",
    [
        ({}, "wrong inputs"),
        ({"x": np.zeros((2, 3), np.float32), "z": np.zeros(1)}, "wrong inputs"),
        ({"x": np.zeros((3, 2), np.float32)}, r"'x'\n.*\(2, 3\)"),
        ({"x": np.zeros((2, 3))}, r"'x'\n.*float32"),
    ],
)
def test_wrong_inputs(inputs: dict[str, Array], message: str) -> None:
    program = Program(x=X)
    with pytest.raises(InputError, match=message):
        interpret(program.finish(y=program.args[0]), inputs)


PACKED = Layout("packed", (Piece(0, div=4), Piece(1), Piece(0, mod=4)))


@pytest.mark.parametrize("layout", [NCHW, NHWC, PACKED], ids=str)
def test_weights_are_read_in_the_memory_order_of_their_place(layout: Layout) -> None:
    w = sample(0, (6, 5, 3) if layout == NHWC else (6, 5))
    program = Program()
    symbol = program.weights.add("w", pack(w, layout))
    place = PlaceAttr.get("x86", "f32", layout)
    weight = program.add(nn.WeightOp(symbol, placed(tensor(f32, w.shape), place)))
    found = interpret(program.finish(y=weight), {})
    np.testing.assert_array_equal(found[0], w)


def test_a_missing_weight() -> None:
    program = Program()
    weight = program.add(nn.WeightOp("w", X))
    with pytest.raises(InternalError, match="@w"):
        interpret(program.finish(y=weight), {})


def test_conversions_change_precision_alone() -> None:
    place = PlaceAttr.get("x86", "f32", NCHW)
    program = Program(x=placed(tensor(f32, (1, 2, 3)), place))
    moved = program.add(RelayoutOp(program.args[0], PlaceAttr.get("x86", "f32", NHWC)))
    half = program.add(CastOp(moved, PlaceAttr.get("x86", "f16", NHWC)))
    x = sample(0, (1, 2, 3))
    found = interpret(program.finish(moved=moved, half=half), {"x": x})
    np.testing.assert_array_equal(found[0], x)
    np.testing.assert_array_equal(found[1], x.astype(np.float16).astype(np.float32))


def test_groups() -> None:
    program = Program(x=X, y=X)
    body = Block(arg_types=[X, X])
    added = nn.AddOp.make(body.args)
    relu = nn.ReluOp.make([added])
    body.add_ops([added, relu, nn.YieldOp([relu.res, added.res])])
    group = nn.FusedOp(program.args, [X, X], Region(body))
    program.add(group)
    graph = program.finish(a=group.res[0], b=group.res[1])
    a, b = sample(0, (2, 3)), sample(1, (2, 3))
    found = interpret(graph, {"x": a, "y": b})
    np.testing.assert_array_equal(found[0], np.maximum(a + b, 0))
    np.testing.assert_array_equal(found[1], a + b)


def test_an_op_that_has_no_meaning_here() -> None:
    program = Program(x=X)
    unknown = program.add(test_dialect.TestOp([program.args[0]], [X]))
    with pytest.raises(InternalError, match=r"test\.op"):
        interpret(program.finish(y=unknown), {"x": sample(0, (2, 3))})


def test_a_kernel_whose_result_is_not_the_inferred_one(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(x=X)
    graph = program.finish(y=program.add(nn.ReluOp.make([program.args[0]])))

    def wrong(op: nn.NnOp, *arrays: Any) -> list[Array]:
        return [np.zeros((2, 3))]

    monkeypatch.setattr(nn.ReluOp, "evaluate", wrong)
    with pytest.raises(InternalError, match=r"(?s)nn\.relu.*float32.*float64"):
        interpret(graph, {"x": sample(0, (2, 3))})


def test_values_die_after_their_last_use(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(x=X)
    value: SSAValue = program.args[0]
    for _ in range(20):
        value = program.add(nn.NegOp.make([value]))
    program.add(nn.NegOp.make([value]))  # without a use
    graph = program.finish(y=value)
    alive: list[weakref.ref[Array]] = []
    most = 0
    run = interpreter.Interpreter.op

    def counted(*args: Any) -> list[Array]:
        nonlocal most
        results = run(*args)
        alive.extend(map(weakref.ref, results))
        gc.collect(1)
        most = max(most, sum(ref() is not None for ref in alive))
        return results

    monkeypatch.setattr(interpreter.Interpreter, "op", counted)
    interpret(graph, {"x": sample(0, (2, 3))})
    assert most <= 2
