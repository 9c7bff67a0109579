"""Searching in sorted values."""

from __future__ import annotations

import numpy as np

from tessella.dialects import nn
from tessella.frontends.emitter import Value, where
from tessella.support.sizes import bounds_of, product

_INT64 = np.dtype(np.int64)


def found_places(ordered: Value, values: Value, side: str) -> Value:
    """Emit for each of ``values`` the number of elements of a sorted row that are less, or with
    the side ``right`` less or equal. NaN counts as greater than all numbers.

    ``ordered`` is one sorted row, or a row for each row of ``values``. Bisection searches for all
    values at once, with as many iterations as the largest possible size of a row takes.
    """
    size, elements, start = ordered.shape[-1], ordered.flat(), _starts(ordered)
    place = ordered.emitter.splat(0, values.shape, _INT64)
    if size == 0:
        return place
    before = Value.__lt__ if side == "left" else Value.__le__

    def at(place: Value) -> Value:
        return elements.gather(place if start is None else place + start, 0)

    for step in range((bounds_of(size)[1] - 1).bit_length()):
        # half of the ceil(size / 2**step) elements that remain; 0 once a smaller actual size needs
        # no more iterations
        half = (size + (1 << step) - 1) // (2 << step)
        last = place + half - 1  # half - 1 may be negative, and a size may not
        place = where(before(at(last), values), place + half, place)
    place = place + before(at(place), values).cast(_INT64)
    if not values.is_float:
        return place
    numbers = ordered.equals(ordered).cast(_INT64)
    numbers = numbers.sum([ordered.rank - 1], keepdims=ordered.rank > 1)
    return where(values.equals(values), place, numbers if side == "left" else size)


def _starts(ordered: Value) -> Value | None:
    """Emit the place of the first element of each row; None for a single row."""
    *batch, size = ordered.shape
    if not batch:
        return None
    rows = ordered.emitter.emit(nn.IotaOp, count=product(batch))[0]
    return (rows * size).reshape((*batch, 1))
