"""Converters of ops that move elements."""

from __future__ import annotations

from collections.abc import Sequence

from tessella.dialects import nn
from tessella.dialects.nn.core import normalise_axis
from tessella.frontends.emitter import Emitter, Value, concat, where
from tessella.frontends.ranges import StridedIndices
from tessella.frontends.shapes import resolved_shape
from tessella.frontends.torch.ops.creation import filled, positions
from tessella.frontends.torch.promote import promoted
from tessella.frontends.torch.registry import aten, refuse
from tessella.support.conditions import decided
from tessella.support.decisions import decided_max, differs
from tessella.support.sizes import Expr, Size

LAST = (1 << 63) - 1
"""The end of a slice that reaches to the end."""


@aten("view", "_unsafe_view")
def view(emit: Emitter, x: Value, size: Sequence[Size], *_: object) -> Value:
    return x.reshape(resolved_shape(x.shape, size))


@aten("expand")
def expand(emit: Emitter, x: Value, size: Sequence[Size], *, implicit: bool = False) -> Value:
    more = len(size) - x.rank
    sizes = [x.shape[d - more] if n == -1 else n for d, n in enumerate(size)]
    return x.expand(tuple(sizes))


@aten("permute")
def permute(emit: Emitter, x: Value, dims: Sequence[int]) -> Value:
    return x.transpose([normalise_axis(d, x.rank) for d in dims])


@aten("transpose.int")
def transpose(emit: Emitter, x: Value, dim0: int, dim1: int) -> Value:
    perm = [*range(x.rank)]
    if perm:
        perm[dim0], perm[dim1] = perm[dim1], perm[dim0]
    return x.transpose(perm)


@aten("t")
def t(emit: Emitter, x: Value) -> Value:
    return x.transpose([*reversed(range(x.rank))])


@aten("unsqueeze")
def unsqueeze(emit: Emitter, x: Value, dim: int) -> Value:
    axis = normalise_axis(dim, x.rank + 1)
    return x.reshape((*x.shape[:axis], 1, *x.shape[axis:]))


@aten("squeeze", "squeeze.dim", "squeeze.dims")
def squeeze(emit: Emitter, x: Value, dim: int | Sequence[int] | None = None) -> Value:
    given = [dim] if isinstance(dim, int) else range(x.rank) if dim is None else dim
    axes = {normalise_axis(d, x.rank) for d in given} if x.rank else set[int]()
    gone = {d for d in axes if not differs(x.shape[d], 1)}
    return x.reshape([n for d, n in enumerate(x.shape) if d not in gone])


@aten("select.int")
def select(emit: Emitter, x: Value, dim: int, index: Size) -> Value:
    axis = normalise_axis(dim, x.rank)
    start = index + x.shape[axis] if decided(index < 0) else index
    part = x.part(axis, start, 1)
    return part.reshape([n for d, n in enumerate(x.shape) if d != axis])


def _sliced(
    x: Value, dim: int, start: Size | None, end: Size | None, step: int
) -> tuple[int, StridedIndices]:
    axis = normalise_axis(dim, x.rank)
    stop = None if end == LAST else end
    return axis, StridedIndices.sliced(slice(start, stop, step), x.shape[axis])


@aten("slice.Tensor")
def slice_(
    emit: Emitter,
    x: Value,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: int = 1,
) -> Value:
    axis, found = _sliced(x, dim, start, end, step)
    starts, sizes, steps = [0] * x.rank, [*x.shape], [1] * x.rank
    given: list[Size] = [*starts]
    given[axis], sizes[axis], steps[axis] = found.start, found.count, found.step
    return x.slice(given, sizes, steps)


@aten("slice_scatter")
def slice_scatter(
    emit: Emitter,
    x: Value,
    source: Value,
    dim: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: int = 1,
) -> Value:
    axis, found = _sliced(x, dim, start, end, step)
    source = source.cast(x.dtype)
    if found.step == 1:
        after = x.shape[axis] - found.start - found.count
        parts = [x.part(axis, 0, found.start), source]
        parts.append(x.part(axis, found.start + found.count, after))
        return concat([p for p in parts if p.shape[axis] != 0] or [x], axis)
    shape = [1] * x.rank
    shape[axis] = -1
    places = positions(emit, found.count) * found.step + found.start
    indices = places.reshape(resolved_shape((found.count,), shape)).expand(source.shape)
    return x.op(nn.ScatterElementsOp, indices, source, axis=axis, reduction="none")


@aten("select_scatter")
def select_scatter(emit: Emitter, x: Value, source: Value, dim: int, index: Size) -> Value:
    axis = normalise_axis(dim, x.rank)
    start = index + x.shape[axis] if decided(index < 0) else index
    return slice_scatter(emit, x, unsqueeze(emit, source, axis), axis, start, start + 1)


@aten("cat")
def cat(emit: Emitter, tensors: Sequence[Value], dim: int = 0) -> Value:
    # a vector without elements is left out, whatever the rank of the others
    kept = [x for x in tensors if x.shape != (0,)] or [*tensors[:1]]
    values = promoted(emit, *kept)
    return concat(values, normalise_axis(dim, values[0].rank))


@aten("stack")
def stack(emit: Emitter, tensors: Sequence[Value], dim: int = 0) -> Value:
    axis = normalise_axis(dim, tensors[0].rank + 1)
    return concat([unsqueeze(emit, x, axis) for x in promoted(emit, *tensors)], axis)


@aten("split_with_sizes")
def split_with_sizes(emit: Emitter, x: Value, sizes: Sequence[Size], dim: int = 0) -> list[Value]:
    axis, start = normalise_axis(dim, x.rank), 0
    parts: list[Value] = []
    for size in sizes:
        parts.append(x.part(axis, start, size))
        start = start + size
    return parts


@aten("split.Tensor", note="a known number of parts")
def split(emit: Emitter, x: Value, size: int, dim: int = 0) -> list[Value]:
    total = x.shape[normalise_axis(dim, x.rank)]
    if not isinstance(total, int):
        raise refuse("a split into an unknown number of parts", total)
    count = max(1, -(-total // size)) if size else 1
    return split_with_sizes(emit, x, [min(size, total - i * size) for i in range(count)], dim)


@aten("unbind.int")
def unbind(emit: Emitter, x: Value, dim: int = 0) -> list[Value]:
    count = x.shape[normalise_axis(dim, x.rank)]
    if not isinstance(count, int):
        raise refuse("an unknown number of parts", count)
    return [select(emit, x, dim, i) for i in range(count)]


@aten("flip")
def flip(emit: Emitter, x: Value, dims: Sequence[int]) -> Value:
    axes = {normalise_axis(d, x.rank) for d in dims}
    starts = [n - 1 if d in axes else 0 for d, n in enumerate(x.shape)]
    return x.slice(starts, x.shape, [-1 if d in axes else 1 for d in range(x.rank)])


@aten("roll")
def roll(
    emit: Emitter, x: Value, shifts: Sequence[Size] | Size, dims: Sequence[int] | int = ()
) -> Value:
    moves: Sequence[Size] = [shifts] if isinstance(shifts, int | Expr) else shifts
    axes: Sequence[int] = [dims] if isinstance(dims, int) else dims
    if not axes:
        return roll(emit, x.flat(), moves, [0]).reshape(x.shape)
    for move, dim in zip(moves, axes, strict=True):
        axis = normalise_axis(dim, x.rank)
        size = x.shape[axis]
        if size == 0:
            return x
        start = move % size if isinstance(size, int) else _wrapped(move, size)
        if start != 0:
            parts = [x.part(axis, size - start, start), x.part(axis, 0, size - start)]
            x = concat(parts, axis)
    return x


def _wrapped(move: Size, size: Size) -> Size:
    """Return a shift by less than the size, counted from the front."""
    if not decided(move < size) or not decided(move >= -size):
        raise refuse("a roll around a symbolic size", f"{move} of {size}")
    return move + size if decided(move < 0) else move


@aten("repeat")
def repeat(emit: Emitter, x: Value, repeats: Sequence[Size]) -> Value:
    full = x.reshape((*[1] * (len(repeats) - x.rank), *x.shape))
    return full.op(nn.TileOp, repeats=tuple(repeats))


@aten("constant_pad_nd")
def constant_pad_nd(emit: Emitter, x: Value, pad: Sequence[Size], value: float = 0) -> Value:
    low: list[Size] = [0] * x.rank
    high: list[Size] = [0] * x.rank
    for i in range(len(pad) // 2):
        low[x.rank - 1 - i], high[x.rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    # negative padding cuts elements off
    starts = [-n if decided(n < 0) else 0 for n in low]
    cut = [s + (-n if decided(n < 0) else 0) for s, n in zip(starts, high, strict=True)]
    if any(n != 0 for n in cut):
        sizes = [n - c for n, c in zip(x.shape, cut, strict=True)]
        x = x.slice(starts, sizes)
    low, high = ([decided_max(n, 0) for n in side] for side in (low, high))
    return x.pad(low, high, float(value))


def _distance(emit: Emitter, x: Value) -> Value:
    """Emit the number of each element's column minus that of its row."""
    rows, columns = x.shape[-2:]
    return positions(emit, columns).reshape((1, columns)) - positions(emit, rows).reshape((rows, 1))


@aten("tril")
def tril(emit: Emitter, x: Value, diagonal: int = 0) -> Value:
    return where(_distance(emit, x) <= diagonal, x, 0)


@aten("triu")
def triu(emit: Emitter, x: Value, diagonal: int = 0) -> Value:
    return where(_distance(emit, x) >= diagonal, x, 0)


@aten("diagonal")
def diagonal(emit: Emitter, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    x = x.transpose(_matrix_order(x.rank, dim1, dim2))
    rows, columns = x.shape[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise refuse("a diagonal of symbolic sizes", x.type)
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    flat = x.reshape((*x.shape[:-2], rows * columns))
    start = max(offset, 0) - min(offset, 0) * columns
    if not count:
        return flat.part(flat.rank - 1, 0, 0)
    sizes = (*flat.shape[:-1], count)
    return flat.slice([*[0] * (flat.rank - 1), start], sizes, [*[1] * (flat.rank - 1), columns + 1])


@aten("unfold", note="known sizes")
def unfold(emit: Emitter, x: Value, dim: int, size: int, step: int) -> Value:
    if not x.rank:
        return x.reshape((1,)).part(0, 0, size)
    axis = normalise_axis(dim, x.rank)
    total = x.shape[axis]
    if not isinstance(total, int):
        raise refuse("a window over a symbolic size", total)
    count = (total - size) // step + 1
    starts = positions(emit, count) * step
    places = starts.reshape((count, 1)) + positions(emit, size).reshape((1, size))
    windows = x.gather(places, axis)
    rank = windows.rank
    return windows.transpose([*(d for d in range(rank) if d != axis + 1), axis + 1])


@aten("pixel_shuffle")
def pixel_shuffle(emit: Emitter, x: Value, factor: int) -> Value:
    *batch, channels, height, width = x.shape
    rank, out = len(batch), channels // (factor * factor)
    parts = x.reshape((*batch, out, factor, factor, height, width))
    order = [*range(rank + 1), rank + 3, rank + 1, rank + 4, rank + 2]
    return parts.transpose(order).reshape((*batch, out, height * factor, width * factor))


def _on_diagonal(x: Value, source: Value, offset: int) -> Value:
    """Emit matrices with the elements of ``source`` on a diagonal."""
    rows, columns = x.shape[-2:]
    count = source.shape[-1]
    more = (columns if offset < 0 else rows) - count
    padded = source.pad([0] * source.rank, [0] * (source.rank - 1) + [more])
    lines = (1, columns) if offset < 0 else (rows, 1)
    return where(_distance(x.emitter, x).equals(offset), padded.reshape((*x.shape[:-2], *lines)), x)


def _matrix_order(rank: int, dim1: int, dim2: int) -> list[int]:
    """Return the order that puts two dimensions last."""
    first, second = (normalise_axis(d, rank) for d in (dim1, dim2))
    return [*(d for d in range(rank) if d not in (first, second)), first, second]


@aten("diag_embed")
def diag_embed(emit: Emitter, x: Value, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Value:
    size = x.shape[-1] + abs(offset)
    zeros = filled(emit, 0, (*x.shape[:-1], size, size), x.dtype)
    order = _matrix_order(x.rank + 1, dim1, dim2)
    return _on_diagonal(zeros, x, offset).transpose([order.index(d) for d in range(len(order))])


@aten("diagonal_scatter")
def diagonal_scatter(
    emit: Emitter, x: Value, source: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    order = _matrix_order(x.rank, dim1, dim2)
    found = _on_diagonal(x.transpose(order), source.cast(x.dtype), offset)
    return found.transpose([order.index(d) for d in range(x.rank)])
