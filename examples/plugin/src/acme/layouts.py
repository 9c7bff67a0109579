"""A layout."""

from __future__ import annotations

from collections.abc import Sequence

from tessella.dialects.layout import Piece


def batch_last(rank: int) -> Sequence[Piece]:
    """Return the order of `chwn8`: the images of a batch side by side, in blocks of 8."""
    return [*(Piece(dim) for dim in range(1, rank)), Piece(0, div=8), Piece(0, mod=8)]
