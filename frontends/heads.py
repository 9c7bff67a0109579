"""Heads of attention that share keys and values."""

from __future__ import annotations

from tessella.frontends.emitter import Value
from tessella.support.decisions import decided_zero
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size


def repeated_heads(x: Value, heads: Size) -> Value:
    """Emit the heads of keys or values, each repeated for the query heads that share it. Raises
    ShapeError if the query heads are not a multiple of them."""
    batch, own, *rest = x.shape
    if own == heads:
        return x
    if not decided_zero(heads % own):
        raise ShapeError("heads do not share keys evenly", found=f"{heads} by {own}")
    groups = x.reshape((batch, own, 1, *rest)).expand((batch, own, heads // own, *rest))
    return groups.reshape((batch, heads, *rest))
