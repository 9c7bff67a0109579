"""The positions at which max pooling finds the largest element of each window."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tessella.dialects import nn
from tessella.frontends.emitter import Array, Value, where
from tessella.support.decisions import known_all

MOST_POINTS = 64
"""Limit on the number of elements of a window whose positions are computed: each element takes a
comparison."""


def largest_places(
    x: Value,
    largest: Value,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
) -> Value:
    """Emit for each window the lowest position in its image of an element that is the largest one,
    or NaN.

    ``largest`` is the result of the pooling of x[N, C, spatial..]. Positions are row-major, as
    int32 or int64. Raises UndecidedSizeError for symbolic spatial sizes.
    """
    rank, sizes, extents = len(kernel), known_all(x.shape[2:]), known_all(largest.shape[2:])
    columns = zip(extents, strides, kernel, dilations, strict=True)
    reach = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in columns]
    high = [max(0, r - n - p) for r, n, p in zip(reach, sizes, pads[:rank], strict=True)]
    least = -np.inf if x.is_float else float(np.iinfo(x.dtype).min)
    framed = x.pad([0, 0, *pads[:rank]], [0, 0, *high], least)
    found: Value | None = None
    for point in np.ndindex(*kernel):
        starts = [i * d for i, d in zip(point, dilations, strict=True)]
        window = framed.slice([0, 0, *starts], largest.shape, [1, 1, *strides])
        places = _places_of(sizes, extents, strides, starts, pads)
        is_largest = window.equals(largest)
        if x.is_float:
            is_largest = is_largest | ~window.equals(window)
        held = where(
            is_largest, x.emitter.constant(places), np.array(math.prod(sizes), places.dtype)
        )
        found = held if found is None else found.op(nn.MinOp, held)
    assert found is not None
    return found


def _places_of(
    sizes: Sequence[int],
    extents: Sequence[int],
    strides: Sequence[int],
    starts: Sequence[int],
    pads: Sequence[int],
) -> Array:
    """Return the position in the image that each window reads for one of its elements; the number
    of elements of the image if that is padding.

    ``starts`` are the element's offsets in the window.
    """
    total, inside = np.zeros((), np.int64), np.ones((), np.bool_)
    for d, size in enumerate(sizes):
        along = np.arange(extents[d]) * strides[d] + starts[d] - pads[d]
        along = along.reshape([-1 if e == d else 1 for e in range(len(sizes))])
        total, inside = total * size + along, inside & (along >= 0) & (along < size)
    count = math.prod(sizes)
    return np.where(inside, total, count).astype(np.int32 if count < 1 << 31 else np.int64)
