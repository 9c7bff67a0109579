"""PyTorch's decompositions into ops that have a row, or that PyTorch runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tessella.frontends.torch.library import library
from tessella.frontends.torch.registry import find

FURTHER = (
    "adaptive_max_pool2d", "adaptive_max_pool3d", "grid_sampler_2d", "tril_indices",
    "triu_indices", "upsample_bicubic2d",
)  # fmt: skip
"""The ops whose decompositions we take though PyTorch counts them among its core ops."""


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return PyTorch's decompositions into its core ops, and further ones, but those of ops that
    have a row."""
    return _without_rows(library("torch._decomp").core_aten_decompositions())


def export_decompositions() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions for exported programs, which decompose more ops at once."""
    return _without_rows(library("torch.export").default_decompositions())


def _without_rows(table: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    torch = library()
    ops = [getattr(torch.ops.aten, name) for name in FURTHER]
    found = {**table, **library("torch._decomp").get_decompositions(ops)}
    return {op: function for op, function in found.items() if find(str(op)) is None}
