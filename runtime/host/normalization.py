"""NumPy semantics of the normalizations: computed in float64 and rounded once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessella.runtime.host.registry import Array, kernel


def _standardised(x: Array, axes: Sequence[int], epsilon: float) -> Array:
    """Return (x - mean) / sqrt(variance + epsilon), with mean and variance over ``axes``, in
    float64."""
    exact, over = x.astype(np.float64), tuple(axes)
    count = np.float64(np.prod([x.shape[axis] for axis in over]))
    centred = exact - np.sum(exact, axis=over, keepdims=True) / count
    variance = np.sum(centred**2, axis=over, keepdims=True) / count
    return centred / np.sqrt(variance + epsilon)


def _channels(values: Array, rank: int) -> Array:
    """Return values[C] in float64 with the shape [C, 1, 1, ..], which broadcasts to [N, C,
    spatial..]."""
    return values.astype(np.float64).reshape(-1, *[1] * (rank - 2))


@kernel("layer_norm")
def layer_norm(
    x: Array, scale: Array, bias: Array | None = None, *, axis: int, epsilon: float
) -> Array:
    """Return (x - mean) / sqrt(variance + epsilon) * scale + bias, with mean and variance over the
    dimensions from ``axis`` on."""
    result = _standardised(x, range(axis, x.ndim), epsilon) * scale
    return (result if bias is None else result + bias).astype(x.dtype)


@kernel("rms_norm")
def rms_norm(x: Array, scale: Array, *, axis: int, epsilon: float) -> Array:
    """Return x / sqrt(mean(x^2) + epsilon) * scale, with the mean over the dimensions from ``axis``
    on."""
    exact, over = x.astype(np.float64), tuple(range(axis, x.ndim))
    count = np.float64(np.prod(x.shape[axis:]))
    square = np.sum(exact**2, axis=over, keepdims=True) / count
    return (exact / np.sqrt(square + epsilon) * scale).astype(x.dtype)


@kernel("group_norm")
def group_norm(x: Array, scale: Array, bias: Array, *, groups: int, epsilon: float) -> Array:
    """Return x[N, C, spatial..], standardised over its spatial dimensions and C / groups channels,
    times scale[C], plus bias[C]."""
    batch, channels, *spatial = x.shape
    grouped = x.reshape(batch, groups, channels // groups, *spatial)
    standard = _standardised(grouped, range(2, grouped.ndim), epsilon).reshape(x.shape)
    return (standard * _channels(scale, x.ndim) + _channels(bias, x.ndim)).astype(x.dtype)


@kernel("batch_norm")
def batch_norm(
    x: Array, scale: Array, bias: Array, mean: Array, variance: Array, *, epsilon: float
) -> Array:
    """Return (x - mean[C]) / sqrt(variance[C] + epsilon) * scale[C] + bias[C] for x[N, C, ..]."""
    s, b, m, v = (_channels(values, x.ndim) for values in (scale, bias, mean, variance))
    return ((x - m) / np.sqrt(v + epsilon) * s + b).astype(x.dtype)


@kernel("lrn")
def lrn(x: Array, *, size: int, alpha: float, beta: float, bias: float) -> Array:
    """Return x / (bias + alpha / size * sum)^beta, where sum adds x^2 over the channels from c -
    (size-1)//2 to c + size//2 (ONNX's LRN)."""
    exact, channels = x.astype(np.float64), x.shape[1]
    sums = np.zeros(exact.shape)
    for offset in range(max(-((size - 1) // 2), -channels), min(size // 2, channels) + 1):
        to = slice(max(0, -offset), channels - max(0, offset))
        start = slice(max(0, offset), channels + min(0, offset))
        sums[:, to] += exact[:, start] ** 2
    return (exact / (bias + alpha / size * sums) ** beta).astype(x.dtype)
