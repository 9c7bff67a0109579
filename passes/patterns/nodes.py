"""Patterns as data: expressions of `nn` ops.

    x = Value("x")
    gelu = Product((x, op(AddOp, op(ErfOp, Product((x,), scale=0.5**0.5)), 1.0)), scale=0.5)

An expression is a graph: a node that occurs twice is one value. A match provides the values of
named nodes by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from xdsl.ir import SSAValue

from tessella.dialects.nn.core import NnOp
from tessella.dialects.nn.elementwise import DivOp, MulOp


def _any_value(value: SSAValue) -> bool:
    return True


def _any_number(number: float, of: SSAValue) -> bool:
    return True


def _any_op(op: NnOp) -> bool:
    return True


@dataclass(frozen=True)
class AnyValue:
    """Any value that satisfies ``where``. Equal names are the same value."""

    name: str
    where: Callable[[SSAValue], bool] = field(default=_any_value, compare=False)


@dataclass(frozen=True)
class Number:
    """A constant with equal elements: `value` up to rounding, or any number that satisfies
    ``where``."""

    value: float | None = None
    name: str = ""
    where: Callable[[float, SSAValue], bool] = field(default=_any_number, compare=False)


@dataclass(frozen=True)
class Triangle:
    """A matrix, or a batch of equal ones, with the number ``below`` up to a diagonal and another
    number beyond it, such as a causal mask.

    The other number must satisfy ``above``. The matrix is a constant, or computed from positions if
    sizes are symbolic. The match stores the matrix and the number of its last column before the
    diagonal in the first row, which is not negative, under ``name``.
    """

    name: str
    below: float
    above: Callable[[float, SSAValue], bool] = field(compare=False)


@dataclass(frozen=True, eq=False)
class Op:
    """The result of an op of one of the classes ``kinds`` that satisfies ``where``.

    The operands of a commutative op match in any order. Only ops of the match may read the result,
    unless it is the root or ``shared``. A shared op stays if others read it.
    """

    kinds: tuple[type[NnOp], ...]
    operands: tuple[Node, ...]
    name: str = ""
    where: Callable[[Any], bool] = _any_op
    shared: bool = False


@dataclass(frozen=True, eq=False)
class Product:
    """``scale`` times the factors, over the divisors, in any nesting and order.

    It consists of multiplications, divisions, reciprocals, squares and cubes. Constants with equal
    elements are part of the scale. If the scale is a string, the match stores its number under that
    name.
    """

    factors: tuple[Node, ...]
    over: tuple[Node, ...] = ()
    scale: float | str = 1.0


@dataclass(frozen=True, eq=False)
class Either:
    """Alternatives: the first of these nodes with which the whole pattern matches."""

    options: tuple[Node, ...]


Node = AnyValue | Number | Triangle | Op | Product | Either


def op(
    kinds: type[NnOp] | tuple[type[NnOp], ...],
    *operands: Node | float,
    name: str = "",
    where: Callable[[Any], bool] = _any_op,
    shared: bool = False,
) -> Op:
    """Return an op node. Python numbers as operands become constants."""
    nodes = tuple(Number(x) if isinstance(x, int | float) else x for x in operands)
    return Op(kinds if isinstance(kinds, tuple) else (kinds,), nodes, name, where, shared)


def either(*options: Node) -> Either:
    """Return a node that matches one of several alternatives, which are tried in order: list the
    largest first. To make a part optional, list the expression without it as well."""
    return Either(options)


def root_kinds(node: Node) -> Iterator[type[NnOp]]:
    """Yield the classes of ops whose results can match a node; none if the node does not match
    ops."""
    match node:
        case Op():
            yield from node.kinds
        case Product():
            yield from (MulOp, DivOp)
        case Either():
            for option in node.options:
                yield from root_kinds(option)
        case _:
            return


def depth(node: Node) -> int:
    """Return the number of ops on the longest path through an expression."""
    match node:
        case Op():
            return 1 + max(map(depth, node.operands), default=0)
        case Product():
            parts = (*node.factors, *node.over)
            return len(parts) + max(map(depth, parts), default=0)
        case Either():
            return max(map(depth, node.options), default=0)
        case _:
            return 0
