"""NumPy semantics of matrix products and convolutions."""

from __future__ import annotations

import numpy as np

from tessella.runtime.host.registry import Array, kernel
from tessella.runtime.host.windows import kernel_points


@kernel("matmul")
def matmul(a: Array, b: Array, *, transpose_b: bool) -> Array:
    """NumPy's matmul; with `transpose_b`, b is [.., N, K]."""
    return np.matmul(a, np.swapaxes(b, -1, -2) if transpose_b else b)


@kernel("fc")
def fc(x: Array, w: Array, b: Array, *, transpose_w: bool) -> Array:
    """x[.., K] * w[K, N] + b[N]; with `transpose_w`, w is [N, K]."""
    return np.matmul(x, np.transpose(w) if transpose_w else w) + b


@kernel("conv")
def conv(
    x: Array,
    w: Array,
    b: Array | None = None,
    *,
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    dilations: tuple[int, ...],
    groups: int,
) -> Array:
    """x[N, C, spatial..], w[O, C / groups, kernel..], b[O]: a matrix product per kernel element."""
    rank = x.ndim - 2
    padded = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
    kernel_shape = w.shape[2:]
    extents = [
        (padded.shape[2 + d] - (kernel_shape[d] - 1) * dilations[d] - 1) // strides[d] + 1
        for d in range(rank)
    ]
    per_in, per_out = w.shape[1], w.shape[0] // groups
    result = np.zeros((x.shape[0], w.shape[0], *extents), x.dtype)
    for point, window in kernel_points(kernel_shape, strides, dilations, extents):
        for g in range(groups):
            source = padded[(slice(None), slice(g * per_in, (g + 1) * per_in), *window)]
            taps = w[(slice(g * per_out, (g + 1) * per_out), slice(None), *point)]
            result[:, g * per_out : (g + 1) * per_out] += np.einsum("nc...,oc->no...", source, taps)
    return result if b is None else result + b.reshape(-1, *[1] * rank)


@kernel("conv_transpose")
def conv_transpose(
    x: Array,
    w: Array,
    b: Array | None = None,
    *,
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    dilations: tuple[int, ...],
    output_pads: tuple[int, ...],
    groups: int,
) -> Array:
    """x[N, C, spatial..], w[C, O / groups, kernel..], b[O]: a product for each kernel element."""
    rank = x.ndim - 2
    sizes, kernel_shape = x.shape[2:], w.shape[2:]
    columns = zip(sizes, strides, kernel_shape, dilations, output_pads, strict=True)
    full = [(n - 1) * s + (k - 1) * d + 1 + more for n, s, k, d, more in columns]
    per_in, per_out = w.shape[0] // groups, w.shape[1]
    result = np.zeros((x.shape[0], per_out * groups, *full), x.dtype)
    for point, window in kernel_points(kernel_shape, strides, dilations, sizes):
        for g in range(groups):
            source = x[:, g * per_in : (g + 1) * per_in]
            weights = w[(slice(g * per_in, (g + 1) * per_in), slice(None), *point)]
            target = (slice(None), slice(g * per_out, (g + 1) * per_out), *window)
            result[target] += np.einsum("nc...,co->no...", source, weights)
    inner = (slice(a, n - b) for a, n, b in zip(pads[:rank], full, pads[rank:], strict=True))
    cut = result[(..., *inner)]
    return cut if b is None else cut + b.reshape(-1, *[1] * rank)
