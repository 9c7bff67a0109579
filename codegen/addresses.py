"""Where accesses are: a pointer that steps with the loops, and a constant.

The accesses of a register tile are at constant distances from a few pointers. LLVM would find that
out too, by loop strength reduction, which takes longer than all else together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.dialects.affine import ApplyOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
)

Terms = tuple[tuple[SSAValue, int], ...]
"""A sum of ``value * coefficient``; each value once."""


class Index(NamedTuple):
    """``sum(value * coefficient) + constant``."""

    terms: Terms
    constant: int = 0


class Start(NamedTuple):
    """What accesses have in common: a buffer, and an index without its constant."""

    buffer: SSAValue
    terms: Terms


@dataclass(frozen=True)
class Indices:
    """The indices of a kernel that are sums."""

    sums: Mapping[SSAValue, Index] = field(default_factory=dict[SSAValue, Index])
    unused: frozenset[Operation] = frozenset()
    """Ops that only addresses ask for, which are made without them."""

    def __getitem__(self, value: SSAValue) -> Index:
        """A value as a sum."""
        return self.sums.get(value) or Index(((value, 1),))


def indices(body: Region, places: Mapping[str, int]) -> Indices:
    """Those of a kernel; ``places`` says which operand of an access is its index."""
    sums: dict[SSAValue, Index] = {}
    applied: list[Operation] = []
    known = Indices(sums)
    for op in body.walk():
        if type(op) is ApplyOp:
            dims = [known[value] for value in op.operands]
            if (index := _sum(op.map.data.results[0], dims)) is not None:
                sums[op.result] = index
                applied.append(op)
    unused: set[Operation] = set()
    for op in reversed(applied):
        uses = op.results[0].uses
        if all(u.operation in unused or places.get(u.operation.name) == u.index for u in uses):
            unused.add(op)
    return Indices(sums, frozenset(unused))


def _sum(expr: AffineExpr, dims: Sequence[Index]) -> Index | None:
    # `type` and not `isinstance`, which is slow on these abstract classes, in a hot place.
    if type(expr) is AffineDimExpr:
        return dims[expr.position]
    if type(expr) is AffineConstantExpr:
        return Index((), expr.value)
    if type(expr) is not AffineBinaryOpExpr:
        return None
    left, right = _sum(expr.lhs, dims), _sum(expr.rhs, dims)
    if left is None or right is None:
        return None
    if expr.kind is AffineBinaryOpKind.Add:
        return Index(added(left.terms, right.terms), left.constant + right.constant)
    if expr.kind is AffineBinaryOpKind.Mul and not right.terms:
        by = right.constant
        return Index(tuple((v, k * by) for v, k in left.terms if by), left.constant * by)
    return None


def added(left: Terms, right: Terms) -> Terms:
    """The sum of two sums."""
    if not left or not right:
        return left or right
    total = dict(left)
    for value, k in right:
        total[value] = total.get(value, 0) + k
    return tuple((value, k) for value, k in total.items() if k)


@dataclass
class Scope:
    """A block that is being written, with the pointers that are known in it."""

    block: Block
    lower: SSAValue | None = None
    """Where the block's loop begins; None for a block of no loop."""
    step: int = 0
    """Of the loop."""
    pointers: dict[Start, str] = field(default_factory=dict[Start, str])
    before: list[str] = field(default_factory=list[str])
    """Lines before the loop."""
    stepping: list[Stepping] = field(default_factory=list["Stepping"])


class Stepping(NamedTuple):
    """A pointer that steps with a loop."""

    name: str
    first: str
    """Its value before the loop."""
    following: str
    """The instruction that makes the next value."""
