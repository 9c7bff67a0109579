"""Random programs that spell out a pattern, made from its expression, with operands used again.

A value of the pattern is an input or any value that is there already: what the match is about to
consume, too. Ops with properties have a row in ``SETTINGS``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from random import Random

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue
from xdsl.traits import Commutative

from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.nn.core import NnOp, PyValue, dtype_of
from tessella.dialects.nn.normalization import ChannelNormOp
from tessella.passes.patterns.nodes import AnyValue, Either, Node, Number, Op, Product, Triangle
from tessella.support.errors import ShapeError
from tests.generators.choices import Choices
from tests.native import Array, GraphBuilder, known_shape

Shapes = Sequence[tuple[int, ...]]
Settings = Callable[[Random, Shapes], Mapping[str, PyValue]]

REUSE = 0.7
"""How often a value of a pattern is one that is there already."""
TRIES = 6
"""For each op: its properties are drawn until they suit the operands and the pattern."""


HIDDEN = -1e30
"""A number that hides a score."""


class Unsuited(Exception):  # noqa: N818 (no error)
    """The values that were drawn suit no op of the pattern."""


def inputs(random: Random, dtype: npt.DTypeLike) -> dict[str, Array]:
    """Arrays whose shapes broadcast and multiply with each other."""
    n = random.choice((1, 2, 4))
    batch = random.choice([(1, n, n), (1, 2, 2)])
    batches = [(2, n, n), (1, 1, n, n)] if random.random() < 0.5 else []
    shapes = [(n, n), (n, n), (1, n), (n, 1), (n,), (), batch, *batches]
    return {f"x{i}": _array(random, shape, dtype) for i, shape in enumerate(shapes)}


def _array(random: Random, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    return np.asarray(Choices(random).generator().standard_normal(shape), dtype)


def spelled(random: Random, arrays: Mapping[str, Array], *patterns: Sequence[Node]) -> Graph:
    """A program that computes the roots of patterns, one after the other. Raises Unsuited if there
    is no such program.

    Some of its inputs are weights, too.
    """
    g = GraphBuilder(**arrays)
    parameters = [_array(random, a.shape, a.dtype) for a in list(arrays.values())[1:7]]
    values = [*map(g.weight, parameters), *g.inputs.values()]
    given = len(values)
    spellers = [(_Speller(g, random, values), roots) for roots in patterns]
    roots = [speller.spell(root) for speller, nodes in spellers for root in nodes]
    # what lies inside a match has other readers in every third program
    read = random.choices(values[given:] or values, k=random.choice((0, 0, 1)))
    return g.graph(*roots, *read)


class _Speller:
    """Spells one expression: a node that occurs in it twice is one value."""

    def __init__(self, g: GraphBuilder, random: Random, values: list[SSAValue]) -> None:
        self.g = g
        self.random = random
        self.values = values
        self.given = len(values)
        self.spelled: dict[Node, SSAValue] = {}

    def spell(self, node: Node) -> SSAValue:
        if node not in self.spelled:
            self.spelled[node] = self._unknown(node)
        return self.spelled[node]

    def _unknown(self, node: Node) -> SSAValue:
        match node:
            case AnyValue():
                return self._value(node)
            case Number():
                return self._number(self._chosen(node) if node.value is None else node.value)
            case Triangle():
                return self._triangle(node)
            case Op():
                return self._op(node)
            case Product():
                return self._product(node)
            case Either():
                return self.spell(self.random.choice(node.options))

    def _value(self, node: AnyValue) -> SSAValue:
        fresh = self.random.random() > REUSE
        known = self.values[: self.given] if fresh else self.values
        suited = [value for value in known if node.where(value)]
        if not suited:
            raise Unsuited
        latest = suited[-2:]
        return self.random.choice(latest if self.random.random() < 0.3 else suited)

    def _any_number(self) -> float:
        return self.random.choice((0.25, 0.5, 2.0))

    def _chosen(self, node: Number) -> float:
        """A number that suits a pattern, or is far below all others."""
        number = self._any_number()
        return number if node.where(number, self.values[0]) else HIDDEN

    def _triangle(self, node: Triangle) -> SSAValue:
        """A matrix as large as an input's: of booleans where the pattern has 1 below."""
        size = known_shape(self.values[0])[-1]
        below = np.tri(size, size, self.random.randrange(2), dtype=np.bool_)
        if node.below:
            return self.g.weight(below, "c")
        hidden = np.where(below, node.below, self.random.choice((HIDDEN, -np.inf)))
        return self.g.weight(hidden.astype(dtype_of(self.values[0].type)), "c")

    def _number(self, number: float, *shapes: tuple[int, ...]) -> SSAValue:
        dtype = dtype_of(self.values[0].type)
        return self.g.weight(np.full(self.random.choice(shapes or ((), (1,))), number, dtype), "c")

    def _op(self, node: Op) -> SSAValue:
        for part in self.random.sample(node.operands, len(node.operands)):
            self.spell(part)
        kind = self.random.choice(node.kinds)
        operands = [self.spell(part) for part in node.operands]
        if issubclass(kind, ChannelNormOp):
            channels = known_shape(operands[0])[1:2]
            operands = [
                self._number(part.value, channels)
                if isinstance(part, Number) and part.value is not None
                else value
                for part, value in zip(node.operands, operands, strict=True)
            ]
        if kind in PARAMETERS:
            operands = self._with_parameters(kind, operands)
        if kind.has_trait(Commutative) and self.random.random() < 0.5:
            operands.reverse()
        return self._made(kind, operands, node.where)

    def _with_parameters(self, kind: type[NnOp], operands: list[SSAValue]) -> list[SSAValue]:
        """The operands, with weights for those of the wrong shape."""
        first, *others = operands
        if len(known_shape(first)) < 3:
            raise Unsuited
        dtype = dtype_of(first.type)
        shapes = PARAMETERS[kind](known_shape(first))
        return [
            first,
            *(
                x if known_shape(x) == shape else self.g.weight(_array(self.random, shape, dtype))
                for x, shape in zip(others, shapes, strict=False)
            ),
        ]

    def _made(
        self,
        kind: type[NnOp],
        operands: Sequence[SSAValue],
        where: Callable[[NnOp], bool] = lambda op: True,
    ) -> SSAValue:
        for _ in range(TRIES):
            settings = SETTINGS.get(kind, _none)(self.random, [known_shape(x) for x in operands])
            try:
                op = kind.make(operands, node=f"n{len(self.values)}", **settings)
            except ShapeError:
                continue
            if where(op) and math.prod(known_shape(op.results[0])) <= 64:
                self.g.main.body.block.add_op(op)
                self.values.append(op.results[0])
                return op.results[0]
            op.erase()
        raise Unsuited

    def _product(self, node: Product) -> SSAValue:
        """The factors in any order, the divisors anywhere after the first of them."""
        scale = self._any_number() if isinstance(node.scale, str) else node.scale
        above = [self.spell(part) for part in node.factors]
        below = [self.spell(part) for part in node.over]
        if not above or (scale != 1 and self.random.random() < 0.5):
            above.append(self._number(scale))
        elif scale != 1:
            below.append(self._number(1 / scale))
        self.random.shuffle(above)
        value, *above = above
        parts = [*((nn.MulOp, x) for x in above), *((nn.DivOp, x) for x in below)]
        for kind, part in self.random.sample(parts, len(parts)):
            swapped = kind is nn.MulOp and self.random.random() < 0.5
            value = self._made(kind, [part, value] if swapped else [value, part])
        return value


# ** properties **


def _none(random: Random, shapes: Shapes) -> Mapping[str, PyValue]:
    return {}


def _flag(name: str) -> Settings:
    return lambda random, shapes: {name: random.random() < 0.5}


def _axis(random: Random, shapes: Shapes) -> Mapping[str, PyValue]:
    return {"axis": random.randrange(max(1, len(shapes[0])))}


def _reduced(random: Random, shapes: Shapes) -> Mapping[str, PyValue]:
    return {"axes": (max(0, len(shapes[0]) - 1),), "keepdims": random.random() < 0.9}


def _perm(random: Random, shapes: Shapes) -> Mapping[str, PyValue]:
    rank = len(shapes[0])
    swap = (*range(rank - 2), rank - 1, rank - 2)
    return {"perm": random.choice((swap, tuple(random.sample(range(rank), rank))))}


def _shape(random: Random, shapes: Shapes) -> Mapping[str, PyValue]:
    """Return a shape that splits or merges dimensions, or adds or drops dimensions of size 1."""
    size = math.prod(shapes[0])
    n = math.isqrt(size)
    square = [(n, n), (1, n, n), (n, 1, n)] if n * n == size else []
    halves = [(1, 2, size // 2)] * 2 if size % 2 == 0 else []
    merged = [(math.prod(shapes[0][:-2]), *shapes[0][-2:])] * 6 if len(shapes[0]) > 3 else []
    return {"shape": random.choice([(size,), (1, size), shapes[0], *square, *halves, *merged])}


def _expanded(random: Random, shapes: Shapes) -> Mapping[str, PyValue]:
    """Twice as much of the matrices of a batch."""
    rank = len(shapes[0])
    return {
        "shape": tuple(2 * n if d == rank - 3 and n == 1 else n for d, n in enumerate(shapes[0]))
    }


def _clip(random: Random, shapes: Shapes) -> Mapping[str, PyValue]:
    return {"low": 0.0, "high": random.choice((1.0, 6.0))}


def _filters(x: tuple[int, ...]) -> Shapes:
    return [(2, x[1], 1), (2,)]


PARAMETERS: Mapping[type[NnOp], Callable[[tuple[int, ...]], Shapes]] = {
    nn.ConvOp: _filters,
    nn.BatchNormOp: lambda x: [x[1:2]] * 4,
}
"""Functions that return the shapes of further operands, given the shape of the first one."""

SETTINGS: Mapping[type[NnOp], Settings] = {
    nn.MatmulOp: _flag("transpose_b"),
    nn.FcOp: _flag("transpose_w"),
    nn.AttentionOp: lambda random, shapes: {
        "scale": 0.5, "transposed_k": random.random() < 0.5, "nan_as_zero": False,
        "causal": random.random() < 0.5, "past": random.randrange(3),
    },
    nn.GroupNormOp: lambda random, shapes: {"groups": max((1, *shapes[0][1:2])), "epsilon": 0.5},
    nn.SoftmaxOp: _axis,
    nn.ReduceMaxOp: _reduced,
    nn.ReduceMeanOp: _reduced,
    nn.ReduceSumOp: _reduced,
    nn.TransposeOp: _perm,
    nn.ReshapeOp: _shape,
    nn.ExpandOp: _expanded,
    nn.ClipOp: _clip,
    nn.ConvOp: lambda random, shapes: {
        "pads": (random.randrange(2), 0), "strides": (random.choice((1, 2)),), "dilations": (1,),
        "groups": 1,
    },
    nn.PadOp: lambda random, shapes: {
        "low": (0, 0, 1), "high": (0, 0, random.randrange(3)), "mode": "constant", "value": 0.0,
    },
    nn.BatchNormOp: lambda random, shapes: {"epsilon": 9.0},
    nn.HardSigmoidOp: lambda random, shapes: {"alpha": 1 / 6, "beta": 0.5},
}  # fmt: skip
