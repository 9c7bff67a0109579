"""The semantics of the statements that select values of rows (sorts and greedy selections), in
NumPy. Schedules do not matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from tessella.dialects.nn.core import Array, dtype_of, shape_of
from tessella.dialects.tile.access import Access
from tessella.dialects.tile.evaluate import Arrays, Points, body_values, grid, positions
from tessella.dialects.tile.sort import SortOp
from tessella.dialects.tile.suppress import SuppressOp
from tessella.runtime.host.reduction import topk
from tessella.support.decisions import known, known_all


@np.errstate(all="ignore")
def selected(op: SortOp, arrays: Arrays) -> list[Array]:
    """Return the results of a sort, given the arrays of its operands."""
    keys, _ = _keys(op, arrays)
    count = known(op.count)
    _, places = topk(keys, k=count, axis=keys.ndim - 1, largest=op.descending is not None)
    taken = {**{index.name: (0, int(index.range)) for index in op.free}, op.along.name: (0, count)}
    results: list[Array] = []
    for value, array in zip(
        op.results, (np.take_along_axis(keys, places, -1), places), strict=True
    ):
        result = np.zeros(shape_of(value), dtype_of(value.type))
        at, _ = positions(op.out_access, known_all(shape_of(value)), grid(taken))
        result.reshape(-1)[np.broadcast_to(at, array.shape)] = array
        results.append(result)
    return results


@np.errstate(all="ignore")
def suppressed(op: SuppressOp, arrays: Arrays) -> list[Array]:
    """Return the results of a greedy selection, given the arrays of its operands."""
    keys, points = _keys(op, arrays)
    sizes = keys.shape
    items = _elements(op.items, op.item_accesses, points, arrays)
    items = [np.broadcast_to(item, sizes) for item in items]
    (limits,) = _elements([op.limit], op.access_list[-1:], points, arrays)
    limits = np.broadcast_to(limits, [*sizes[:-1], 1])[..., 0]
    places, counts = (np.zeros(shape_of(x), np.int64) for x in op.results)
    for row in np.ndindex(*sizes[:-1]):
        most = min(known(op.count), int(limits[row]))
        kept = _kept(op, keys[row], [item[row] for item in items], most, arrays)
        places[row][: len(kept)], counts[row] = kept, len(kept)
    return [places, counts]


def _kept(
    op: SuppressOp, keys: Array, items: Sequence[Array], most: int, arrays: Arrays
) -> list[Any]:
    """Return the positions that a greedy selection keeps of one row, best key first."""
    _, order = topk(keys, k=len(keys), axis=0, largest=True)
    kept: list[Any] = []
    for place in order[keys[order] == keys[order]]:
        if len(kept) >= most:
            break
        pair = [*(item[kept] for item in items), *(item[place] for item in items)]
        if not np.any(body_values(op.ruling.block, pair, {}, arrays) & (len(kept) > 0)):
            kept.append(place)
    return kept


def joined(places: Array, counts: Array) -> list[Array]:
    """Return the results of a `tile.join`: an array with the coordinates of each selected value, in
    the order of the rows that they are selected from, followed by zeros; and the number of selected
    values."""
    order: Array = np.arange(int(places.shape[-1]))
    is_value: Array = np.less(order, counts[..., None])
    rows = np.zeros((places.size, places.ndim), np.int64)
    where = np.nonzero(is_value)
    count = len(where[0])
    rows[:count] = np.stack([*where[:-1], places[where]], axis=-1)
    return [rows, np.array(count)]


def _keys(op: SortOp | SuppressOp, arrays: Arrays) -> tuple[Array, Points]:
    """Return the key of each value of each row, and the points of the index space."""
    sizes = {index.name: int(index.range) for index in (*op.free, op.along)}
    points = grid({name: (0, size) for name, size in sizes.items()})
    elements = _elements(op.inputs, op.input_accesses, points, arrays)
    keys = body_values(op.combine.block, elements, points, arrays)
    return np.broadcast_to(keys, [*sizes.values()]), points


def _elements(
    values: Sequence[SSAValue], accesses: Sequence[Access], points: Points, arrays: Arrays
) -> list[Array]:
    """Return the elements of the operands that the accesses read at the points."""
    return [
        arrays[value].reshape(-1)[positions(forms, known_all(shape_of(value)), points)[0]]
        for value, forms in zip(values, accesses, strict=True)
    ]
