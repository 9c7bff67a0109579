"""Functions in NumPy that cut arrays to the size that a program has found: native code has the
results of ops whose sizes depend on values in arrays with room for more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tessella.runtime.values import Array, Value


def first(inputs: Sequence[Value], *, axes: Sequence[int | None]) -> Sequence[Array]:
    """As many elements of arrays, along these axes, as the first operand says; all where there is
    no axis. The program has computed them, and room for more."""
    count, *found = inputs
    size = int(count)
    for i, axis in enumerate(axes):
        if axis is not None:
            found[i] = _part(found[i], size, axis)
    return found


def _part(x: Array, size: int, axis: int) -> Array:
    part = x[(*[slice(None)] * axis, slice(size))] if axis else x[:size]
    # a small part does not keep the memory of the whole
    return part if 2 * part.size > x.size and part.flags.c_contiguous else part.copy()


def first_coordinates(inputs: Sequence[Value]) -> Sequence[Array]:
    """As many coordinates as the first operand says, of arrays for each dimension."""
    count, *coordinates = inputs
    size = int(count)
    found = np.empty((len(coordinates), size), np.int64)
    for row, each in zip(found, coordinates, strict=True):
        row[:] = each[:size]
    return [found]


TRIMMING: Mapping[str, Callable[..., Sequence[Value]]] = {
    "first": first,
    "first_coordinates": first_coordinates,
}
