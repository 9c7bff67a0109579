"""Sparse arrays of other libraries, which are refused."""

from __future__ import annotations

from typing import Any

from tessella.support.errors import InputError


def check_dense(value: Any, where: str | None = None) -> None:
    """Raise InputError for a sparse array of PyTorch or SciPy."""
    layout = _sparse_layout(value)
    if layout is not None:
        raise InputError(
            "sparse arrays are not supported",
            where=where,
            expected="a dense array",
            found=f"{type(value).__name__} with the layout {layout}",
            hint="convert it, by x.to_dense() in PyTorch and x.toarray() in SciPy",
        )


def _sparse_layout(value: Any) -> str | None:
    """Return the layout of a sparse array of PyTorch or SciPy; None for any other value."""
    layout = str(getattr(value, "layout", ""))
    if layout.startswith("torch.sparse"):
        return layout
    is_scipys = hasattr(value, "toarray") and hasattr(value, "nnz")
    return str(getattr(value, "format", "sparse")) if is_scipys else None
