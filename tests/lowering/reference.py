"""A reference for `tile.contract`: NumPy tries the points of its index space.

It has no notion of strides, layouts, schedules or loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr
from xdsl.ir import Attribute, Block, SSAValue

from tessella.dialects.arith import ConstantOp
from tessella.dialects.nn.core import dtype_of
from tessella.dialects.tile import Access, ContractOp, ExtractOp, IndexOp, Linear, YieldOp, yielded
from tessella.support.decisions import known
from tests.native import Array, known_shape

Arrays = Mapping[SSAValue, Array]
Points = Mapping[str, Array]
"""For each index its values, one for each point; under the empty name, zeros."""

_SCALARS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("arith.addf", "arith.addi"), np.add),
    **dict.fromkeys(("arith.subf", "arith.subi"), np.subtract),
    **dict.fromkeys(("arith.mulf", "arith.muli"), np.multiply),
    **dict.fromkeys(("arith.maximumf", "arith.maxsi"), np.maximum),
}
_CASTS = ("arith.index_cast", "arith.sitofp", "arith.extf", "arith.extsi")
_AGGREGATIONS = {"+": np.add, "*": np.multiply, ">": np.maximum, "<": np.minimum}


@np.errstate(all="ignore")
def run(op: ContractOp, arrays: Arrays, before: Array) -> Array:
    """The output of a statement, in memory that held something before."""
    ranges = {name: known(size) for name, size in op.ranges.items()}
    free = _points({i.name: ranges[i.name] for i in op.index_list if i.written})
    points = _valid(op, _points(ranges))
    inputs = _elements(op.inputs, op.input_accesses, arrays, points)
    combined = _body(op.combine.block, inputs, points, arrays)
    kind = _scalar_dtype(yielded(op.combine.block).type)
    totals = np.full(len(free[""]), _start(op, kind), kind)
    names = [name for name in free if name]
    slots = _position([Linear.of(n) for n in names], [ranges[n] for n in names], points)
    if op.is_map:
        totals[slots] = combined
    else:
        for chosen, among in _destinations(op, points, ranges):
            slots = _position([Linear.of(n) for n in names], [ranges[n] for n in names], among)
            _AGGREGATIONS[op.aggregation.data].at(totals, slots, combined[chosen])
    inside = _inside(zip(op.out_access, known_shape(op.res), strict=True), free)
    totals, free = totals[inside], _at(free, inside)
    if op.post_block is not None:
        posts = _elements(op.post_inputs, op.post_accesses, arrays, free)
        totals = _body(op.post_block, [totals, *posts], free, arrays)
    result = before.copy()
    result.reshape(-1)[_position(op.out_access, known_shape(op.res), free)] = totals
    return result


def _destinations(
    op: ContractOp, points: Points, ranges: Mapping[str, int]
) -> Iterable[tuple[Array, Points]]:
    """Points, and the elements that each of them counts in; with a running index, for each of its
    values."""
    index = op.running_index
    if index is None or index.running is None:
        yield points[""] == 0, points
        return
    for value in range(ranges[index.name]):
        at = points[index.name]
        before = at > value if index.running.reverse else at < value
        chosen = before if index.running.exclusive else before | (at == value)
        among = _at(points, chosen)
        yield chosen, {**among, index.name: among[""] + value}


def _points(ranges: Mapping[str, int]) -> Points:
    count = math.prod(ranges.values())
    grid = np.indices(tuple(ranges.values()), np.int64).reshape(len(ranges), count)
    return {**dict(zip(ranges, grid, strict=True)), "": np.zeros(count, np.int64)}


def _value(form: Linear, points: Points) -> Array:
    start = points[""] + known(form.constant)
    return sum((points[name] * c for name, c in form.terms), start)


def _valid(op: ContractOp, points: Points) -> Points:
    """The points at which the inputs' accesses stay inside, and the constraints hold."""
    constraints = [(form, known(extent)) for form, extent in op.where_list]
    for value, forms in zip(op.inputs, op.input_accesses, strict=True):
        constraints += zip(forms, known_shape(value), strict=True)
    return _at(points, _inside(constraints, points))


def _inside(constraints: Iterable[tuple[Linear, int]], points: Points) -> Array:
    """At which points the forms are at least 0 and below their extents."""
    valid = points[""] == 0
    for form, extent in constraints:
        value = _value(form, points)
        valid &= (value >= 0) & (value < extent)
    return valid


def _at(points: Points, chosen: Array) -> Points:
    return {name: values[chosen] for name, values in points.items()}


def _position(forms: Sequence[Linear], shape: Sequence[int], points: Points) -> Array:
    """Return the positions of elements in a row-major array. Raises IndexError outside of it."""
    position = points[""]
    for form, extent in zip(forms, shape, strict=True):
        value = _value(form, points)
        if ((value < 0) | (value >= extent)).any():
            raise IndexError(f"{form} is outside of {extent}")
        position = position * extent + value
    return position


def _elements(
    values: Sequence[SSAValue], accesses: Sequence[Access], arrays: Arrays, points: Points
) -> list[Array]:
    return [
        arrays[value].reshape(-1)[_position(forms, known_shape(value), points)]
        for value, forms in zip(values, accesses, strict=True)
    ]


def _start(op: ContractOp, kind: np.dtype[Any]) -> Any:
    """Return the value of an element before any point."""
    if op.is_map:
        return 0 if op.default is None else _number(op.default)
    lowest, highest = (
        (-np.inf, np.inf) if kind.kind == "f" else (np.iinfo(kind).min, np.iinfo(kind).max)
    )
    return {"+": 0, "*": 1, ">": lowest, "<": highest}[op.aggregation.data]


def _number(attribute: Attribute) -> float:
    assert isinstance(attribute, FloatAttr | IntegerAttr)
    return attribute.value.data


def _body(block: Block, arguments: Sequence[Array], points: Points, arrays: Arrays) -> Array:
    """Return what a body yields, for the elements of all points at once."""
    values: dict[SSAValue, Array] = dict(zip(block.args, arguments, strict=True))
    for op in block.ops:
        operands = [values[v] for v in op.operands if v in values]
        match op:
            case YieldOp():
                return operands[0]
            case IndexOp():
                result = points[op.index.data]
            case ExtractOp():
                result = arrays[op.source][tuple(operands)]
            case ConstantOp():
                result = np.full(len(points[""]), _number(op.value), _scalar_dtype(op.result.type))
            case _ if op.name in _CASTS:
                result = operands[0].astype(_scalar_dtype(op.results[0].type))
            case _:
                result = _SCALARS[op.name](*operands)
        values[op.results[0]] = result
    raise AssertionError("a body without tile.yield")


def _scalar_dtype(type: Attribute) -> np.dtype[Any]:
    return np.dtype(np.int64 if isinstance(type, IndexType) else dtype_of(type))
