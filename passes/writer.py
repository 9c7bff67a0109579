"""A builder of ops that a pass inserts before another op."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import Pure

from tessella.dialects.elements import attribute_of, element_of
from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn.constants import SplatOp, WeightOp
from tessella.dialects.nn.core import NnOp, PyValue, Tensor, shape_of, tensor, tensor_type
from tessella.dialects.nn.movement import ReshapeOp
from tessella.dialects.nn.reduction import ReduceSumOp
from tessella.support.sizes import Size


def node_of(op: Operation, part: str = "") -> str | None:
    """Return the name of an op's node with a suffix; None if the op has no node."""
    has_node = isinstance(op, NnOp) and "node" in op.attributes
    return op.node + part if isinstance(op, NnOp) and has_node else None


class OpWriter:
    """A builder that inserts ops before an op, named after that op or another one with a suffix.

    ``made`` collects the results of the ops in order.
    """

    def __init__(
        self,
        anchor: Operation,
        named: Operation | None = None,
        *,
        part: str = "",
        made: dict[SSAValue, None] | None = None,
    ) -> None:
        self.anchor = anchor
        self.node = node_of(named or anchor, part)
        """The name of new ops."""
        self._made: dict[SSAValue, None] = {} if made is None else made

    @staticmethod
    def behind(value: SSAValue, named: Operation | None) -> OpWriter:
        """Return a writer that inserts ops directly after the producer of a value, or at the
        beginning of its block for an argument."""
        owner = value.owner
        anchor = owner.first_op if isinstance(owner, Block) else owner.next_op
        assert anchor is not None
        return OpWriter(anchor, named)

    def op(self, kind: type[NnOp], *operands: SSAValue, **properties: PyValue) -> SSAValue:
        """Append an op and return its first result. Raises ShapeError if the operands' shapes do
        not fit the op."""
        return self._insert(kind.make(operands, node=self.node, **properties))

    def splat(self, number: float, element: str, shape: Sequence[Size] = ()) -> SSAValue:
        """Return a tensor of equal elements."""
        return self._insert(SplatOp(number, tensor(attribute_of(element), shape)))

    def weight(self, symbol: str, type: Tensor) -> SSAValue:
        """Return a weight of the store."""
        return self._insert(WeightOp(symbol, type))

    def cast(self, value: SSAValue, element: str) -> SSAValue:
        """Return a value converted to another element; the value itself if it has that element."""
        if element_of(value.type).name == element:
            return value
        return self.op(ew.CastOp, value, to=attribute_of(element))

    def shaped(self, value: SSAValue, shape: Sequence[Size]) -> SSAValue:
        """Return a value in another shape, in which -1 stands for its number of elements; the value
        itself if it has that shape."""
        own = shape_of(value)
        new = tuple(math.prod(own) if isinstance(n, int) and n == -1 else n for n in shape)
        return value if new == own else self.op(ReshapeOp, value, shape=new)

    def add(self, a: SSAValue, b: SSAValue | float) -> SSAValue:
        """Emit a + b."""
        return self.op(ew.AddOp, a, self._like(b, a))

    def sub(self, a: SSAValue, b: SSAValue | float) -> SSAValue:
        """Emit a - b."""
        return self.op(ew.SubOp, a, self._like(b, a))

    def mul(self, a: SSAValue, b: SSAValue | float) -> SSAValue:
        """Emit a * b."""
        return self.op(ew.MulOp, a, self._like(b, a))

    def sum(self, value: SSAValue, axes: Sequence[int]) -> SSAValue:
        """Emit the sum over axes, which keep size 1."""
        return self.op(ReduceSumOp, value, axes=tuple(axes), keepdims=True)

    def _insert(self, op: NnOp) -> SSAValue:
        Rewriter.insert_op(op, InsertPoint.before(self.anchor))
        self._made[op.results[0]] = None
        return op.results[0]

    def _like(self, b: SSAValue | float, a: SSAValue) -> SSAValue:
        if isinstance(b, SSAValue):
            return b
        return self.splat(b, element_of(tensor_type(a)).name)


def replace(old: NnOp, value: SSAValue) -> None:
    """Replace an op's result by a value, and erase the op."""
    value.name_hint = value.name_hint or old.results[0].name_hint
    old.results[0].replace_all_uses_with(value)
    drop(old)


def drop(op: NnOp) -> None:
    """Erase an unused op, and the ops that no other op reads. Rules depend on the number of uses,
    so these ops must not stay."""
    operands = list(op.operands)
    Rewriter.erase_op(op)
    for value in operands:
        owner = value.owner
        if isinstance(owner, NnOp) and owner.has_trait(Pure) and not _is_read(owner):
            drop(owner)


def _is_read(op: NnOp) -> bool:
    return op.parent is None or any(result.first_use is not None for result in op.results)
