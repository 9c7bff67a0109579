"""The emitter of ops for loops, and its values: positions (an SSA value plus a constant), and
scalars or vectors."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from typing import Any

from xdsl.dialects import affine, arith, scf, vector
from xdsl.dialects.arith import MaxSIOp, MinSIOp
from xdsl.dialects.builtin import (
    AffineMapAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    UnknownLoc,
    VectorType,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from tessella.dialects.arith import ConstantOp
from tessella.dialects.rt import UNROLL
from tessella.dialects.sizes import SizeOp
from tessella.support.decisions import are_ordered, decided_max, decided_min
from tessella.support.sizes import Expr, Size, terms_of

INDEX = IndexType()
_NONE: Mapping[str, Attribute] = {}


@cache
def _vector_type(element: Attribute, lanes: int) -> VectorType[Any]:
    return VectorType(element, [lanes])


@lru_cache(maxsize=1024)
def _sum(coefficients: tuple[int, ...], constant: int) -> AffineMapAttr:
    """Return the affine map of a sum: the dimensions times ``coefficients``, plus ``constant``."""
    count, expr = len(coefficients), AffineExpr.constant(constant)
    for i, c in enumerate(coefficients):
        dim = AffineExpr.dimension(i)
        expr = (dim * c if c != 1 else dim) + expr if i == 0 else expr + dim * c
    return AffineMapAttr(AffineMap(count, 0, (expr.simplify(count, 0),)))


@dataclass(frozen=True)
class Pos:
    """An integer ``ssa + constant``."""

    ssa: SSAValue | None = None
    constant: Size = 0

    def __add__(self, constant: Size) -> Pos:
        return Pos(self.ssa, self.constant + constant)


@dataclass(frozen=True)
class Val:
    """A value of a body: one scalar for all lanes, or a vector."""

    ssa: SSAValue
    varying: bool = False
    contiguous: Pos | None = None
    """The first element, for a vector of consecutive integers."""


@dataclass
class BlockEmitter:
    """Appends ops to the current block. Each constant is created once, at the function's entry."""

    entry: Block
    lanes: int = 1
    location: LocationAttr = field(default_factory=UnknownLoc)
    """The location of the op that is being lowered, which the appended ops get."""
    block: Block = field(init=False)
    _constants: dict[tuple[Attribute, Attribute], SSAValue] = field(
        default_factory=dict[tuple[Attribute, Attribute], SSAValue]
    )
    _sizes: dict[Size, SSAValue] = field(default_factory=dict[Size, SSAValue])
    _prologue: list[Operation] = field(default_factory=list[Operation])
    _local: dict[Any, SSAValue] = field(default_factory=dict[Any, SSAValue])
    _outer: list[tuple[Block, dict[Any, SSAValue]]] = field(
        default_factory=list[tuple[Block, dict[Any, SSAValue]]]
    )
    """The enclosing blocks, with the values shared within each."""

    def __post_init__(self) -> None:
        self.block = self.entry

    def op(self, op: Operation) -> SSAValue:
        """Append an op and return its first result."""
        op.location = self.location
        self.block.add_op(op)
        return op.results[0]

    def effect(self, op: Operation) -> None:
        """Append an op."""
        op.location = self.location
        self.block.add_op(op)

    def add(
        self,
        kind: type[Operation],
        operands: Sequence[SSAValue],
        result: Attribute,
        properties: Mapping[str, Attribute] = _NONE,
    ) -> SSAValue:
        """Append an op with one result, skipping the checks of xDSL's constructors.

        Kernels have thousands of these ops, and the checks dominate the time to create them.
        """
        return self.op(kind.create(operands=operands, result_types=[result], properties=properties))

    def constant(self, value: Attribute, type: Attribute) -> SSAValue:
        """Return a scalar constant at the function's entry."""
        key = (value, type)
        if key not in self._constants:
            assert isinstance(value, IntegerAttr | FloatAttr)
            op = ConstantOp.create(result_types=[type], properties={"value": value})
            self._prologue.append(op)
            self._constants[key] = op.results[0]
        return self._constants[key]

    def index(self, value: Size) -> SSAValue:
        """Return a size as a value at the function's entry."""
        if value not in self._sizes:
            self._sizes[value] = self._size(value)
        return self._sizes[value]

    def _size(self, value: Size) -> SSAValue:
        if not isinstance(value, Expr):
            return self.constant(IntegerAttr(value, INDEX), INDEX)
        op = SizeOp(value)
        self._prologue.append(op)
        return op.res

    def finish(self) -> None:
        """Move the constants to the front of the entry block."""
        first = self.entry.first_op
        if first is None:
            self.entry.add_ops(self._prologue)
        else:
            self.entry.insert_ops_before(self._prologue, first)

    def shared(
        self, key: Hashable, of: Sequence[SSAValue], make: Callable[[], SSAValue]
    ) -> SSAValue:
        """Return the cached value of a key for the current number of lanes.

        A value that is not cached is created by ``make``, in the outermost block that all values in
        ``of`` dominate.
        """
        key = (self.lanes, key)
        known = [value.owner for value in of]
        blocks = {owner if isinstance(owner, Block) else owner.parent for owner in known}
        scopes = [*self._outer, (self.block, self._local)]
        depth = max((i for i, (block, _) in enumerate(scopes) if block in blocks), default=0)
        block, local = scopes[depth]
        if key not in local:
            here = self.block, self._local
            self.block, self._local = block, local
            local[key] = make()
            self.block, self._local = here
        return local[key]

    def linear(self, terms: Sequence[tuple[SSAValue, Size]], constant: Size) -> SSAValue:
        """Return ``sum(coefficient * value) + constant`` as one affine.apply, cached within the
        block."""
        if not terms:
            return self.index(constant)
        numbers, rest = self._numbered(terms, constant)
        if len(numbers) == 1 and numbers[0][1] == 1 and rest == 0:
            return numbers[0][0]
        key = (tuple(numbers), rest)
        if key not in self._local:
            map = _sum(tuple(c for _, c in numbers), rest)
            self._local[key] = self._apply(map, [v for v, _ in numbers])
        return self._local[key]

    def _numbered(
        self, terms: Sequence[tuple[SSAValue, Size]], constant: Size
    ) -> tuple[list[tuple[SSAValue, int]], int]:
        """Return an equal sum with numbers as coefficients and constant. Products with symbolic
        sizes become values."""
        if type(constant) is int:  # the common case
            rest, more = constant, []
        else:
            rest = terms_of(constant).get((), 0)
            more = [(self.index(constant - rest), 1)] if constant != rest else []
        found = [(self._scaled(v, k), 1) if isinstance(k, Expr) else (v, k) for v, k in terms]
        return [*found, *more], rest

    def _scaled(self, value: SSAValue, by: Size) -> SSAValue:
        """Return a value times a size. The product is computed once, where the value is defined."""
        make = partial(self.add, arith.MuliOp, [value, self.index(by)], INDEX)
        return self.shared(("scaled", value, by), (value,), make)

    def apply(self, expr: AffineExpr, values: Sequence[SSAValue]) -> SSAValue:
        """Return an affine.apply of an expression on these values."""
        return self._apply(AffineMapAttr(AffineMap(len(values), 0, (expr,))), values)

    def _apply(self, map: AffineMapAttr, values: Sequence[SSAValue]) -> SSAValue:
        return self.add(affine.ApplyOp, values, INDEX, {"map": map})

    def at(self, pos: Pos) -> SSAValue:
        """Return a position as one SSA value."""
        return self.linear([(pos.ssa, 1)] if pos.ssa is not None else [], pos.constant)

    def step(self, pos: Pos, value: Pos, stride: Size) -> Pos:
        """Return the position ``pos + stride * value``."""
        constant = pos.constant + stride * value.constant
        if stride == 0 or value.ssa is None:
            return Pos(pos.ssa, constant)
        terms = ([(pos.ssa, 1)] if pos.ssa is not None else []) + [(value.ssa, stride)]
        return Pos(self.linear(terms, 0), constant)

    def max(self, a: Pos, b: Pos) -> Pos:
        """Return the larger of two positions."""
        if a.ssa is None and b.ssa is None and are_ordered(a.constant, b.constant):
            return Pos(None, decided_max(a.constant, b.constant))
        return Pos(self.op(MaxSIOp(self.at(a), self.at(b))))

    def min(self, a: Pos, b: Pos) -> Pos:
        """Return the smaller of two positions."""
        if a.ssa is None and b.ssa is None and are_ordered(a.constant, b.constant):
            return Pos(None, decided_min(a.constant, b.constant))
        return Pos(self.op(MinSIOp(self.at(a), self.at(b))))

    def loop(
        self,
        start: SSAValue,
        stop: SSAValue,
        step: int,
        carried: Sequence[SSAValue],
        body: Callable[[SSAValue, Sequence[SSAValue]], Sequence[SSAValue]],
        unroll: int = 1,
    ) -> list[SSAValue]:
        """Emit an scf.for; ``body(iv, carried)`` returns the next carried values.

        LLVM unrolls the loop by the factor ``unroll``, which is far faster than unrolling here; 0
        forbids unrolling, 1 leaves the loop to LLVM.
        """
        inner = Block(arg_types=[INDEX, *(v.type for v in carried)])
        self._outer.append((self.block, self._local))
        self.block, self._local = inner, {}
        results = body(inner.args[0], inner.args[1:])
        inner.add_op(scf.YieldOp.create(operands=results))
        self.block, self._local = self._outer.pop()
        op = scf.ForOp.create(
            operands=[start, stop, self.index(step), *carried],
            result_types=[value.type for value in carried],
            regions=[Region(inner)],
        )
        if unroll != 1:
            op.attributes[UNROLL] = IntegerAttr(unroll, i64)
        self.effect(op)
        return list(op.results)

    def when(self, condition: SSAValue, body: Callable[[], None]) -> None:
        """Emit an scf.if without results."""
        inner = Block()
        self._outer.append((self.block, self._local))
        self.block, self._local = inner, {}
        body()
        inner.add_op(scf.YieldOp.create())
        self.block, self._local = self._outer.pop()
        self.effect(scf.IfOp.create(operands=[condition], regions=[Region(inner), Region()]))

    def either(
        self,
        condition: SSAValue,
        body: Callable[[], Sequence[SSAValue]],
        otherwise: Sequence[SSAValue],
    ) -> list[SSAValue]:
        """Emit an scf.if that returns the values of ``body`` if the condition is true, and
        ``otherwise`` if it is false."""
        inner, other = Block(), Block([scf.YieldOp(*otherwise)])
        self._outer.append((self.block, self._local))
        self.block, self._local = inner, {}
        inner.add_op(scf.YieldOp(*body()))
        self.block, self._local = self._outer.pop()
        types = [value.type for value in otherwise]
        op = scf.IfOp(condition, types, Region(inner), Region(other))
        self.effect(op)
        return list(op.results)

    def vector_type(self, element: Attribute) -> VectorType[Any]:
        """Return the vector type with the current number of lanes."""
        return _vector_type(element, self.lanes)

    def lane_mask(self, lanes: Size) -> SSAValue:
        """Return a mask that is true in the first ``lanes`` lanes."""
        type = self.vector_type(IntegerType(1))
        count = self.index(lanes)
        return self.shared(
            ("lanes", count), (), lambda: self.op(vector.CreateMaskOp([count], type))
        )

    def spread(self, value: Val) -> SSAValue:
        """Return the value as a vector, unchanged if there is one lane."""
        if value.varying or self.lanes == 1:
            return value.ssa
        key = ("spread", value.ssa, self.lanes)
        if key not in self._local:
            to = self.vector_type(value.ssa.type)
            self._local[key] = self.add(vector.BroadcastOp, [value.ssa], to)
        return self._local[key]
