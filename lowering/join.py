"""A `tile.join`, which writes rows of different lengths one behind the other, as loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue

from tessella.dialects.arith import CASTS
from tessella.dialects.nn.core import shape_of
from tessella.dialects.tile import JoinOp
from tessella.lowering.rows import RowLoops
from tessella.lowering.values import INDEX, BlockEmitter
from tessella.support.sizes import product


class Join(RowLoops):
    """Emits the loops of a join."""

    def __init__(
        self, emitter: BlockEmitter, op: JoinOp, buffers: Mapping[SSAValue, SSAValue]
    ) -> None:
        super().__init__(emitter, lanes=1)
        self.op = op
        self.places, self.counts = (buffers[value] for value in op.operands)
        self.joined, self.count = (buffers[value] for value in op.results)

    def emit(self) -> None:
        """Append the loops to the emitter's block."""
        e, shape = self.e, shape_of(self.op.places)
        width = len(shape)
        rows = e.index(product(shape[:-1]))
        (count,) = e.loop(e.index(0), rows, 1, [e.index(0)], self._row)
        self.store(self._integer(count), self.count, e.index(0))
        zero = e.constant(IntegerAttr(0, i64), i64)
        self.loop(
            e.linear([(count, width)], 0),
            e.index(product(shape) * width),
            lambda at: self.store(zero, self.joined, at),
        )

    def _row(self, number: SSAValue, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """Write the coordinates of a row's values after those of earlier rows. Returns the number
        of values written so far."""
        e, (*outer, last) = self.e, shape_of(self.op.places)
        width = len(outer) + 1
        coordinates: list[SSAValue] = []
        rest = number
        for range in reversed(outer):
            coordinates.insert(0, self._integer(self.digit(rest, range)))
            rest = self.quotient(rest, range)
        known = e.op(CASTS["arith.index_cast"](self.load(self.counts, number), INDEX))
        count = e.op(arith.MaxSIOp(e.op(arith.MinSIOp(known, e.index(last))), e.index(0)))

        def body(at: SSAValue) -> None:
            row = e.op(arith.AddiOp(carried[0], at))
            place = self.load(self.places, e.linear([(number, last), (at, 1)], 0))
            for d, value in enumerate((*coordinates, place)):
                self.store(value, self.joined, e.linear([(row, width)], d))

        self.loop(e.index(0), count, body)
        return [e.op(arith.AddiOp(carried[0], count))]

    def _integer(self, index: SSAValue) -> SSAValue:
        return self.e.op(CASTS["arith.index_cast"](index, i64))
