"""Elimination of identities: bit for bit the same results."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import f32, f64, i64
from xdsl.ir import Attribute, SSAValue

from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.interpret import interpret
from tessella.dialects.nn.checks import BOOL
from tessella.dialects.nn.core import NnOp, tensor
from tessella.dialects.sizes import declare_symbols
from tessella.passes.eliminate_identities import EliminateIdentitiesPass
from tessella.support.sizes import Size, Symbol
from tests.native import Array
from tests.passes.harness import GraphBuilder, apply, names, ops, sample

SPECIAL = np.array(
    [[0.0, -0.0, 1.5, -2.25], [np.inf, -np.inf, np.nan, 1e-42], [3.4e38, -1e-38, 7.0, 0.1]],
    np.float32,
)
INPUTS = {
    "x": SPECIAL, "y": sample(1, 3, 4), "row": sample(2, 4), "i": np.array([[-7, 0, 3, 2**62]]),
    "flag": np.array([[True, False, True, True]]), "deep": sample(3, 2, 3, 4),
    "d": SPECIAL.astype(np.float64), "empty": np.zeros((3, 0), np.float32),
}  # fmt: skip

Make = Callable[["Maker"], SSAValue | list[SSAValue]]


class Maker(GraphBuilder):
    """A builder with constants."""

    def splat(self, value: float, *shape: int, element: Attribute = f32) -> SSAValue:
        op = nn.SplatOp(value, tensor(element, shape))
        self.main.body.block.add_op(op)
        return op.res

    def __getattr__(self, name: str) -> SSAValue:
        return self.inputs[name]


def eliminate(make: Make, inputs: dict[str, Array] = INPUTS) -> Graph:
    """The program after the pass; asserts that it gives the same bits."""

    def graph() -> Graph:
        g = Maker(**inputs)
        made = make(g)
        return g.graph(*(made if isinstance(made, list) else [made]))

    after = apply(graph(), EliminateIdentitiesPass())
    for y, wanted in zip(interpret(after, inputs), interpret(graph(), inputs), strict=True):
        assert (y.dtype, y.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(y, wanted)
        if y.dtype.kind == "f":
            numbers = ~np.isnan(y)
            np.testing.assert_array_equal(np.signbit(y[numbers]), np.signbit(wanted[numbers]))
    return after


def pad(g: Maker, high: int) -> SSAValue:
    return g.op(nn.PadOp, [g.x], low=(0, 0), high=(0, high), mode="constant", value=1.0)


def slice_(g: Maker, x: SSAValue, *bounds: tuple[Size, Size, int]) -> SSAValue:
    starts, sizes, steps = zip(*bounds, strict=True)
    return g.op(nn.SliceOp, [x], starts=starts, sizes=sizes, steps=steps)


def twice(op: type[NnOp], **settings: Any) -> Callable[[Maker], SSAValue]:
    return lambda g: g.op(op, [g.op(op, [g.x], **settings)], **settings)


# What it is, the program, and the ops that are left.
CASES: dict[str, tuple[Make, list[str]]] = {
    # ** movement **
    "reshape to the same": (lambda g: g.op(nn.ReshapeOp, [g.x], shape=(3, 4)), []),
    "reshape": (lambda g: g.op(nn.ReshapeOp, [g.x], shape=(4, 3)), ["reshape"]),
    "reshape twice": (
        lambda g: g.op(nn.ReshapeOp, [g.op(nn.ReshapeOp, [g.x], shape=(12,))], shape=(2, 6)),
        ["reshape"],
    ),
    "reshape and back": (
        lambda g: g.op(nn.ReshapeOp, [g.op(nn.ReshapeOp, [g.x], shape=(12,))], shape=(3, 4)),
        [],
    ),
    "transpose nothing": (lambda g: g.op(nn.TransposeOp, [g.deep], perm=(0, 1, 2)), []),
    "transpose": (lambda g: g.op(nn.TransposeOp, [g.deep], perm=(0, 2, 1)), ["transpose"]),
    "transpose twice": (
        lambda g: g.op(
            nn.TransposeOp, [g.op(nn.TransposeOp, [g.deep], perm=(2, 0, 1))], perm=(0, 2, 1)
        ),
        ["transpose"],
    ),
    "transpose and back": (
        lambda g: g.op(
            nn.TransposeOp, [g.op(nn.TransposeOp, [g.deep], perm=(2, 0, 1))], perm=(1, 2, 0)
        ),
        [],
    ),
    "slice of everything": (lambda g: slice_(g, g.x, (0, 3, 1), (0, 4, 1)), []),
    "slice of a part": (lambda g: slice_(g, g.x, (0, 3, 1), (1, 3, 1)), ["slice"]),
    "slice backwards": (lambda g: slice_(g, g.x, (0, 3, 1), (3, 4, -1)), ["slice"]),
    "slice of one in large steps": (lambda g: slice_(g, g.i, (0, 1, 9), (0, 4, 1)), []),
    "pad by nothing": (lambda g: pad(g, 0), []),
    "pad": (lambda g: pad(g, 1), ["pad"]),
    "expand to the same": (lambda g: g.op(nn.ExpandOp, [g.x], shape=(3, 4)), []),
    "expand twice": (
        lambda g: g.op(nn.ExpandOp, [g.op(nn.ExpandOp, [g.row], shape=(3, 4))], shape=(2, 3, 4)),
        ["expand"],
    ),
    "tile once": (lambda g: g.op(nn.TileOp, [g.x], repeats=(1, 1)), []),
    "tile": (lambda g: g.op(nn.TileOp, [g.x], repeats=(1, 2)), ["tile"]),
    "concat of one": (lambda g: g.op(nn.ConcatOp, [g.x], axis=1), []),
    "concat of one and empty": (lambda g: g.op(nn.ConcatOp, [g.empty, g.x], axis=1), []),
    "concat of two and empty": (
        lambda g: g.op(nn.ConcatOp, [g.x, g.empty, g.y], axis=1), ["concat"],
    ),
    "concat of empty": (lambda g: g.op(nn.ConcatOp, [g.empty, g.empty], axis=1), []),
    "concat": (lambda g: g.op(nn.ConcatOp, [g.x, g.x], axis=1), ["concat"]),
    # ** arithmetic **
    "cast to the same": (lambda g: g.op(nn.CastOp, [g.x], to=f32), []),
    "cast": (lambda g: g.op(nn.CastOp, [g.x], to=f64), ["cast"]),
    "add minus zero": (lambda g: g.op(nn.AddOp, [g.x, g.splat(-0.0)]), []),
    "add minus zero, swapped": (lambda g: g.op(nn.AddOp, [g.splat(-0.0, 4), g.x]), []),
    "add zero": (lambda g: g.op(nn.AddOp, [g.x, g.splat(0.0)]), ["splat", "add"]),
    "add integer zero": (lambda g: g.op(nn.AddOp, [g.i, g.splat(0, element=i64)]), []),
    "add zero of a larger shape": (
        lambda g: g.op(nn.AddOp, [g.row, g.splat(-0.0, 3, 4)]), ["splat", "add"],
    ),
    "sub zero": (lambda g: g.op(nn.SubOp, [g.x, g.splat(0.0)]), []),
    "sub minus zero": (lambda g: g.op(nn.SubOp, [g.x, g.splat(-0.0)]), ["splat", "sub"]),
    "sub from zero": (lambda g: g.op(nn.SubOp, [g.splat(0.0), g.x]), ["splat", "sub"]),
    "mul by one": (lambda g: g.op(nn.MulOp, [g.x, g.splat(1.0, 1)]), []),
    "mul by one, swapped": (lambda g: g.op(nn.MulOp, [g.splat(1.0, 3, 1), g.x]), []),
    "mul by minus one": (lambda g: g.op(nn.MulOp, [g.x, g.splat(-1.0)]), ["splat", "mul"]),
    "mul by one of a larger shape": (
        lambda g: g.op(nn.MulOp, [g.x, g.splat(1.0, 2, 1, 1)]), ["splat", "mul"],
    ),
    "div by one": (lambda g: g.op(nn.DivOp, [g.x, g.splat(1.0)]), []),
    "div of one": (lambda g: g.op(nn.DivOp, [g.splat(1.0), g.x]), ["splat", "div"]),
    "div by 8": (lambda g: g.op(nn.DivOp, [g.x, g.splat(8.0)]), ["splat", "mul"]),
    "div by -1/4": (lambda g: g.op(nn.DivOp, [g.row, g.splat(-0.25, 3, 4)]), ["splat", "mul"]),
    "div by 3": (lambda g: g.op(nn.DivOp, [g.x, g.splat(3.0)]), ["splat", "div"]),
    "div by 2^126": (lambda g: g.op(nn.DivOp, [g.x, g.splat(2.0**126)]), ["splat", "mul"]),
    "div by 2^127": (lambda g: g.op(nn.DivOp, [g.x, g.splat(2.0**127)]), ["splat", "div"]),
    "div by 2^-127": (lambda g: g.op(nn.DivOp, [g.x, g.splat(2.0**-127)]), ["splat", "div"]),
    "div of f64 by 2^127": (
        lambda g: g.op(nn.DivOp, [g.d, g.splat(2.0**127, element=f64)]), ["splat", "mul"],
    ),
    "div by zero": (lambda g: g.op(nn.DivOp, [g.x, g.splat(0.0)]), ["splat", "div"]),
    "div by infinity": (lambda g: g.op(nn.DivOp, [g.x, g.splat(math.inf)]), ["splat", "div"]),
    "div by NaN": (lambda g: g.op(nn.DivOp, [g.x, g.splat(math.nan)]), ["splat", "div"]),
    "div of integers by 2": (
        lambda g: g.op(nn.DivOp, [g.i, g.splat(2, element=i64)]), ["splat", "div"],
    ),
    "pow 1": (lambda g: g.op(nn.PowOp, [g.x, g.splat(1.0)]), []),
    "pow 2": (lambda g: g.op(nn.PowOp, [g.x, g.splat(2.0)]), ["mul"]),
    "pow 2 of integers": (lambda g: g.op(nn.PowOp, [g.i, g.splat(2, element=i64)]), ["mul"]),
    "pow 2 of a larger shape": (
        lambda g: g.op(nn.PowOp, [g.row, g.splat(2.0, 3, 4)]), ["splat", "pow"],
    ),
    "pow 3": (lambda g: g.op(nn.PowOp, [g.y, g.splat(3.0)]), ["splat", "pow"]),
    "2 pow x": (lambda g: g.op(nn.PowOp, [g.splat(2.0), g.y]), ["splat", "pow"]),
    "clip to everything": (lambda g: g.op(nn.ClipOp, [g.x], low=-math.inf, high=math.inf), []),
    "clip": (lambda g: g.op(nn.ClipOp, [g.x], low=0.0, high=math.inf), ["clip"]),
    **{f"{op.name} twice": (twice(op), [op.name[3:]]) for op in (
        nn.ReluOp, nn.AbsOp, nn.SignOp, nn.FloorOp, nn.CeilOp, nn.RoundOp,
    )},
    "sigmoid twice": (twice(nn.SigmoidOp), ["sigmoid", "sigmoid"]),
    "neg twice": (twice(nn.NegOp), []),
    "neg thrice": (lambda g: g.op(nn.NegOp, [twice(nn.NegOp)(g)]), ["neg"]),
    # ** booleans **
    "not twice": (lambda g: g.op(nn.NotOp, [g.op(nn.NotOp, [g.flag])]), []),
    "and true": (lambda g: g.op(nn.AndOp, [g.flag, g.splat(1, element=BOOL)]), []),
    "true and": (lambda g: g.op(nn.AndOp, [g.splat(1, element=BOOL), g.flag]), []),
    "and false": (
        lambda g: g.op(nn.AndOp, [g.flag, g.splat(0, element=BOOL)]), ["splat", "and"],
    ),
    "or false": (lambda g: g.op(nn.OrOp, [g.flag, g.splat(0, element=BOOL)]), []),
    "false or": (lambda g: g.op(nn.OrOp, [g.splat(0, element=BOOL), g.flag]), []),
    "or true": (
        lambda g: g.op(nn.OrOp, [g.flag, g.splat(1, element=BOOL)]), ["splat", "or"],
    ),
    "where true": (
        lambda g: g.op(nn.WhereOp, [g.splat(1, 4, element=BOOL), g.x, g.y]), [],
    ),
    "where false": (
        lambda g: g.op(nn.WhereOp, [g.splat(0, 4, element=BOOL), g.x, g.row]), ["expand"],
    ),
    "where both are the same": (lambda g: g.op(nn.WhereOp, [g.flag, g.x, g.x]), []),
    "where": (lambda g: g.op(nn.WhereOp, [g.flag, g.x, g.y]), ["where"]),
    # ** broadcasting **
    "expanded operand": (
        lambda g: g.op(nn.AddOp, [g.x, g.op(nn.ExpandOp, [g.row], shape=(3, 4))]), ["add"],
    ),
    "two expanded operands": (
        lambda g: g.op(nn.AddOp, [g.op(nn.ExpandOp, [g.row], shape=(3, 4)) for _ in range(2)]),
        ["expand", "add"],
    ),
    "expanded operand that gives the shape": (
        lambda g: g.op(nn.NegOp, [g.op(nn.ExpandOp, [g.row], shape=(3, 4))]), ["expand", "neg"],
    ),
    # ** sharing **
    "equal ops": (lambda g: [g.op(nn.ExpOp, [g.y], node=n) for n in ("a", "b")], ["exp"]),
    "ops of other operands": (lambda g: [g.op(nn.ExpOp, [v]) for v in (g.x, g.y)], ["exp", "exp"]),
    "ops with other properties": (
        lambda g: [g.op(nn.OPS["elu"], [g.y], alpha=v) for v in (0.0, -0.0)], ["elu", "elu"],
    ),
    "equal constants": (lambda g: [g.splat(v) for v in (0.5, 0.5, 0.25)], ["splat", "splat"]),
    "zeros of two signs": (lambda g: [g.splat(v) for v in (0.0, -0.0)], ["splat", "splat"]),
    "splats of two shapes": (lambda g: [g.splat(1.0, n) for n in (2, 3)], ["splat", "splat"]),
    "splats of two types": (lambda g: [g.splat(1, element=e) for e in (f32, i64)], ["splat"] * 2),
    "equal chains": (
        lambda g: [g.op(nn.ExpOp, [g.op(nn.AddOp, [g.x, g.y])]) for _ in range(2)], ["add", "exp"],
    ),
    "sharing that shows an identity": (
        lambda g: g.op(nn.WhereOp, [g.flag, *(g.op(nn.ExpOp, [g.y]) for _ in range(2))]), ["exp"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    make, left = CASES[name]
    assert names(eliminate(make)) == left


def test_nan_after_softmax_is_kept_zero() -> None:
    """A row of -inf alone gives NaN, whatever comes of it otherwise."""
    scores = np.array([[-np.inf, -np.inf], [0.0, 1.0]], np.float32)

    def make(g: Maker) -> SSAValue:
        p = g.op(nn.SoftmaxOp, [g.scores], axis=1)
        return g.op(nn.WhereOp, [g.op(nn.IsNanOp, [p]), g.splat(0.0), p])

    graph = eliminate(make, {"scores": scores})
    assert names(graph) == ["softmax", "is_nan", "splat", "where"]


def test_dead_ops_are_dropped_with_what_they_read() -> None:
    def make(g: Maker) -> SSAValue:
        g.op(nn.ExpOp, [g.op(nn.AddOp, [g.x, g.weight(sample(0, 4))])])
        top = nn.TopkOp.make([g.y], k=1, axis=1, largest=True)
        g.main.body.block.add_op(top)
        return top.indices

    assert names(eliminate(make)) == ["topk"]


def test_names_stay() -> None:
    def make(g: Maker) -> SSAValue:
        squared = g.op(nn.PowOp, [g.y, g.splat(2.0)], node="square")
        divided = g.op(nn.DivOp, [squared, g.splat(4.0)], node="quarter")
        return g.op(
            nn.ReshapeOp, [g.op(nn.ReshapeOp, [divided], shape=(12,))], shape=(2, 6), node="view"
        )

    graph = eliminate(make)
    assert [op.node for op in ops(graph)] == ["square", "nn.splat", "quarter", "view"]


def test_long_chains_take_one_pass() -> None:
    def make(g: Maker) -> SSAValue:
        value = g.y
        for i in range(500):
            value = g.op(nn.ReshapeOp, [value], shape=((12,), (3, 4))[i % 2])
            value = g.op(nn.NegOp, [value])
            value = g.op(nn.MulOp, [value, g.splat(1.0)])
            value = g.op(nn.NegOp, [value])
        return value

    assert names(eliminate(make)) == []


def test_a_slice_of_an_open_size_backwards() -> None:
    """It may have more than one row."""
    n = Symbol("n", 2, 9)
    g = Maker(x=tensor(f32, (n.size - 1, 4)))
    graph = g.graph(slice_(g, g.x, (n.size - 2, n.size - 1, -1), (0, 4, 1)))
    declare_symbols(graph.module, [n])
    assert names(apply(graph, EliminateIdentitiesPass())) == ["slice"]
