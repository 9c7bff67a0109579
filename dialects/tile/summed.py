"""Recognition of sums of products: the product in a body, and the scaling of blocks of products.

    +(x[m, 32*b + 2*t + i] * field(w[n, b, i], t) * s[n, b])    along b, t, i

Each factor of the product is computed from one operand. The sum over ``t`` and ``i`` in a block
``b`` may be computed first, in the type of the product, and multiplied by ``s`` once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects import arith
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tessella.dialects.elements import find_element
from tessella.dialects.tile.access import Access
from tessella.dialects.tile.bodies import ExtractOp, IndexOp, yielded
from tessella.dialects.tile.products import WIDENINGS, ProductElements

_LINEAR = ("arith.sitofp", "arith.uitofp", "arith.extf")
"""Conversions of sums: the converted sum is the sum of the converted values, up to rounding."""
_PRODUCTS = (arith.MulfOp, arith.MuliOp)


class SummedProduct(NamedTuple):
    """A multiplication in the body of a statement that sums its results, which may be scaled
    before."""

    op: Operation
    factors: tuple[SSAValue, SSAValue]
    """The values that are multiplied, before they are widened."""
    operands: tuple[int, int]
    """The numbers of the two operands of the statement from which the factors are computed."""
    before: frozenset[Operation]
    """The ops that compute the factors."""
    blocks: frozenset[str]
    """The reduced indices on which the scales depend; empty if nothing scales the product."""

    @property
    def elements(self) -> ProductElements | None:
        """The element types of the factors and of the product; None if one of the types is not an
        element type."""
        types = (*(value.type for value in self.factors), self.op.results[0].type)
        a, b, summed = map(find_element, types)
        if a is None or b is None or summed is None:
            return None
        return ProductElements(a, b, summed)

    @property
    def is_scaled(self) -> bool:
        """True if the product is scaled, so that the sum of each block can be scaled instead."""
        return bool(self.blocks)

    @property
    def scales(self) -> tuple[int, ...]:
        """The numbers of the operands that scale the product."""
        count = len(self.block.args)
        return tuple(i for i in range(count) if i not in self.operands)

    @property
    def inside(self) -> frozenset[Operation]:
        """The multiplication, and those ops before it that compute with elements of operands."""
        return frozenset({self.op, *filter(self.reads, self.before)})

    @property
    def others(self) -> frozenset[Operation]:
        """The multiplication, and the ops of the body that scale its result."""
        return frozenset(op for op in self.block.ops if op not in self.before)

    @property
    def decoding_indices(self) -> frozenset[str]:
        """The indices whose values are used to compute the factors."""
        return frozenset(op.index.data for op in self.before if isinstance(op, IndexOp))

    @property
    def block(self) -> Block:
        """The body."""
        block = self.op.parent_block()
        assert block is not None
        return block

    def reads(self, op: Operation) -> bool:
        """Return whether an op computes with an element of an operand, and not only with indices
        and constants."""
        return _arguments(op.results[0]) != frozenset()

    def widening(self, number: int) -> frozenset[Operation]:
        """Return the ops that compute an operand of the product from an operand of the
        statement."""
        op = self.op.operands[number].owner
        return frozenset({op, *_before(op)}) if isinstance(op, Operation) else frozenset()

    def decoding(self, number: int) -> frozenset[Operation]:
        """Return the ops that compute a factor from its operand; none if it is the operand."""
        op = self.factors[number].owner
        return frozenset({op, *_before(op)}) if isinstance(op, Operation) else frozenset()


def summed_product(
    combine: Block, accesses: Sequence[Access], reduced: frozenset[str]
) -> SummedProduct | None:
    """Return the multiplication whose results a body yields for a sum. None if the body does more
    than multiply values of two operands, and scale the product by values of other operands."""
    along = _Moves(accesses, reduced)
    value, scales = yielded(combine), list[SSAValue]()
    while (inner := _unscaled(value, along)) is not None:
        value, scale = inner
        scales += scale
    op = value.owner
    if not isinstance(op, _PRODUCTS):
        return None
    factors = _narrow(op.lhs), _narrow(op.rhs)
    sources = [_arguments(factor) for factor in factors]
    if any(each is None or len(each) != 1 for each in sources):
        return None
    a, b = (next(iter(each or ())) for each in sources)
    others = {i for scale in scales for i in _arguments(scale) or ()}
    if a == b or others != set(range(len(accesses))) - {a, b}:
        return None
    blocks = frozenset[str]().union(*map(along.of, scales))
    return SummedProduct(op, factors, (a, b), frozenset(_before(op)), blocks)


class _Moves:
    """The reduced indices on which the values of a body depend."""

    def __init__(self, accesses: Sequence[Access], reduced: frozenset[str]) -> None:
        self.accesses = accesses
        self.reduced = reduced

    def of_operand(self, number: int) -> frozenset[str]:
        """Return the reduced indices in the access of an operand."""
        access = self.accesses[number]
        return frozenset(name for form in access for name, _ in form.terms) & self.reduced

    def of(self, value: SSAValue) -> frozenset[str]:
        """Return the reduced indices on which a value depends, through the accesses of operands or
        directly."""
        if isinstance(value, BlockArgument):
            return self.of_operand(value.index)
        assert isinstance(value.owner, Operation)
        ops = {value.owner, *_before(value.owner)}
        read = {x.index for op in ops for x in op.operands if isinstance(x, BlockArgument)}
        named = {op.index.data for op in ops if isinstance(op, IndexOp)} & self.reduced
        return frozenset(named).union(*map(self.of_operand, read))


def _unscaled(value: SSAValue, along: _Moves) -> tuple[SSAValue, Sequence[SSAValue]] | None:
    """Return the value that an op converts, or multiplies by a scale, and the scale. None if the op
    does neither. A scale depends on fewer reduced indices than the value that it multiplies."""
    op = value.owner
    if isinstance(op, Operation) and op.name in _LINEAR:
        return (op.operands[0], ()) if _multiplies(op.operands[0]) else None
    if not isinstance(op, arith.MulfOp):
        return None
    for inner, scale in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if _multiplies(inner) and along.of(scale) < along.of(inner):
            return inner, (scale,)
    return None


def _multiplies(value: SSAValue) -> bool:
    """Return whether a value that only one op reads is a product, perhaps converted."""
    op = value.owner
    if isinstance(op, Operation) and op.name in _LINEAR:
        op = op.operands[0].owner
    return isinstance(op, _PRODUCTS) and value.has_one_use()


def _arguments(value: SSAValue) -> frozenset[int] | None:
    """Return the numbers of the operands from which a value is computed; None if `tile.extract`,
    which reads at computed coordinates, is among the ops that compute it."""
    if isinstance(value, BlockArgument):
        return frozenset({value.index})
    assert isinstance(value.owner, Operation)
    ops = {value.owner, *_before(value.owner)}
    if any(isinstance(op, ExtractOp) for op in ops):
        return None
    read = (x for op in ops for x in op.operands)
    return frozenset(x.index for x in read if isinstance(x, BlockArgument))


def _before(op: Operation) -> set[Operation]:
    """Return the ops that compute the operands of an op, directly or indirectly."""
    found: set[Operation] = set()
    left = [op]
    while left:
        owners = (value.owner for value in left.pop().operands)
        new = {o for o in owners if isinstance(o, Operation)} - found
        found |= new
        left += new
    return found


def _narrow(value: SSAValue) -> SSAValue:
    """Return the value that a widening reads; any other value is returned unchanged."""
    op = value.owner
    return op.operands[0] if isinstance(op, Operation) and op.name in WIDENINGS else value
