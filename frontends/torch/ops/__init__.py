"""The converters of ATen ops, by family. Importing this package registers them."""

from __future__ import annotations

from tessella.frontends.torch.ops import (
    attention,
    bags,
    complex,
    creation,
    elementwise,
    filtered,
    grouped,
    indexing,
    linear,
    movement,
    normalization,
    numbers,
    pooling,
    reduction,
    sampling,
    searching,
)

FAMILIES = (
    attention,
    bags,
    complex,
    creation,
    elementwise,
    filtered,
    grouped,
    indexing,
    linear,
    movement,
    normalization,
    numbers,
    pooling,
    reduction,
    sampling,
    searching,
)
"""The modules of the converters."""
