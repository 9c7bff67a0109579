"""Addresses of accesses: a pointer that advances with the loops, plus a constant offset.

The accesses of a register tile are at constant distances from a few pointers. LLVM's loop strength
reduction would find these pointers too, but takes longer than all its other passes together.
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
"""A sum of ``value * coefficient``; each value occurs once."""


class AffineIndex(NamedTuple):
    """An index in a buffer as ``sum(value * coefficient) + constant``. ``terms`` holds the values
    with their coefficients."""

    terms: Terms
    constant: int = 0


class Start(NamedTuple):
    """What the addresses of several accesses have in common: the buffer, and the terms of the index
    without its constant."""

    buffer: SSAValue
    terms: Terms


@dataclass(frozen=True)
class Indices:
    """The indices at which a kernel accesses its buffers, as affine sums of SSA values."""

    sums: Mapping[SSAValue, AffineIndex] = field(default_factory=dict[SSAValue, AffineIndex])
    unused: frozenset[Operation] = frozenset()
    """Ops with results that only addresses use. No code is written for these ops."""

    def __getitem__(self, value: SSAValue) -> AffineIndex:
        """Return an SSA value as an affine sum; the value itself is the only term if nothing more
        is known."""
        return self.sums.get(value) or AffineIndex(((value, 1),))


def indices(body: Region, places: Mapping[str, int]) -> Indices:
    """Return the indices at which a kernel accesses its buffers, as affine sums. ``places`` maps
    the name of an access op to the number of the operand that is its index."""
    sums: dict[SSAValue, AffineIndex] = {}
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


def _sum(expr: AffineExpr, dims: Sequence[AffineIndex]) -> AffineIndex | None:
    # Compare with `type`: `isinstance` is slow on these abstract classes, and this code is hot.
    if type(expr) is AffineDimExpr:
        return dims[expr.position]
    if type(expr) is AffineConstantExpr:
        return AffineIndex((), expr.value)
    if type(expr) is not AffineBinaryOpExpr:
        return None
    left, right = _sum(expr.lhs, dims), _sum(expr.rhs, dims)
    if left is None or right is None:
        return None
    if expr.kind is AffineBinaryOpKind.Add:
        return AffineIndex(added(left.terms, right.terms), left.constant + right.constant)
    if expr.kind is AffineBinaryOpKind.Mul and not right.terms:
        by = right.constant
        return AffineIndex(tuple((v, k * by) for v, k in left.terms if by), left.constant * by)
    return None


def added(left: Terms, right: Terms) -> Terms:
    """Add two sums."""
    if not left or not right:
        return left or right
    total = dict(left)
    for value, k in right:
        total[value] = total.get(value, 0) + k
    return tuple((value, k) for value, k in total.items() if k)


@dataclass
class Scope:
    """A block of LLVM code that is being written, with the pointers that have been computed in
    it."""

    block: Block
    lower: SSAValue | None = None
    """The lower bound of the block's loop; None for a block outside loops."""
    step: int = 0
    """The step of the block's loop."""
    pointers: dict[Start, str] = field(default_factory=dict[Start, str])
    before: list[str] = field(default_factory=list[str])
    """Lines that are written before the loop."""
    stepping: list[Stepping] = field(default_factory=list["Stepping"])


class Stepping(NamedTuple):
    """A pointer that is advanced in each iteration of a loop."""

    name: str
    first: str
    """The pointer's value before the loop."""
    following: str
    """The instruction that computes the pointer's value for the next iteration."""
