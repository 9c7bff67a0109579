"""Helpers for the statements that select values of rows: sorts, suppressions and joins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from tessella.dialects.nn.core import shape_of
from tessella.dialects.tile import Access, Index, stays_inside
from tessella.dialects.tile.flat import FlatAccess, flatten_access, layout_of
from tessella.lowering.values import BlockEmitter, Pos
from tessella.support.errors import InvalidModelError
from tessella.support.sizes import Expr, Size

Body = Callable[[SSAValue], None]
Point = Mapping[str, Pos]
"""The values of indices, by name."""


def flat(
    statement: str, value: SSAValue, forms: Access, ranges: Mapping[str, Size]
) -> FlatAccess[Size]:
    """Return an access as an offset in memory with a stride for each index. Raises
    InvalidModelError for an access that can leave its tensor."""
    if not stays_inside(forms, shape_of(value), ranges):
        raise InvalidModelError(f"an access of {statement} leaves {value.type}")
    return flatten_access(forms, shape_of(value), layout_of(value), ranges)


class RowLoops:
    """Emits loops over rows, and loads and stores of their values, one or ``lanes`` at a time."""

    def __init__(self, emitter: BlockEmitter, lanes: int) -> None:
        self.e = emitter
        self.lanes = lanes

    def point(self, number: SSAValue, free: Sequence[Index]) -> dict[str, Pos]:
        """Return the values of the indices ``free`` that the row with this number has; the last
        index varies fastest."""
        point: dict[str, Pos] = {}
        for index in reversed(free):
            point[index.name] = Pos(self.digit(number, index.range))
            number = self.quotient(number, index.range)
        return point

    def digit(self, number: SSAValue, range: Size) -> SSAValue:
        """Return the remainder of a division by an index's range."""
        if isinstance(range, Expr):
            return self.e.op(arith.RemUIOp(number, self.e.index(range)))
        return self.e.apply(AffineExpr.dimension(0) % range, [number])

    def quotient(self, number: SSAValue, range: Size) -> SSAValue:
        """Return the quotient of a division by an index's range."""
        if isinstance(range, Expr):
            return self.e.op(arith.DivUIOp(number, self.e.index(range)))
        return self.e.apply(AffineExpr.dimension(0) // range, [number])

    def address(self, access: FlatAccess[Size], point: Point) -> SSAValue:
        """Return the offset of an access at a point."""
        pos = Pos(None, access.offset)
        for name, value in point.items():
            pos = self.e.step(pos, value, access.stride(name))
        return self.e.at(pos)

    def load(self, buffer: SSAValue, at: SSAValue, *, varying: bool = False) -> SSAValue:
        """Load an element of a buffer, or a vector of elements if ``varying``."""
        if not varying or self.lanes == 1:
            return self.e.op(memref.LoadOp.get(buffer, [at]))
        assert isinstance(buffer.type, MemRefType)
        element: Attribute = buffer.type.element_type
        return self.e.op(vector.LoadOp(buffer, [at], self.e.vector_type(element)))

    def store(self, value: SSAValue, buffer: SSAValue, at: SSAValue) -> None:
        """Store an element, or a vector of elements."""
        is_vector = value.type != getattr(buffer.type, "element_type", None)
        kind = vector.StoreOp if is_vector else memref.StoreOp
        self.e.effect(kind.create(operands=[value, buffer, at]))

    def loop(self, start: SSAValue, stop: SSAValue, body: Body, step: int = 1) -> None:
        """Emit a loop without carried values."""

        def inner(at: SSAValue, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
            body(at)
            return ()

        self.e.loop(start, stop, step, (), inner)
