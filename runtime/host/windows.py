"""Windows that move over the spatial dimensions of x[N, C, spatial..]."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

Ints = Sequence[int]


def kernel_points(
    kernel: Ints, strides: Ints, dilations: Ints, extents: Ints
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Yield each point of the kernel, with the slices of the padded spatial dimensions that it
    reads.

    The slices have the sizes ``extents``: one element for every window position.
    """
    for point in itertools.product(*map(range, kernel)):
        columns = zip(point, dilations, extents, strides, strict=True)
        yield point, tuple(slice(k * d, k * d + n * s, s) for k, d, n, s in columns)
