"""Vectorization of the scalar bodies of statements. Values that are equal in all lanes of a vector
stay scalar."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from functools import reduce

from xdsl.dialects import arith, math, memref, vector
from xdsl.dialects.builtin import MemRefType, VectorType, i1
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tessella.dialects.arith import VECTOR_FORMS, CmpiOp, ConstantOp, SelectOp
from tessella.dialects.nn.core import number, shape_of
from tessella.dialects.rt import CheckOp, GatherOp, IotaOp
from tessella.dialects.sizes import SizeOp
from tessella.dialects.tile import (
    ExtractOp,
    IndexOp,
    Schedule,
    YieldOp,
    fused_products,
)
from tessella.dialects.tile.definitions import highest
from tessella.dialects.tile.flat import strides_of
from tessella.lowering.aggregate import every
from tessella.lowering.values import INDEX, BlockEmitter, Pos, Val
from tessella.support.errors import InternalError
from tessella.support.sizes import Size


def _not_rounded(op: Operation) -> SSAValue | None:
    """Return the value whose extension a truncation reverses, if it has the type of the result;
    otherwise None."""
    if op.name != "arith.truncf":
        return None
    wide = op.operands[0].owner
    if not isinstance(wide, Operation) or wide.name != "arith.extf":
        return None
    start = wide.operands[0]
    return start if start.type == op.results[0].type else None


def _is_inside(coordinate: SSAValue, extent: Size) -> bool:
    """Return whether a coordinate is known to be within a dimension: an index of the statement,
    which the verifier has compared with the dimension, or a computed number with a bound."""
    if isinstance(coordinate.owner, IndexOp):
        return True
    most = highest(coordinate)
    return most is not None and isinstance(extent, int) and most < extent


class Bodies:
    """Emits the ops of a statement's bodies for rows and vectors of a register tile. Loads are
    cached until the end of the tile."""

    def __init__(
        self,
        emitter: BlockEmitter,
        schedule: Schedule,
        buffers: Mapping[SSAValue, SSAValue],
        code: int = 0,
    ) -> None:
        self.e = emitter
        self.s = schedule
        self.buffers = buffers
        self.code = code
        self._cache: dict[Hashable, Val] = {}
        self._fused: dict[Block, Mapping[Operation, arith.MulfOp]] = {}

    def cached(self, key: Hashable, make: Callable[[], Val]) -> Val:
        """Return the cached value of a key, computing it if needed. ``forget`` clears the cache."""
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]

    def forget(self) -> None:
        """Drop the cached values at the end of a register tile."""
        self._cache.clear()

    def zero(self, type: VectorType) -> SSAValue:
        """Return a vector of zeros."""
        element = type.element_type
        return self.spread_constant(self.e.constant(number(0, element), element))

    def spread_constant(self, scalar: SSAValue) -> SSAValue:
        """Return a vector with a constant in all lanes, shared by the whole function."""
        type = self.e.vector_type(scalar.type)
        return self.e.shared(
            ("constant", scalar), (), lambda: self.e.op(vector.BroadcastOp(scalar, type))
        )

    def lanes(self, factor: int, element: Attribute = INDEX) -> SSAValue:
        """Return the lane numbers times a factor as an integer vector, shared by the whole
        function."""
        return self.e.shared(("iota", factor, element), (), lambda: self._lanes(factor, element))

    def _lanes(self, factor: int, element: Attribute) -> SSAValue:
        if factor == 1:
            return self.e.op(IotaOp(self.e.lanes, element))
        scale = self.e.constant(number(factor, element), element)
        return self.e.op(arith.MuliOp(self.lanes(1, element), self.spread_constant(scale)))

    def run(
        self,
        block: Block,
        args: Sequence[Val],
        indices: Mapping[str, Pos],
        row: int,
        vector: int,
        tail: Size,
    ) -> Val:
        """Return the body's result for these arguments, at a row and a vector of the register
        tile."""
        known: dict[SSAValue, Val] = dict(zip(block.args, args, strict=True))
        values = self.values(block, known, indices, row, vector, tail)
        last = block.last_op
        if not isinstance(last, YieldOp):
            raise InternalError("a body without tile.yield")
        return values[last.value]

    def operands(
        self,
        last: Operation,
        block: Block,
        args: Sequence[Val],
        indices: Mapping[str, Pos],
        row: int,
        vector: int,
        tail: Size,
    ) -> list[Val]:
        """Emit a body without its op ``last``, whose result it yields. Returns the operands of that
        op."""
        known: dict[SSAValue, Val] = dict(zip(block.args, args, strict=True))
        values = self.values(block, known, indices, row, vector, tail, {last})
        return [values[operand] for operand in last.operands]

    def values(
        self,
        block: Block,
        args: Mapping[SSAValue, Val],
        indices: Mapping[str, Pos],
        row: int,
        vector: int,
        tail: Size,
        left_out: Collection[Operation] = (),
    ) -> dict[SSAValue, Val]:
        """Emit the ops of a body except ``left_out`` and the products that become part of a
        multiply-add. Returns the value of each op's result."""
        values: dict[SSAValue, Val] = dict(args)
        if block not in self._fused:
            self._fused[block] = fused_products(block)
        fused = self._fused[block]
        products = set(fused.values())
        statement = self.e.location
        for op in block.ops:
            if isinstance(op, YieldOp) or op in left_out or op in products:
                continue
            self.e.location = op.location
            if (product := fused.get(op)) is not None:
                (added,) = (x for x in op.operands if x is not product.result)
                value = self._fma([values[x] for x in (*product.operands, added)])
            elif isinstance(op, ConstantOp):
                value = Val(self.e.constant(op.value, op.result.type))
            elif isinstance(op, IndexOp):
                value = self._index(op.index.data, indices, row, vector)
            elif isinstance(op, SizeOp):
                value = Val(self.e.index(op.value))
            elif isinstance(op, ExtractOp):
                value = self._extract(op, [values[c] for c in op.coordinates], tail)
            elif (kept := _not_rounded(op)) is not None:
                value = values[kept]
            else:
                value = self._clone(op, [values[v] for v in op.operands])
            values[op.results[0]] = value
        self.e.location = statement
        return values

    def _fma(self, operands: Sequence[Val]) -> Val:
        if not any(v.varying for v in operands):
            a, b, c = (v.ssa for v in operands)
            return Val(self.e.op(math.FmaOp(a, b, c)))
        a, b, c = (self.e.spread(v) for v in operands)
        return Val(self.e.op(vector.FMAOp(a, b, c)), varying=True)

    def _clone(self, op: Operation, operands: Sequence[Val]) -> Val:
        varying = any(v.varying for v in operands)
        args = [self.e.spread(v) if varying else v.ssa for v in operands]
        types: list[Attribute] = [
            self.e.vector_type(r.type) if varying else r.type for r in op.results
        ]
        clone = VECTOR_FORMS.get(op.name, type(op)).create(
            operands=args,
            result_types=types,
            properties=dict(op.properties),
            attributes=dict(op.attributes),
        )
        return Val(self.e.op(clone), varying)

    def _index(self, name: str, indices: Mapping[str, Pos], row: int, vector: int) -> Val:
        pos = indices.get(name, Pos())
        if name == self.s.rows:
            pos += row
        if name != self.s.vector:
            return Val(self.e.at(pos))
        pos += vector * self.s.lanes
        base = self.e.spread(Val(self.e.at(pos)))
        return Val(self.e.op(arith.AddiOp(base, self.lanes(1))), varying=True, contiguous=pos)

    def _extract(self, op: ExtractOp, coordinates: Sequence[Val], tail: Size) -> Val:
        """Return the element of a tensor at computed coordinates; a vector of elements if a
        coordinate differs between lanes."""
        varying = [d for d, coordinate in enumerate(coordinates) if coordinate.varying]
        strides = strides_of(op.source)
        if len(varying) == 1 and coordinates[varying[0]].contiguous and strides[varying[0]] == 1:
            return self._side_by_side(op, coordinates, varying[0], tail)
        at = self._place(op, coordinates, 0)
        buffer = self.buffers[op.source]
        if not varying:
            return Val(self.e.op(memref.LoadOp.get(buffer, [at])))
        lanes = [self._distances(op, d, coordinates[d], tail) for d in varying]
        distances = reduce(lambda a, b: self.e.op(arith.AddiOp(a, b)), lanes)
        if tail != 0:  # lanes from ``tail`` on may have any coordinates
            zero = self.zero(self.e.vector_type(INDEX))
            distances = self.e.op(SelectOp(self.e.lane_mask(tail), distances, zero))
        return Val(self.e.op(GatherOp(buffer, at, distances)), varying=True)

    def _side_by_side(
        self, op: ExtractOp, coordinates: Sequence[Val], last: int, tail: Size
    ) -> Val:
        """Load a vector of elements whose only varying coordinate increases by one from lane to
        lane, and which are contiguous in memory."""
        first = coordinates[last].contiguous or Pos()
        at = self._place(op, coordinates, first.constant, first.ssa)
        buffer = self.buffers[op.source]
        assert isinstance(buffer.type, MemRefType)
        type = self.e.vector_type(buffer.type.element_type)
        if tail == 0:
            return Val(self.e.op(vector.LoadOp(buffer, [at], type)), varying=True)
        mask = self.e.lane_mask(tail)
        masked = vector.MaskedLoadOp(buffer, [at], mask, self.zero(type), type)
        return Val(self.e.op(masked), varying=True)

    def _place(
        self,
        op: ExtractOp,
        coordinates: Sequence[Val],
        constant: Size,
        first: SSAValue | None = None,
    ) -> SSAValue:
        """Return an offset in memory: that of the coordinates which all lanes share, plus ``first``
        and ``constant``."""
        shape, strides = shape_of(op.source), strides_of(op.source)
        terms: list[tuple[SSAValue, Size]] = []
        for d, coordinate in enumerate(coordinates):
            value = coordinate.ssa
            if coordinate.varying:
                continue
            if not _is_inside(op.coordinates[d], shape[d]):
                value = self._checked(value, shape[d])
            terms.append((value, strides[d]))
        if first is not None:
            terms.append((first, 1))
        return self.e.linear(terms, constant)

    def _distances(self, op: ExtractOp, d: int, coordinate: Val, tail: Size) -> SSAValue:
        """Return, for each lane, the offset in memory that its value of coordinate number ``d``
        adds."""
        value, stride = coordinate.ssa, strides_of(op.source)[d]
        extent = shape_of(op.source)[d]
        if not _is_inside(op.coordinates[d], extent):
            value = self._checked_lanes(value, extent, tail)
        if stride == 1:
            return value
        return self.e.op(arith.MuliOp(value, self.e.spread(Val(self.e.index(stride)))))

    def _checked(self, value: SSAValue, extent: Size) -> SSAValue:
        """Emit the check that a coordinate is in range. Returns the coordinate, or 0 if it is
        not."""
        inside = self.e.op(CmpiOp(value, self.e.index(extent), "ult"))
        self.e.effect(CheckOp(inside, self.code))
        return self.e.op(SelectOp(inside, value, self.e.index(0)))

    def _checked_lanes(self, value: SSAValue, extent: Size, tail: Size) -> SSAValue:
        """Emit the check that the coordinates in the first ``tail`` lanes are in range. Returns the
        coordinates of all lanes, with 0 in place of those out of range."""
        inside = self.e.op(CmpiOp(value, self.e.spread(Val(self.e.index(extent))), "ult"))
        held = inside
        if tail != 0:
            ones = self.spread_constant(self.e.constant(number(1, i1), i1))
            held = self.e.op(SelectOp(self.e.lane_mask(tail), inside, ones))
        self.e.effect(CheckOp(every(self.e, held), self.code))
        return self.e.op(SelectOp(inside, value, self.zero(self.e.vector_type(INDEX))))
