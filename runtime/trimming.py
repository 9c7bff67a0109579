"""NumPy functions that trim arrays to a computed size.

Native code stores results whose sizes depend on values in arrays of the largest possible size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tessella.runtime.values import Array, Value


def first(inputs: Sequence[Value], *, axes: Sequence[int | None]) -> Sequence[Array]:
    """Return the first elements of arrays along these axes; None stands for a whole array.

    The first operand is the number of elements. The rest of each array is spare room.
    """
    count, *found = inputs
    size = int(count)
    for i, axis in enumerate(axes):
        if axis is not None:
            found[i] = _part(found[i], size, axis)
    return found


def _part(x: Array, size: int, axis: int) -> Array:
    if not axis:
        part = x[:size]
        # a small part does not keep the memory of the whole
        return part if 4 * size > len(x) else part.copy()
    part = x[(*[slice(None)] * axis, slice(size))]
    return part if 4 * part.size > x.size and part.flags.c_contiguous else part.copy()


def coordinates(inputs: Sequence[Value]) -> Sequence[Array]:
    """Return the coordinates of elements of an array: a row for each dimension, a column for each
    element.

    The operands are the number of elements, their row-major positions, and the array's shape.
    """
    count, places, sizes = inputs
    rest = places[: int(count)]
    found = np.empty((len(sizes), len(rest)), np.int64)
    for row, size in zip(found[:0:-1], sizes[:0:-1].tolist(), strict=True):
        outer = rest // size
        np.subtract(rest, outer * size, out=row)
        rest = outer
    found[:1] = rest  # the position in an array of rank 0 has no coordinates
    return [found]


TRIMMING: Mapping[str, Callable[..., Sequence[Value]]] = {
    "coordinates": coordinates,
    "first": first,
}
