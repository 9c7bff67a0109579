"""Conditions under which rewrites of quantizations may divide by a scale, or cancel it."""

from __future__ import annotations

import numpy as np

from tessella.dialects.nn.core import Array

_LEAST = float(np.finfo(np.float32).tiny)
_MOST = float(np.finfo(np.float32).max) / 2**17
"""Differences of 16-bit numbers times the scale are finite."""


def is_normal(scale: Array | None) -> bool:
    """Return whether a scale is known and positive, and its products with quantized numbers are
    neither denormal nor infinite."""
    return scale is not None and bool(((scale >= _LEAST) & (scale <= _MOST)).all())


def divides(value: Array | None, scale: Array) -> bool:
    """Return whether a value is known, and no element divided by the scale becomes 0 or
    infinite."""
    if value is None:
        return False
    with np.errstate(all="ignore"):
        quotient = value / scale
    kept = (np.isfinite(quotient) == np.isfinite(value)) & ((quotient == 0) == (value == 0))
    return bool(kept.all())
