"""The keys by which sorts and suppressions compare the values of a row. A statement's body computes
them, one at a time or as a vector."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from tessella.dialects.tile import Schedule, SortOp, SuppressOp, yielded
from tessella.dialects.tile.flat import FlatAccess
from tessella.lowering.body import Bodies
from tessella.lowering.rows import Point, RowLoops, flat
from tessella.lowering.values import BlockEmitter, Pos, Val
from tessella.support.conditions import decided
from tessella.support.sizes import Size


class KeyLoops(RowLoops):
    """Emits loops over rows for a sort or a suppression, and computes the keys by which these ops
    compare the values of a row. A vector of keys runs along the index ``vector``."""

    def __init__(
        self,
        emitter: BlockEmitter,
        op: SortOp | SuppressOp,
        buffers: Mapping[SSAValue, SSAValue],
        lanes: int,
        vector: str,
    ) -> None:
        super().__init__(emitter, lanes)
        self.body = op.combine.block
        self.name = op.along.name
        self.vector = vector
        self.element = yielded(self.body).type
        self.reads = [
            (buffers[value], flat(op.name, value, forms, op.ranges))
            for value, forms in zip(op.inputs, op.input_accesses, strict=True)
        ]
        free = tuple(index.name for index in op.free)
        self.bodies = Bodies(emitter, Schedule(free, (self.name,), vector, lanes), buffers)
        self.scalars = Bodies(emitter, Schedule(free, (self.name,)), buffers)

    def one_key(self, point: Point, at: SSAValue) -> Val:
        """Compute the key of one value of a row."""
        here = {**point, self.name: Pos(at)}
        args = [Val(self.load(buffer, self.address(a, here))) for buffer, a in self.reads]
        lanes, self.e.lanes = self.e.lanes, 1
        value = self.scalars.run(self.body, args, here, 0, 0, 0)
        self.e.lanes = lanes
        return value

    def several_keys(self, point: Point, at: SSAValue) -> Val:
        """Compute the keys of consecutive values."""
        here = {**point, self.name: Pos(at)}
        args: list[Val] = []
        for buffer, access in self.reads:
            address, varying = self.address(access, here), moves(access, self.vector)
            args.append(Val(self.load(buffer, address, varying=varying), varying))
        value = self.bodies.run(self.body, args, here, 0, 0, 0)
        return Val(self.e.spread(value), True)

    @property
    def is_contiguous(self) -> bool:
        """True if whole vectors of the operands are contiguous along a row."""
        strides = (access.stride(self.name) for _, access in self.reads)
        return all(stride in (0, 1) for stride in strides) and self.lanes > 1


def moves(access: FlatAccess[Size], name: str) -> bool:
    """Return whether the address of an access depends on the index ``name``."""
    return not decided(access.stride(name) == 0)
