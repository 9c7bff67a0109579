"""The converters of all supported ops, by family; importing this package fills the registry."""

from __future__ import annotations

from tessella.frontends.onnx.ops import (
    arithmetic,
    constants,
    control,
    elementwise,
    indexing,
    linear,
    movement,
    normalization,
    pooling,
    reduction,
    shapes,
)
from tessella.frontends.onnx.registry import covers, entries, find

__all__ = ["FAMILIES", "covers", "entries", "find"]

FAMILIES = (
    arithmetic,
    elementwise,
    linear,
    pooling,
    normalization,
    reduction,
    movement,
    shapes,
    indexing,
    constants,
    control,
)
