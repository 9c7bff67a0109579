"""NumPy semantics of matrix products and convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tessella.runtime.host.registry import Array, kernel
from tessella.runtime.host.windows import Ints, kernel_points


def _factors(a: Array, b: Array, sums: npt.DTypeLike | None) -> tuple[Array, Array]:
    """Convert both operands of a product to the dtype ``sums``, in which the products are summed;
    None leaves them unchanged."""
    return (a, b) if sums is None else (a.astype(sums), b.astype(sums))


@kernel("matmul")
def matmul(a: Array, b: Array, *, transpose_b: bool, sums: npt.DTypeLike | None = None) -> Array:
    """Return the matrix product, as NumPy's matmul does; with ``transpose_b``, ``b`` is [..,
    N, K]."""
    a, b = _factors(a, b, sums)
    return np.matmul(a, np.swapaxes(b, -1, -2) if transpose_b else b)


@kernel("fc")
def fc(
    x: Array, w: Array, b: Array, *, transpose_w: bool, sums: npt.DTypeLike | None = None
) -> Array:
    """Return x[.., K] * w[K, N] + b[N]; with ``transpose_w``, ``w`` is [N, K]."""
    x, w = _factors(x, w, sums)
    return np.matmul(x, np.transpose(w) if transpose_w else w) + b


@kernel("packed_matmul")
def packed_matmul(
    x: Array,
    w: Array,
    scale: Array,
    steps: Array | None = None,
    *,
    bits: int,
    table: Sequence[float],
) -> Array:
    """Return x[.., K] * (scale * value)[K, N] for the signed integers of ``bits`` bits in the words
    w[N, blocks, words, group], or for the numbers of a table at unsigned ones; ``steps`` are the
    factors of each block of integers x. The product is computed in f32 or wider."""
    wide, values = np.result_type(scale.dtype, np.float32), signed_fields(w, bits)
    if table:
        values = np.array(table)[values & (len(table) - 1)]
    factors = values.astype(wide) * scale[..., None].astype(wide)
    if steps is not None:
        blocks = x.reshape(*steps.shape, x.shape[-1] // steps.shape[-1]).astype(wide)
        x = (blocks * steps[..., None].astype(wide)).reshape(x.shape)
    factors = factors.reshape(w.shape[0], x.shape[-1])
    return np.matmul(x.astype(wide), factors.T).astype(scale.dtype)


def signed_fields(words: Array, bits: int) -> Array:
    """Return the signed integers of ``bits`` bits in w[N, blocks, words, group] as [N, blocks, K]:
    the lowest ones of a group of words first."""
    width = 8 * words.itemsize
    lefts = np.arange(width - bits, -1, -bits, dtype=words.dtype)[:, None]
    fields = (words[..., None, :] << lefts) >> words.dtype.type(width - bits)
    return fields.reshape(*words.shape[:2], math.prod(fields.shape[2:]))


@kernel("conv")
def conv(
    x: Array,
    w: Array,
    b: Array | None = None,
    *,
    strides: Ints,
    pads: Ints,
    dilations: Ints,
    groups: int,
    sums: npt.DTypeLike | None = None,
) -> Array:
    """Return the convolution of x[N, C, spatial..] with w[O, C / groups, kernel..], plus b[O],
    computed as one matrix product for each kernel element."""
    x, w = _factors(x, w, sums)
    rank = x.ndim - 2
    padded = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)])
    columns = zip(padded.shape[2:], w.shape[2:], strides, dilations, strict=True)
    extents = [(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in columns]
    count, (outs, ins) = math.prod(extents), w.shape[:2]
    result = np.zeros((x.shape[0], groups, outs // groups, count), x.dtype)
    for point, window in kernel_points(w.shape[2:], strides, dilations, extents):
        source = padded[(..., *window)].reshape(x.shape[0], groups, ins, count)
        taps = w[(..., *point)].reshape(groups, outs // groups, ins)
        result += np.matmul(taps, source)
    shaped = result.reshape(x.shape[0], outs, *extents)
    return shaped if b is None else shaped + b.reshape(-1, *[1] * rank)


@kernel("conv_transpose")
def conv_transpose(
    x: Array,
    w: Array,
    b: Array | None = None,
    *,
    strides: Ints,
    pads: Ints,
    dilations: Ints,
    output_pads: Ints,
    groups: int,
) -> Array:
    """Return the transposed convolution of x[N, C, spatial..] with w[C, O / groups, kernel..], plus
    b[O].

    It is computed as one matrix product for each kernel element, added to a strided window of the
    result.
    """
    rank, sizes = x.ndim - 2, x.shape[2:]
    columns = zip(sizes, strides, w.shape[2:], dilations, output_pads, strict=True)
    full = [(n - 1) * s + (k - 1) * d + 1 + more for n, s, k, d, more in columns]
    (ins, outs), count = w.shape[:2], math.prod(sizes)
    result = np.zeros((x.shape[0], groups * outs, *full), x.dtype)
    source = x.reshape(x.shape[0], groups, ins // groups, count)
    for point, window in kernel_points(w.shape[2:], strides, dilations, sizes):
        taps = w[(..., *point)].reshape(groups, ins // groups, outs)
        product = np.matmul(np.swapaxes(taps, 1, 2), source)
        result[(..., *window)] += product.reshape(x.shape[0], groups * outs, *sizes)
    inner = (slice(a, n - b) for a, n, b in zip(pads[:rank], full, pads[rank:], strict=True))
    cut = result[(..., *inner)]
    return cut if b is None else cut + b.reshape(-1, *[1] * rank)
