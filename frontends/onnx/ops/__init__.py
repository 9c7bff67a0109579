"""The converters of all supported ops, by family; importing this package fills the registry."""

from __future__ import annotations

from tessella.frontends.onnx.ops import (
    arithmetic,
    constants,
    contributed,
    control,
    detection,
    einsum,
    elementwise,
    finding,
    fourier,
    grid,
    indexing,
    linear,
    movement,
    normalization,
    pad,
    placing,
    pooling,
    quantization,
    recurrent,
    reduction,
    resize,
    sequences,
    shapes,
)
from tessella.frontends.onnx.registry import (
    VersionedConverter,
    contributed_ops,
    covers,
    entries,
    find,
    find_contributed,
)

__all__ = [
    "FAMILIES",
    "VersionedConverter",
    "contributed_ops",
    "covers",
    "entries",
    "find",
    "find_contributed",
]

FAMILIES = (
    arithmetic,
    elementwise,
    linear,
    einsum,
    quantization,
    pooling,
    contributed,
    normalization,
    reduction,
    movement,
    pad,
    resize,
    grid,
    recurrent,
    fourier,
    shapes,
    indexing,
    detection,
    finding,
    placing,
    constants,
    control,
    sequences,
)
