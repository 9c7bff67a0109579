"""The kernel registry and the kernels of each op. ``load`` imports all declarations."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from tessella.support import plugins

FAMILIES = (
    "elementwise",
    "linear",
    "grouped",
    "winograd",
    "transposed",
    "attention",
    "pooling",
    "recurrent",
    "reduction",
    "sorting",
    "normalization",
    "movement",
    "resize",
    "indexing",
    "detection",
    "trees",
    "symbolic",
)


@cache
def load() -> None:
    """Import every module that declares kernels, plugins last."""
    for family in FAMILIES:
        import_module(f"tessella.kernels.{family}")
    plugins.import_all(plugins.KERNELS)
