"""The engine of the patterns, with patterns made for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.passes import fuse_patterns, patterns
from tessella.passes.base import CONSUMED, PATTERN
from tessella.passes.fuse_patterns import FusePatternsPass
from tessella.passes.patterns.nodes import AnyValue, Number, Op, Product, either, op
from tessella.passes.patterns.pattern import Match, Pattern, becomes
from tessella.support.errors import OptionError
from tests.native import Array, known_shape
from tests.passes.harness import GraphBuilder, apply, names, ops, sample

INPUTS = {"x": sample(0, 2, 3), "y": sample(1, 2, 3)}
Make = Callable[[GraphBuilder], Sequence[SSAValue]]
x = AnyValue("x")


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> list[Pattern]:
    """The patterns, of which there are none at first."""
    empty: list[Pattern] = []
    monkeypatch.setattr(fuse_patterns, "PATTERNS", empty)
    monkeypatch.setattr(patterns, "PATTERNS", empty)
    return empty


def fuse(make: Make, *found: Pattern) -> Graph:
    """The program after these patterns."""
    patterns.register(*found)
    g = GraphBuilder(**INPUTS)
    return apply(g.graph(*make(g)), FusePatternsPass())


def unary(*kinds: type[nn.NnOp]) -> Make:
    """A chain of ops on x, the first one first."""

    def make(g: GraphBuilder) -> list[SSAValue]:
        value = g.inputs["x"]
        for kind in kinds:
            value = g.op(kind, [value])
        return [value]

    return make


def chain(*kinds: type[nn.NnOp]) -> Op:
    """The pattern of such a chain."""
    node: Op | AnyValue = x
    for kind in kinds:
        node = op(kind, node)
    assert isinstance(node, Op)
    return node


def constant(g: GraphBuilder, number: float) -> SSAValue:
    """A weight of one element."""
    return g.weight(np.asarray(number, np.float32), f"c{number}")


EXP_NEG = Pattern("exp-neg", chain(nn.NegOp, nn.ExpOp), becomes(nn.SigmoidOp, "x"))


def test_largest_first() -> None:
    larger = Pattern("larger", chain(nn.AbsOp, nn.NegOp, nn.ExpOp), becomes(nn.TanhOp, "x"))
    assert names(fuse(unary(nn.AbsOp, nn.NegOp, nn.ExpOp), larger, EXP_NEG)) == ["tanh"]


def test_from_the_end() -> None:
    outer = Pattern("outer", chain(nn.NegOp, nn.NegOp), becomes(nn.AbsOp, "x"))
    assert names(fuse(unary(nn.NegOp, nn.NegOp, nn.NegOp), outer)) == ["neg", "abs"]


def test_what_one_pattern_makes_is_seen_by_others() -> None:
    outer = Pattern("outer", chain(nn.SigmoidOp, nn.AbsOp), becomes(nn.TanhOp, "x"))
    graph = fuse(unary(nn.NegOp, nn.ExpOp, nn.AbsOp), outer, EXP_NEG)
    assert names(graph) == ["tanh"]
    [tanh] = ops(graph)
    assert tanh.attributes[PATTERN].data == "outer"
    assert [s.data for s in tanh.attributes[CONSUMED]] == ["nn.neg", "nn.exp", "nn.abs"]


def test_a_pattern_that_undoes_another_comes_to_an_end() -> None:
    there = Pattern("there", op(nn.OPS["sin"], x), becomes(nn.OPS["cos"], "x"))
    back = Pattern("back", op(nn.OPS["cos"], x), becomes(nn.OPS["sin"], "x"))
    assert len(names(fuse(unary(nn.OPS["sin"]), there, back))) == 1


def test_a_rewrite_that_declines_leaves_nothing_behind() -> None:
    def decline(m: Match) -> None:
        m.make(nn.TanhOp, m["x"])

    graph = fuse(unary(nn.NegOp), Pattern("declines", op(nn.NegOp, x), decline))
    assert names(graph) == ["neg"]
    assert len(list(graph.module.walk())) == 4  # module, function, op, return


def test_a_result_of_another_type_does_not_count() -> None:
    whole = Pattern("whole", op(nn.NegOp, x), lambda m: m.make(nn.ReshapeOp, m["x"], shape=(6,)))
    assert names(fuse(unary(nn.NegOp), whole)) == ["neg"]


def pairs(g: GraphBuilder) -> list[SSAValue]:
    """x - y, -y + x, x + x."""
    a, b = g.inputs["x"], g.inputs["y"]
    sub, add = nn.SubOp, nn.AddOp
    return [g.op(sub, [a, b]), g.op(add, [g.op(nn.NegOp, [b]), a]), g.op(add, [a, a])]


def test_operands_of_a_commutative_op_come_in_any_order() -> None:
    swapped = Pattern(
        "minus", op(nn.AddOp, x, op(nn.NegOp, AnyValue("y"))), becomes(nn.SubOp, "x", "y")
    )
    assert names(fuse(pairs, swapped)) == ["sub", "sub", "add"]


def test_operands_of_others_do_not() -> None:
    reverse = op(nn.SubOp, op(nn.NegOp, x), AnyValue("y"))

    def make(g: GraphBuilder) -> list[SSAValue]:
        return [g.op(nn.SubOp, [g.inputs["x"], g.op(nn.NegOp, [g.inputs["y"]])])]

    assert names(fuse(make, Pattern("p", reverse, becomes(nn.AddOp, "x", "y")))) == ["neg", "sub"]


def test_the_same_name_is_the_same_value() -> None:
    twice = Pattern("twice", op(nn.AddOp, x, x), becomes(nn.AbsOp, "x"))
    assert names(fuse(pairs, twice)) == ["sub", "neg", "add", "abs"]


def test_the_same_node_is_the_same_value() -> None:
    exp = op(nn.ExpOp, x)
    twice = Pattern("twice", op(nn.MulOp, exp, exp), becomes(nn.AbsOp, "x"))

    def one(g: GraphBuilder) -> list[SSAValue]:
        e = g.op(nn.ExpOp, [g.inputs["x"]])
        return [g.op(nn.MulOp, [e, e])]

    def two(g: GraphBuilder) -> list[SSAValue]:
        e, f = (g.op(nn.ExpOp, [g.inputs["x"]]) for _ in range(2))
        return [g.op(nn.MulOp, [e, f])]

    assert names(fuse(one, twice)) == ["abs"]
    assert names(fuse(two)) == ["exp", "exp", "mul"]


def test_an_optional_part() -> None:
    negated = op(nn.NegOp, x, name="neg")
    pattern = Pattern(
        "maybe", op(nn.ExpOp, either(negated, x)),
        lambda m: m.make(nn.OPS["sin"] if m.get("neg") is None else nn.OPS["cos"], m["x"]),
    )  # fmt: skip
    assert names(fuse(unary(nn.NegOp, nn.ExpOp), pattern)) == ["cos"]
    assert names(fuse(unary(nn.AbsOp, nn.ExpOp))) == ["abs", "sin"]


def test_predicates() -> None:
    wide = AnyValue("x", where=lambda value: known_shape(value)[1] > 3)
    clip = op(nn.ClipOp, x, where=lambda clip: clip.settings["low"] == 0)
    low = Pattern("low", clip, becomes(nn.ReluOp, "x"))
    never = Pattern("wide", op(nn.NegOp, wide), becomes(nn.AbsOp, "x"))

    def make(g: GraphBuilder) -> list[SSAValue]:
        a = g.op(nn.NegOp, [g.inputs["x"]])
        return [g.op(nn.ClipOp, [a], low=low, high=1.0) for low in (0.0, -1.0)]

    assert names(fuse(make, low, never)) == ["neg", "relu", "clip"]


@pytest.mark.parametrize("shared", [False, True])
def test_values_that_others_read(shared: bool) -> None:
    """A shared one stays where others read it, and goes where nobody does."""
    root = op(nn.ExpOp, op(nn.NegOp, x, shared=shared))
    pattern = Pattern("p", root, becomes(nn.SigmoidOp, "x"))

    def make(g: GraphBuilder) -> list[SSAValue]:
        a, b = (g.op(nn.NegOp, [g.inputs[name]]) for name in ("x", "y"))
        return [g.op(nn.ExpOp, [a]), a, g.op(nn.ExpOp, [b])]

    rest = ["sigmoid"] if shared else ["exp"]
    assert names(fuse(make, pattern)) == ["neg", *rest, "sigmoid"]


def test_a_free_operand_is_nothing_that_the_match_consumes() -> None:
    pattern = Pattern(
        "minus", op(nn.AddOp, op(nn.NegOp, x), AnyValue("y")), becomes(nn.SubOp, "y", "x")
    )

    def make(g: GraphBuilder) -> list[SSAValue]:
        a, b = (g.op(nn.NegOp, [g.inputs[name]]) for name in ("x", "y"))
        return [g.op(nn.AddOp, [a, a]), g.op(nn.AddOp, [b, g.inputs["x"]])]

    assert names(fuse(make, pattern)) == ["neg", "add", "sub"]


def test_another_way_to_match_is_taken() -> None:
    """-x + -y, where x is consumed in one order alone."""
    neg = op(nn.NegOp, AnyValue("x"), name="neg")
    pattern = Pattern("minus", op(nn.AddOp, AnyValue("y"), neg), becomes(nn.SubOp, "y", "x"))

    def make(g: GraphBuilder) -> list[SSAValue]:
        a, b = (g.op(nn.NegOp, [g.inputs[name]]) for name in ("x", "y"))
        return [g.op(nn.AddOp, [a, b]), b]

    assert names(fuse(make, pattern)) == ["neg", "sub"]


@pytest.mark.parametrize("read", ["neg", "root"])
def test_a_rewrite_reads_nothing_that_goes(read: str) -> None:
    root = op(nn.ExpOp, op(nn.NegOp, x, name="neg"), name="root")
    pattern = Pattern("p", root, lambda m: m.make(nn.TanhOp, m[read]))
    assert names(fuse(unary(nn.NegOp, nn.ExpOp), pattern)) == ["neg", "exp"]


def test_what_is_shared_and_read_by_the_new_op_stays() -> None:
    exp = op(nn.ExpOp, x, shared=True)
    pattern = Pattern("p", op(nn.AddOp, exp, AnyValue("y")), becomes(nn.SubOp, "y", "x"))

    def make(g: GraphBuilder) -> list[SSAValue]:
        e = g.op(nn.ExpOp, [g.inputs["x"]])
        return [g.op(nn.AddOp, [e, e])]

    graph = fuse(make, pattern)
    assert names(graph) == ["exp", "sub"]
    assert [s.data for s in ops(graph)[-1].attributes[CONSUMED]] == ["nn.add"]


@pytest.mark.parametrize(
    "array, matches",
    [
        (np.float32(0.1), True),
        (np.full((2, 1), 0.1, np.float32), True),
        (np.nextafter(np.float32(0.1), np.float32(1)), True),
        (np.float32(0.10001), False),
        (np.array([[0.1], [0.2]], np.float32), False),
    ],
)
def test_constants_in_the_weight_store(array: Array, matches: bool) -> None:
    pattern = Pattern("tenth", op(nn.AddOp, x, 0.1), becomes(nn.AbsOp, "x"))
    graph = fuse(lambda g: [g.op(nn.AddOp, [g.weight(np.asarray(array)), g.inputs["x"]])], pattern)
    assert names(graph) == (["weight", "abs"] if matches else ["weight", "add"])


def test_a_number_by_its_name() -> None:
    def same(m: Match) -> nn.NnOp:
        return m.make(nn.LeakyReluOp, m["x"], alpha=m.number("n"))

    n = Number(name="n")
    pattern = Pattern("p", op(nn.AddOp, op(nn.AddOp, x, n), n), same)

    def make(g: GraphBuilder) -> list[SSAValue]:
        a, b = (constant(g, v) for v in (0.25, 0.5))
        twice = g.op(nn.AddOp, [g.op(nn.AddOp, [g.inputs["x"], a]), a])
        other = g.op(nn.AddOp, [g.op(nn.AddOp, [g.inputs["y"], a]), b])
        return [twice, other]

    graph = fuse(make, pattern)
    assert names(graph) == ["weight", "weight", "leaky_relu", "add", "add"]
    assert ops(graph)[2].settings == {"alpha": 0.25}


def products(g: GraphBuilder) -> list[SSAValue]:
    """Ways to write x^2 / exp y, times 3, 3 and 2/3."""
    a, e = g.inputs["x"], g.op(nn.ExpOp, [g.inputs["y"]])
    three, two = constant(g, 3), constant(g, 2)
    half = constant(g, 0.5)
    mul, div = nn.MulOp, nn.DivOp
    square = g.op(nn.PowOp, [a, two])
    first = g.op(div, [g.op(mul, [three, square]), e])
    second = g.op(mul, [g.op(mul, [a, g.op(nn.ReciprocalOp, [e])]), g.op(mul, [a, three])])
    third = g.op(div, [g.op(mul, [a, g.op(div, [a, half])]), g.op(mul, [e, three])])
    return [first, second, third]


def test_products() -> None:
    pattern = Pattern(
        "p", Product((x, x), (AnyValue("e"),), scale="n"), becomes(nn.MinOp, "x", "e")
    )
    graph = fuse(products, pattern)
    assert [n for n in names(graph) if n != "weight"] == ["exp", "min", "min", "min"]


@pytest.mark.parametrize("scale, count", [(3, 2), (2 / 3, 1), (2.9999, 0), (2, 0)])
def test_products_of_one_number(scale: float, count: int) -> None:
    root = Product((x, x), (op(nn.ExpOp, AnyValue("e"), shared=True),), scale=scale)
    graph = fuse(products, Pattern("p", root, becomes(nn.MinOp, "x", "e")))
    assert names(graph).count("min") == count


def test_a_product_that_is_read_is_one_factor() -> None:
    pattern = Pattern("p", Product((x, AnyValue("z"))), becomes(nn.MinOp, "x", "z"))

    def make(g: GraphBuilder) -> list[SSAValue]:
        a, b = g.inputs["x"], g.inputs["y"]
        inner = g.op(nn.MulOp, [a, b])
        return [g.op(nn.MulOp, [inner, b]), inner]

    assert names(fuse(make, pattern)) == ["min", "min"]


def test_unknown_names_are_errors() -> None:
    with pytest.raises(OptionError, match="unknown pattern 'gleu'"):
        apply(GraphBuilder(**INPUTS).graph(), FusePatternsPass(only=("gleu",)))


def test_only_some() -> None:
    patterns.register(EXP_NEG, Pattern("abs", op(nn.AbsOp, x), becomes(nn.TanhOp, "x")))
    g = GraphBuilder(**INPUTS)
    graph = g.graph(*unary(nn.NegOp, nn.ExpOp, nn.AbsOp)(g))
    assert names(apply(graph, FusePatternsPass(only=("abs",)))) == ["neg", "exp", "tanh"]
