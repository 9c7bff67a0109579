"""Limits of reduced indices: computed elements beyond which the body contributes nothing.

    %s = tile.contract + [i: 8 | k: 512] (%n[i], %x[i, k]) -> [i] {
    ^bb0(%end: i64, %v: f32):
      %k = tile.index "k"
      %at = arith.index_cast %k : index to i64
      %inside = arith.cmpi slt, %at, %end : i64
      %y = arith.select %inside, %v, %zero : f32
      tile.yield %y : f32
    }

A zero does not change a sum, so the loop over `k` ends at `%n[i]`, and the range of the index is an
upper bound. The limit is inferred from the body, which keeps its comparison: a loop may run beyond
the limit, in whole vectors, but need not. A loop that ends exactly at the limit omits the
comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tessella.dialects.arith import CmpiOp, ConstantOp
from tessella.dialects.nn.core import shape_of
from tessella.dialects.sizes import SizeOp
from tessella.dialects.tile.access import stays_inside
from tessella.dialects.tile.aggregations import aggregation_of
from tessella.dialects.tile.bodies import ExtractOp, IndexOp, yielded
from tessella.dialects.tile.definitions import index_of, number_of, operands_of
from tessella.dialects.tile.nest import shared_loops
from tessella.dialects.tile.ops import ContractOp
from tessella.support.conditions import UndecidedSizeError

_BELOW = {"slt": 0, "sle": 1}
"""The number ``more`` for each predicate that means left < right + more."""
_SWAPPED = {"sgt": "slt", "sge": "sle", "slt": "sgt", "sle": "sge"}
_NEGATED = {"sgt": "sle", "sge": "slt", "slt": "sge", "sle": "sgt"}
_WIDENING = {"arith.extf": "+*><", "arith.extsi": "+", "arith.extui": "+"}
"""The conversions that preserve neutral values, each with the aggregations for which it preserves
them."""

USUAL = 4
"""The assumed number of values of an index that ends at a computed element, if no tensor has a
dimension along the index. Object detectors sample regions at grids of 1 to 8 points."""


Comparison = tuple[SSAValue, str, SSAValue]
"""Two integers, with the predicate between them that is known to be true."""


@dataclass(frozen=True)
class Limit:
    """An exclusive upper bound of an index, ``value + more``."""

    value: SSAValue
    """The integer that determines the limit. The ops ``needed`` of the combine body compute it."""
    more: int
    needed: frozenset[Operation]
    arguments: tuple[BlockArgument, ...]
    """The arguments of the combine body, elements of operands, from which ``value`` is computed."""
    indices: frozenset[str]
    """The names of the indices on which ``value`` depends."""


def limits(op: ContractOp) -> Mapping[str, Sequence[Limit]]:
    """Return the limits of each reduced index of a statement, by the name of the index. Indices
    without limits are not listed."""
    if op.is_map or op.is_scatter or op.running_index is not None:
        return {}
    shared, found = shared_loops(op), dict[str, list[Limit]]()
    reduced = {index.name for index in op.index_list if index.reduced}
    for index, kind, bound in _bounds(op.accumulates, yielded(op.combine.block)):
        name = index_of(index)
        if name in reduced and name not in shared:
            limit = _limit(op, bound, _BELOW[kind], reduced)
            if limit is not None:
                found.setdefault(name, []).append(limit)
    return found


def within_limits(op: ContractOp, is_end: Callable[[str, Limit], bool]) -> SSAValue:
    """Return the value that the body of a statement yields at points below the limits that
    ``is_end`` accepts, by the name of the index: loops end there, so that the body's comparisons
    with them are true."""
    value, found = yielded(op.combine.block), limits(op)
    ends = {
        (name, x.value, x.more) for name, each in found.items() for x in each if is_end(name, x)
    }
    while ends and (parts := operands_of(value, "arith.select")) is not None:
        condition, chosen, other = parts
        bounds = _upper(_compared(condition))
        known = ((index_of(index), bound, _BELOW[kind]) for index, kind, bound in bounds)
        if not _is_neutral(op.accumulates, other) or ends.isdisjoint(known):
            break
        value = chosen
    return value


def would_end(op: ContractOp, operand: int, indices: Collection[str]) -> bool:
    """Return whether a reduction would have a limit if the elementwise statement that computes its
    operand ``operand`` were inlined: that statement compares one of ``indices``."""
    if op.is_map or op.is_scatter or op.running_index is not None:
        return False
    value, writer = yielded(op.combine.block), op.inputs[operand].owner
    while (inner := _inner(op.accumulates, value)) is not None:
        value = inner
    if value is not op.combine.block.args[operand] or not isinstance(writer, ContractOp):
        return False
    bounds = _bounds(op.accumulates, yielded(writer.combine.block))
    return any(index_of(index) in indices for index, _, _ in bounds)


def usual(op: ContractOp) -> Mapping[str, int]:
    """Return the assumed number of values of each reduced index that ends at a computed element, if
    no tensor has a dimension along the index."""
    along = {n for forms in op.input_accesses for form in forms for n, _ in form.terms}
    return {name: USUAL for name in limits(op) if name not in along}


def _bounds(kind: str, value: SSAValue) -> Iterator[Comparison]:
    """Yield the comparisons `slt` and `sle` that are true at all points at which a value is not
    neutral in the aggregation ``kind``."""
    return _upper(_comparisons(kind, value))


def _upper(comparisons: Iterable[Comparison]) -> Iterator[Comparison]:
    """Yield the comparisons `slt` and `sle` among these, in which the greater side may be first."""
    for a, predicate, b in comparisons:
        for x, each, y in ((a, predicate, b), (b, _SWAPPED.get(predicate, ""), a)):
            if each in _BELOW:
                yield x, each, y


def _comparisons(kind: str, value: SSAValue) -> Iterator[Comparison]:
    """Yield comparisons that are true at all points at which a value is not neutral in the
    aggregation ``kind``."""
    if (parts := operands_of(value, "arith.select")) is not None:
        condition, chosen, other = parts
        if _is_neutral(kind, other):
            yield from _all_of(condition)
        elif _is_neutral(kind, chosen):
            yield from _none_of(condition)
    if (inner := _inner(kind, value)) is not None:
        yield from _comparisons(kind, inner)


def _inner(kind: str, value: SSAValue) -> SSAValue | None:
    """Return the value that an op passes on unless it is neutral: the other operand of a select
    with a neutral value, or the operand of a conversion. None for any other op."""
    if (parts := operands_of(value, "arith.select")) is not None:
        _, chosen, other = parts
        return chosen if _is_neutral(kind, other) else other if _is_neutral(kind, chosen) else None
    names = (name for name, kinds in _WIDENING.items() if kind in kinds)
    return next((x[0] for name in names if (x := operands_of(value, name)) is not None), None)


def _is_neutral(kind: str, value: SSAValue) -> bool:
    number = number_of(value)
    if number is None:
        return False
    bits = value.type.width.data if isinstance(value.type, IntegerType) else 0
    return number == aggregation_of(kind, value.type).identity(bits)


def _all_of(condition: SSAValue) -> Iterator[Comparison]:
    """Yield the comparisons that a true condition implies."""
    for part in operands_of(condition, "arith.andi") or ():
        yield from _all_of(part)
    yield from _compared(condition)


def _none_of(condition: SSAValue) -> Iterator[Comparison]:
    """Yield the comparisons that a false condition implies."""
    for part in operands_of(condition, "arith.ori") or ():
        yield from _none_of(part)
    for a, kind, b in _compared(condition):
        if kind in _NEGATED:
            yield a, _NEGATED[kind], b


def _compared(condition: SSAValue) -> Iterator[Comparison]:
    if (operands := operands_of(condition, "arith.cmpi")) is not None:
        owner = condition.owner
        assert isinstance(owner, Operation)
        predicate = owner.properties["predicate"]
        assert isinstance(predicate, IntegerAttr)
        yield operands[0], CmpiOp.PREDICATES[predicate.value.data], operands[1]


def _limit(op: ContractOp, value: SSAValue, more: int, reduced: set[str]) -> Limit | None:
    """Return the limit ``value + more`` of an index. None if the value may differ between points of
    the reduction, cannot be computed outside it, or is a constant or a size."""
    if not isinstance(value.type, IntegerType | IndexType):
        return None
    ops, arguments = set[Operation](), dict[BlockArgument, None]()
    indices, left = set[str](), [value]
    while left:
        each = left.pop()
        owner = each.owner
        if isinstance(each, BlockArgument) and isinstance(owner, Block):
            forms = op.input_accesses[each.index]
            if owner is not op.combine.block or not _is_inside(op, each.index):
                return None
            arguments[each] = None
            indices |= {name for form in forms for name, _ in form.terms}
        elif isinstance(owner, Operation) and not isinstance(owner, ExtractOp):
            ops.add(owner)
            left += owner.operands
            if isinstance(owner, IndexOp):
                indices.add(owner.index.data)
        else:
            return None
    if indices & reduced or isinstance(value.owner, ConstantOp | SizeOp):
        return None
    return Limit(value, more, frozenset(ops), tuple(arguments), frozenset(indices))


def _is_inside(op: ContractOp, operand: int) -> bool:
    """Return whether an input of a statement is in bounds at all points. False if that depends on
    the values of symbols."""
    try:
        shape = shape_of(op.inputs[operand])
        return stays_inside(op.input_accesses[operand], shape, op.ranges)
    except UndecidedSizeError:
        return False
