"""Kernels of gathers and scatters: elements read and written at computed coordinates, which are
checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, i64
from xdsl.ir import SSAValue

from tessella.dialects.elements import attribute_of, is_unsigned
from tessella.dialects.layout import NCHW
from tessella.dialects.nn import indexing
from tessella.dialects.nn.core import NnOp, Tensor, shape_of
from tessella.kernels.builder import Form, KernelBuilder, Scalars
from tessella.kernels.elements import GATHERED, SCATTERED
from tessella.kernels.registry import native
from tessella.support.sizes import Size

Coordinate = Callable[[Scalars, SSAValue, Size], SSAValue]
"""``at(scalars, index, extent)``: emits the coordinate for an index into a dimension of this
extent."""


def coordinate(s: Scalars, value: SSAValue, extent: Size) -> SSAValue:
    """Convert an index to a coordinate; a negative index counts from the back."""
    index = s.op(arith.IndexCastOp(value, IndexType()))
    negative = s.op(arith.CmpiOp(index, s.like(0, index), "slt"))
    wrapped = s.op(arith.AddiOp(index, s.size(extent)))
    return s.op(arith.SelectOp(negative, wrapped, index))


def clamped(s: Scalars, value: SSAValue, extent: Size) -> SSAValue:
    """Convert an index to a coordinate; an index out of range gives the nearest coordinate."""
    last = s.size(extent - 1)
    if is_unsigned(value.type):
        limit = s.cast(s.op(arith.IndexCastOp(last, i64)), attribute_of("u64"))
        least = s.op(arith.MinUIOp(s.cast(value, limit.type), limit))
        return s.op(arith.IndexCastOp(s.cast(least, i64), IndexType()))
    index = s.op(arith.IndexCastOp(value, IndexType()))
    first = s.like(0, index)
    above = s.op(arith.SelectOp(s.op(arith.CmpiOp(index, first, "slt")), first, index))
    return s.op(arith.SelectOp(s.op(arith.CmpiOp(above, last, "sgt")), last, above))


def gathered(
    k: KernelBuilder, data: SSAValue, indices: SSAValue, axis: int, type: Tensor, at: Coordinate
) -> SSAValue:
    """Emit the gather R[a.., i.., b..] = D[a.., at(I[i..]), b..], where ``axis`` is the indexed
    dimension of D."""
    extent, rank = shape_of(data)[axis], len(shape_of(indices))
    names = [f"d{i}" for i in range(len(shape_of(type)))]
    before, middle, after = names[:axis], names[axis : axis + rank], names[axis + rank :]

    def body(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
        place = at(s, a[0], extent)
        return s.extract(data, [*(s.index(n) for n in before), place, *(s.index(n) for n in after)])

    free = dict(zip(names, shape_of(type), strict=True))
    return k.contract("=", free, {}, [(indices, list(middle))], (type, list(names)), body)


def scattered(
    k: KernelBuilder,
    aggregation: str,
    start: SSAValue,
    indices: tuple[SSAValue, Sequence[Sequence[Form]]],
    updates: SSAValue,
    at: Coordinate,
) -> SSAValue:
    """Emit the scatter R[at(I[i.., 0]), .., at(I[i.., q - 1]), b..] op= U[i.., b..]. R is ``start``
    at first.

    ``indices`` has the tensor I and, for each of the q indexed dimensions, the trailing coordinates
    that select its index; these are empty if I has no dimension for them, as q is 1.
    """
    chosen, columns = indices
    shape, depth = shape_of(start), len(columns)
    rank = len(shape_of(chosen)) - len(columns[0])
    names = [f"d{i}" for i in range(len(shape_of(updates)))]
    ranges = dict(zip(names, shape_of(updates), strict=True))
    reduced = {name: ranges.pop(name) for name in names[:rank]}
    places = {f"at{q}": shape[q] for q in range(depth)}

    def body(s: Scalars, a: Sequence[SSAValue]) -> tuple[SSAValue, Sequence[SSAValue]]:
        return a[depth], [at(s, value, shape[q]) for q, value in enumerate(a[:depth])]

    reads: list[tuple[SSAValue, Sequence[Form]]] = [(chosen, [*names[:rank], *q]) for q in columns]
    reads.append((updates, [*names]))
    out: list[Form] = [*places, *names[rank:]]
    return k.scatter(aggregation, (ranges, reduced), places, reads, (start, out), body)


@native(indexing.GatherOp, "gather", NCHW, elements=GATHERED)
def gather(k: KernelBuilder, op: indexing.GatherOp, data: SSAValue, indices: SSAValue) -> SSAValue:
    """Emit R[a.., i.., b..] = D[a.., I[i..], b..]."""
    return gathered(k, data, indices, op.settings["axis"], k.result_type(op), coordinate)


@native(indexing.GatherElementsOp, "gather_elements", NCHW, elements=GATHERED)
def gather_elements(
    k: KernelBuilder, op: indexing.GatherElementsOp, data: SSAValue, indices: SSAValue
) -> SSAValue:
    """Emit R[d0, .., d_n] = D[d0, .., I[d0, .., d_n], .., d_n]."""
    axis: int = op.settings["axis"]
    type = k.result_type(op)
    names = [f"d{i}" for i in range(len(shape_of(type)))]

    def body(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
        at = coordinate(s, a[0], shape_of(data)[axis])
        return s.extract(data, [at if n == names[axis] else s.index(n) for n in names])

    free = dict(zip(names, shape_of(type), strict=True))
    return k.contract("=", free, {}, [(indices, list(names))], (type, list(names)), body)


@native(indexing.GatherNdOp, "gather_nd", NCHW, elements=GATHERED)
def gather_nd(
    k: KernelBuilder, op: indexing.GatherNdOp, data: SSAValue, indices: SSAValue
) -> SSAValue:
    """Emit R[i.., b..] = D[batch.., I[i.., 0], .., I[i.., q - 1], b..]."""
    batch: int = op.settings["batch_dims"]
    type = k.result_type(op)
    shape, depth = shape_of(data), shape_of(indices)[-1]
    rank = len(shape_of(indices)) - 1
    names = [f"d{i}" for i in range(len(shape_of(type)))]
    reads: list[tuple[SSAValue, list[Form]]] = [(indices, [*names[:rank], q]) for q in range(depth)]

    def body(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
        at = [coordinate(s, value, shape[batch + q]) for q, value in enumerate(a)]
        outer = [s.index(n) for n in names[:batch]]
        inner = [s.index(n) for n in names[rank:]]
        return s.extract(data, [*outer, *at, *inner])

    free = dict(zip(names, shape_of(type), strict=True))
    return k.contract("=", free, {}, reads, (type, list(names)), body)


AGGREGATIONS = {"none": "=", "add": "+", "mul": "*", "max": ">", "min": "<"}
"""The aggregation for each value of a scatter's attribute ``reduction``."""


@native(indexing.ScatterElementsOp, "scatter_elements", NCHW, elements=SCATTERED)
def scatter_elements(
    k: KernelBuilder,
    op: indexing.ScatterElementsOp,
    data: SSAValue,
    indices: SSAValue,
    updates: SSAValue,
) -> SSAValue:
    """Emit R[d0, .., I[d0, .., d_n], .., d_n] op= U[d0, .., d_n], where R is a copy of D at
    first."""
    axis: int = op.settings["axis"]
    type, aggregation = k.result_type(op), _aggregation(k, op)
    names = [f"d{i}" for i in range(len(shape_of(data)))]
    ranges = dict(zip(names, shape_of(updates), strict=True))
    reduced = {names[axis]: ranges.pop(names[axis])}
    extent = shape_of(data)[axis]
    out: list[Form] = [*names[:axis], "at", *names[axis + 1 :]]

    def body(s: Scalars, a: Sequence[SSAValue]) -> tuple[SSAValue, Sequence[SSAValue]]:
        return a[1], [coordinate(s, a[0], extent)]

    reads: list[tuple[SSAValue, list[Form]]] = [(indices, [*names]), (updates, [*names])]
    start = _copied(k, data, type)
    loops, places = (ranges, reduced), {"at": extent}
    return k.stored(k.scatter(aggregation, loops, places, reads, (start, out), body), type)


@native(indexing.ScatterNdOp, "scatter_nd", NCHW, elements=SCATTERED)
def scatter_nd(
    k: KernelBuilder,
    op: indexing.ScatterNdOp,
    data: SSAValue,
    indices: SSAValue,
    updates: SSAValue,
) -> SSAValue:
    """Emit R[I[i.., 0], .., I[i.., q - 1], b..] op= U[i.., b..], where R is a copy of D at
    first."""
    type, aggregation = k.result_type(op), _aggregation(k, op)
    columns = [[q] for q in range(int(shape_of(indices)[-1]))]
    start = _copied(k, data, type)
    return k.stored(scattered(k, aggregation, start, (indices, columns), updates, coordinate), type)


def _copied(k: KernelBuilder, data: SSAValue, type: Tensor) -> SSAValue:
    """Return a tensor that later statements may write, with a copy of ``data``."""
    number = k.splat(data)
    if number is None:
        return k.map([data], type, lambda s, a: a[0])
    element = k.computed(type.element_type)
    return k.map([], type, lambda s, _: s.constant(number, element))


def _aggregation(k: KernelBuilder, op: NnOp) -> str:
    """Return the aggregation of a scatter. A scatter that only assigns is marked as one that moves
    elements, by ``k.computes``.

    Other aggregations compute with narrow floats in a wider type.
    """
    aggregation = AGGREGATIONS[op.settings["reduction"]]
    if aggregation == "=":
        k.computes = None
    return aggregation
