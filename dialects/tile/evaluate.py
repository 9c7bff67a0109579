"""The semantics of a statement in NumPy: all points of its index space are computed at once.

Schedules do not matter. Sums of floats are computed in float64 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from tessella.dialects.nn.core import Array, dtype_of, shape_of
from tessella.dialects.sizes import SizeOp
from tessella.dialects.tile.access import Access, Linear
from tessella.dialects.tile.bodies import ExtractOp, IndexOp, YieldOp, coordinates_of, yielded
from tessella.dialects.tile.limits import limits
from tessella.dialects.tile.ops import ContractOp
from tessella.dialects.tile.scalars import evaluate, scalar_dtype
from tessella.runtime.elements import converted, widened
from tessella.support.decisions import known, known_all
from tessella.support.errors import ExecutionError

_MOST = 1 << 22
"""The maximum number of elements of an array that is computed at once."""

Arrays = Mapping[SSAValue, Array]
Spans = Mapping[str, tuple[int, int]]
"""The first value and the end, exclusive, of each index in a block of the index space."""
Points = Mapping[str, Array]
"""The values of each index in an array that has a separate axis for each index, so that the arrays
broadcast."""

_AGGREGATIONS = {"+": np.add, "*": np.multiply, ">": np.maximum, "<": np.minimum}


def contract(op: ContractOp, arrays: Arrays) -> Array:
    """Return the result of a statement, given the arrays of its operands.

    Raises ExecutionError if a coordinate of `tile.extract` is out of range.
    """
    with np.errstate(all="ignore"):
        return _Statement(op, arrays).run()


class _Statement:
    def __init__(self, op: ContractOp, arrays: Arrays) -> None:
        self.op = op
        self.arrays = arrays
        indices = sorted(op.index_list, key=lambda index: not index.written)
        self.ranges = {index.name: int(index.range) for index in indices}
        self.free = {i.name: (0, int(i.range)) for i in indices if i.written}
        self.ranges |= self._limited()
        self.kind = scalar_dtype(yielded(op.combine.block).type)
        sums = op.aggregation.data in ("+", "*") and self.kind.kind == "f"
        self.total_kind = np.dtype(np.float64) if sums else self.kind

    def _limited(self) -> Mapping[str, int]:
        """Return the ranges of the indices, where an index with limits (`limits.py`) ends at the
        greatest of its limits. Empty if no index has limits, or if the index space is empty."""
        if not (found := limits(self.op)) or not all(self.ranges.values()):
            return {}
        block, points = self.op.combine.block, grid({**self.free, **dict.fromkeys(found, (0, 1))})
        ranges = dict(self.ranges)
        for name, each in found.items():
            for limit in each:
                numbers = {arg.index for arg in limit.arguments}
                given = [(self.op.inputs[i], self.op.input_accesses[i]) for i in sorted(numbers)]
                read, _ = self._elements([v for v, _ in given], [a for _, a in given], points)
                arguments: list[SSAValue] = [block.args[i] for i in sorted(numbers)]
                elements = dict(zip(arguments, read, strict=True))
                ops = (op for op in block.ops if op in limit.needed)
                values = values_of(ops, elements, points, self.arrays)
                end = int(values[limit.value].max()) + limit.more
                ranges[name] = max(0, min(ranges[name], end))
        return ranges

    def run(self) -> Array:
        if self.op.is_scatter:
            return self._scattered()
        totals = converted(self._along(self._totals()), self.kind)
        points, inside = grid(self.free), np.asarray(True)
        if self.op.post_block is not None:
            posts, inside = self._elements(self.op.post_inputs, self.op.post_accesses, points)
            totals = self._body(self.op.post_block, [totals, *posts], points)
        shape = [stop for _, stop in self.free.values()]
        return self._stored(np.broadcast_to(totals, shape), inside)

    def _scattered(self) -> Array:
        """Return the result of an indexed write: the init, with the values of all points aggregated
        at their coordinates, in order."""
        op, points = self.op, grid({n: (0, size) for n, size in self._loops.items()})
        assert op.init is not None
        result = np.array(self.arrays[op.init])
        elements, inside = self._counting(points)
        block = op.combine.block
        values = _values(block, elements, points, self.arrays)
        for index, coordinate in zip(op.scattered, coordinates_of(block), strict=True):
            points = {**points, index.name: values[coordinate]}
            held = (values[coordinate] >= 0) & (values[coordinate] < self.ranges[index.name])
            if op.checked is not None and not (held | ~inside).all():
                raise _out_of_range(values[coordinate], self.ranges[index.name])
            inside = inside & held
        at = [_value(form, points) for form in op.out_access]
        shape = [*self._loops.values()]
        counted = np.broadcast_to(inside, shape)
        where = tuple(np.broadcast_to(x, shape)[counted] for x in at)
        chosen = np.broadcast_to(values[yielded(block)], shape)[counted]
        if op.aggregation.data == "=":
            result[where] = chosen
        else:
            _AGGREGATIONS[op.aggregation.data].at(result, where, chosen)
        return result

    @property
    def _loops(self) -> Mapping[str, int]:
        """The ranges of the indices that are not scattered, reduced indices last."""
        scattered = {index.name for index in self.op.scattered}
        return {n: size for n, size in self.ranges.items() if n not in scattered}

    def _stored(self, totals: Array, reads: Array) -> Array:
        """Return the output: the init or zeros, with ``totals`` stored at the points in bounds at
        which ``reads`` is true."""
        op, shape = self.op, shape_of(self.op.res)
        result = np.zeros(shape, dtype_of(op.res.type))
        if op.init is not None:
            result[...] = self.arrays[op.init]
        position, inside = positions(op.out_access, known_all(shape), grid(self.free))
        where = np.broadcast_to(inside & reads, totals.shape)
        result.reshape(-1)[np.broadcast_to(position, totals.shape)[where]] = totals[where]
        return result

    def _totals(self) -> Array:
        """Return the aggregate over the reduced indices, for each point of the free indices."""
        shape = [stop for _, stop in self.free.values()]
        totals = np.full(shape, self._identity(), self.total_kind)
        for spans in self._blocks({name: (0, size) for name, size in self.ranges.items()}):
            slot = tuple(slice(*spans[name]) for name in self.free)
            found = self._block(spans)
            if not self.op.is_map:
                found = _AGGREGATIONS[self.op.aggregation.data](totals[slot], found)
            totals[slot] = found
        return totals

    def _along(self, totals: Array) -> Array:
        """Return the cumulative aggregates along the running index, given the aggregate at each of
        its values. Without a running index, return ``totals``."""
        index = self.op.running_index
        if index is None or index.running is None:
            return totals
        axis, aggregate = [*self.free].index(index.name), _AGGREGATIONS[self.op.aggregation.data]
        ordered = np.flip(totals, axis) if index.running.reverse else totals
        if index.running.exclusive:
            rest = np.take(ordered, range(ordered.shape[axis] - 1), axis)
            first = np.full_like(np.take(ordered, [0], axis), self._identity())
            ordered = np.concatenate([first, rest], axis)
        result = aggregate.accumulate(ordered, axis, dtype=self.total_kind)
        return np.flip(result, axis) if index.running.reverse else result

    def _identity(self) -> Any:
        """Return the value of an element before any point is aggregated: the identity of the
        aggregation, or the default of an assignment."""
        op, kind = self.op, self.kind
        if op.is_map:
            default = op.default
            number = default.value.data if isinstance(default, FloatAttr | IntegerAttr) else 0
            return converted(np.asarray(number), kind)
        if op.aggregation.data in ("+", "*"):
            return kind.type(op.aggregation.data == "*")
        if kind.kind == "f":
            return kind.type(-np.inf if op.aggregation.data == ">" else np.inf)
        low, high = (False, True) if kind.kind == "b" else (np.iinfo(kind).min, np.iinfo(kind).max)
        return kind.type(low if op.aggregation.data == ">" else high)

    def _blocks(self, spans: Spans) -> Iterator[Spans]:
        """Yield blocks of the index space, each with at most ``_MOST`` elements per array."""
        sizes = {name: stop - start for name, (start, stop) in spans.items()}
        if not all(sizes.values()):
            return
        if self._weight(sizes) <= _MOST:
            yield spans
            return
        name = max(sizes, key=sizes.__getitem__)
        start, stop = spans[name]
        middle = (start + stop) // 2
        yield from self._blocks({**spans, name: (start, middle)})
        yield from self._blocks({**spans, name: (middle, stop)})

    def _weight(self, sizes: Mapping[str, int]) -> int:
        """Return the number of elements of the largest array that a block computes: all points, or
        for a sum of products only the factors and the result."""
        if not self.op.is_multiply_add:
            return math.prod(sizes.values())
        names = [{n for form in forms for n, _ in form.terms} for forms in self.op.input_accesses]
        return max(math.prod(sizes[name] for name in group) for group in [*names, set(self.free)])

    def _counting(self, points: Points) -> tuple[list[Array], Array]:
        """Return the elements of the operands at the points, and a boolean array that tells which
        points are valid."""
        elements, inside = self._elements(self.op.inputs, self.op.input_accesses, points)
        for form, extent in self.op.where_list:
            value = _value(form, points)
            inside = inside & (value >= 0) & (value < extent)
        return elements, inside

    def _block(self, spans: Spans) -> Array:
        """Return the aggregate over the reduced indices of one block, for each point of its free
        indices."""
        points = grid(spans)
        elements, inside = self._counting(points)
        shape = [stop - start for start, stop in spans.values()]
        factors = [widened(x) for x in elements] if self.op.is_multiply_add else []
        if factors and (inside.all() or all(np.isfinite(x).all() for x in factors)):
            return self._product(factors, inside, shape)
        combined = self._body(self.op.combine.block, elements, points)
        if not inside.all():
            combined = np.where(inside, combined, self._identity())
        combined = np.broadcast_to(combined, shape)
        if self.op.is_map:
            return combined
        axes = tuple(range(len(self.free), len(shape)))
        aggregate = _AGGREGATIONS[self.op.aggregation.data]
        return aggregate.reduce(combined, axis=axes, dtype=self.total_kind)

    def _product(self, elements: Sequence[Array], inside: Array, shape: Sequence[int]) -> Array:
        """Return the sums of products in a block of the index space, computed by NumPy's einsum."""
        a, b = (x.astype(np.float64) for x in elements)
        a = a if inside.all() else np.where(inside, a, 0.0)
        axes = [[d for d, size in enumerate(x.shape) if size > 1] for x in (a, b)]
        known = {*axes[0], *axes[1]}
        free = [d for d in range(len(self.free)) if d in known]
        squeezed = (
            x.reshape([x.shape[d] for d in group]) for x, group in zip((a, b), axes, strict=True)
        )
        first, second = squeezed
        einsum: Callable[..., Array] = np.einsum
        total = einsum(first, axes[0], second, axes[1], free, optimize=True)
        counted = math.prod(
            n for d, n in enumerate(shape) if d >= len(self.free) and d not in known
        )
        kept = [shape[d] if d in known else 1 for d in range(len(self.free))]
        return np.broadcast_to(total.reshape(kept) * counted, shape[: len(self.free)])

    def _elements(
        self, values: Sequence[SSAValue], accesses: Sequence[Access], points: Points
    ) -> tuple[list[Array], Array]:
        """Return the elements that the accesses read at the points, and a boolean array that tells
        at which points all accesses are in bounds."""
        elements: list[Array] = []
        inside = np.asarray(True)
        for value, forms in zip(values, accesses, strict=True):
            array = self.arrays[value].reshape(-1)
            position, here = positions(forms, known_all(shape_of(value)), points)
            if not array.size:
                array, position = np.zeros(1, array.dtype), np.zeros_like(position)
            elements.append(array[position])
            inside = inside & here
        return elements, inside

    def _body(self, block: Block, arguments: Sequence[Array], points: Points) -> Array:
        """Return the values that a body yields for the elements of all points."""
        return body_values(block, arguments, points, self.arrays)


def body_values(block: Block, arguments: Sequence[Array], points: Points, arrays: Arrays) -> Array:
    """Return the values that a body yields for the elements of all points."""
    return _values(block, arguments, points, arrays)[yielded(block)]


def _values(
    block: Block, arguments: Sequence[Array], points: Points, arrays: Arrays
) -> Mapping[SSAValue, Array]:
    """Return all values that a body computes, given its arguments at all points."""
    values: dict[SSAValue, Array] = dict(zip(block.args, arguments, strict=True))
    return values_of(block.ops, values, points, arrays)


def values_of(
    ops: Iterable[Operation], elements: Arrays, points: Points, arrays: Arrays
) -> Mapping[SSAValue, Array]:
    """Return the values that the ops of a body compute at all points, together with ``elements``,
    the values from which they are computed."""
    values: dict[SSAValue, Array] = dict(elements)
    for op in ops:
        if isinstance(op, YieldOp):
            return values
        if isinstance(op, IndexOp):
            values[op.res] = points[op.index.data]
        elif isinstance(op, SizeOp):
            values[op.res] = np.array(known(op.value))
        elif isinstance(op, ExtractOp):
            values[op.res] = _extracted(op, [values[x] for x in op.coordinates], arrays)
        else:
            values[op.results[0]] = evaluate(op, [values[x] for x in op.operands])
    return values


def _extracted(op: ExtractOp, coordinates: Sequence[Array], arrays: Arrays) -> Array:
    for coordinate, extent in zip(coordinates, shape_of(op.source), strict=True):
        if ((coordinate < 0) | (coordinate >= extent)).any():
            raise _out_of_range(coordinate, known(extent))
    return arrays[op.source][tuple(coordinates)]


def _out_of_range(coordinate: Array, extent: int) -> ExecutionError:
    return ExecutionError(
        "an index is out of range",
        expected=f"0 to {extent - 1}",
        found=f"{coordinate.min()} to {coordinate.max()}",
    )


def grid(spans: Spans) -> Points:
    """Return the points in a block of the index space: all values of each index in ``spans``."""
    rank = len(spans)
    return {
        name: np.arange(*span).reshape([-1 if d == axis else 1 for d in range(rank)])
        for axis, (name, span) in enumerate(spans.items())
    }


def _value(form: Linear, points: Points) -> Array:
    start = np.asarray(form.constant, np.int64)
    return sum((points[name] * c for name, c in form.terms), start)


def positions(forms: Access, shape: Sequence[int], points: Points) -> tuple[Array, Array]:
    """Return the offsets of the elements that an access reads in a row-major array, and a boolean
    array that tells at which points the access is in bounds. Offsets are clipped to the array."""
    rank = next((x.ndim for x in points.values()), 0)
    position, inside = np.zeros([1] * rank, np.int64), np.ones([1] * rank, bool)
    for form, extent in zip(forms, shape, strict=True):
        value = _value(form, points)
        inside = inside & (value >= 0) & (value < extent)
        position = position * extent + np.clip(value, 0, max(extent - 1, 0))
    return position, inside
