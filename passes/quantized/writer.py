"""Ops that a pass inserts before another op."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import Pure

from tessella.dialects.elements import attribute_of, element_of
from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn.constants import SplatOp
from tessella.dialects.nn.core import NnOp, PyValue, shape_of, tensor, tensor_type
from tessella.dialects.nn.movement import ReshapeOp
from tessella.dialects.nn.reduction import ReduceSumOp
from tessella.support.sizes import Size


class Writer:
    """Inserts ops before an op, in its name."""

    def __init__(self, anchor: Operation, named: NnOp | None = None) -> None:
        self.anchor = anchor
        source = named or anchor
        has_node = isinstance(source, NnOp) and "node" in source.attributes
        self.node = source.node if isinstance(source, NnOp) and has_node else None
        """The name that new ops get."""

    @staticmethod
    def behind(value: SSAValue, named: NnOp | None) -> Writer:
        """Inserts ops where a value becomes known."""
        owner = value.owner
        anchor = owner.first_op if isinstance(owner, Block) else owner.next_op
        assert anchor is not None
        return Writer(anchor, named)

    def op(self, kind: type[NnOp], *operands: SSAValue, **properties: PyValue) -> SSAValue:
        """The first result of a new op. Raises ShapeError."""
        new = kind.make(operands, node=self.node, **properties)
        Rewriter.insert_op(new, InsertPoint.before(self.anchor))
        return new.results[0]

    def splat(self, number: float, element: str, shape: Sequence[Size] = ()) -> SSAValue:
        """A tensor of equal elements."""
        new = SplatOp(number, tensor(attribute_of(element), shape))
        Rewriter.insert_op(new, InsertPoint.before(self.anchor))
        return new.res

    def cast(self, value: SSAValue, element: str) -> SSAValue:
        """A value in another element."""
        if element_of(value.type).name == element:
            return value
        return self.op(ew.CastOp, value, to=attribute_of(element))

    def shaped(self, value: SSAValue, shape: Sequence[Size]) -> SSAValue:
        """A value in another shape."""
        same = shape_of(value) == tuple(shape)
        return value if same else self.op(ReshapeOp, value, shape=tuple(shape))

    def add(self, a: SSAValue, b: SSAValue | float) -> SSAValue:
        """a + b"""
        return self.op(ew.AddOp, a, self._like(b, a))

    def sub(self, a: SSAValue, b: SSAValue | float) -> SSAValue:
        """a - b"""
        return self.op(ew.SubOp, a, self._like(b, a))

    def mul(self, a: SSAValue, b: SSAValue | float) -> SSAValue:
        """a * b"""
        return self.op(ew.MulOp, a, self._like(b, a))

    def sum(self, value: SSAValue, axes: Sequence[int]) -> SSAValue:
        """The sum over axes, which stay as dimensions of one element."""
        return self.op(ReduceSumOp, value, axes=tuple(axes), keepdims=True)

    def _like(self, b: SSAValue | float, a: SSAValue) -> SSAValue:
        if isinstance(b, SSAValue):
            return b
        return self.splat(b, element_of(tensor_type(a)).name)


def replace(old: NnOp, value: SSAValue) -> None:
    """Let a value stand for the result of an op, and erase the op."""
    value.name_hint = value.name_hint or old.results[0].name_hint
    old.results[0].replace_all_uses_with(value)
    drop(old)


def drop(op: NnOp) -> None:
    """Erase an op whose result nothing reads, and those that it alone reads: rules ask whether a
    value has one use."""
    operands = list(op.operands)
    Rewriter.erase_op(op)
    for value in operands:
        owner = value.owner
        if isinstance(owner, NnOp) and owner.has_trait(Pure) and not _is_read(owner):
            drop(owner)


def _is_read(op: NnOp) -> bool:
    return op.parent is None or any(result.first_use is not None for result in op.results)
