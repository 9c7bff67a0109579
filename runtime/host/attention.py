"""NumPy semantics of scaled dot-product attention."""

from __future__ import annotations

import numpy as np

from tessella.runtime.host.reduction import softmax
from tessella.runtime.host.registry import Array, kernel


@kernel("attention")
def attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None = None,
    *,
    scale: float,
    transposed_k: bool,
    causal: bool,
    past: int,
    nan_as_zero: bool,
) -> Array:
    """Return softmax(scale * q kᵀ + mask) v; every step rounds to the element type.

    With ``causal``, query m reads keys 0 to m + ``past``.
    """
    product = np.matmul(q, k if transposed_k else np.swapaxes(k, -1, -2))
    scores = product * q.dtype.type(scale)
    masked: Array = scores if mask is None else scores + mask
    if causal:
        queries, keys = masked.shape[-2:]
        visible = np.tri(queries, keys, past, dtype=np.bool_)
        masked = np.where(visible, masked, masked.dtype.type(-np.inf))
    p = softmax(masked, axis=masked.ndim - 1)
    return np.matmul(np.where(np.isnan(p), q.dtype.type(0), p) if nan_as_zero else p, v)
