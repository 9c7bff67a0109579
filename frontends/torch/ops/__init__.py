"""The converters of ATen ops, by family. Importing this package registers them."""

from __future__ import annotations

from tessella.frontends.torch.ops import (
    attention,
    complex,
    creation,
    elementwise,
    grouped,
    indexing,
    linear,
    movement,
    normalization,
    numbers,
    pooling,
    reduction,
    sampling,
)

FAMILIES = (
    attention,
    complex,
    creation,
    elementwise,
    grouped,
    indexing,
    linear,
    movement,
    normalization,
    numbers,
    pooling,
    reduction,
    sampling,
)
"""The modules of the converters."""
