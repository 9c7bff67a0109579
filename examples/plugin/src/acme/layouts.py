"""A layout with the images of a batch innermost."""

from __future__ import annotations

from collections.abc import Sequence

from tessella.dialects.layout import Piece


def batch_last(rank: int) -> Sequence[Piece]:
    """Return the memory order of `chwn8`: the images of a batch are innermost, in blocks of 8."""
    return [*(Piece(dim) for dim in range(1, rank)), Piece(0, div=8), Piece(0, mod=8)]
