"""Ops that move elements, expressed with reshapes.

    x[N, C, ..]: reshape to [N, G, C / G, ..], swap G and C / G, reshape to [N, C, ..]
                                                   ->  channel_shuffle x
    reshape to [B * H, M, N], transpose to [B * H, N, M], reshape to [B, H, N, M]
                                                   ->  transpose to [B, H, N, M]

G is the number of groups of channels, B a batch size, and H a number of heads.
"""

from __future__ import annotations

from tessella.dialects.nn.core import NnOp, shape_of
from tessella.dialects.nn.movement import ChannelShuffleOp, ReshapeOp, TransposeOp
from tessella.passes.patterns.nodes import AnyValue, op
from tessella.passes.patterns.pattern import Match, Pattern

_REGROUPED = op(
    ReshapeOp, op(TransposeOp, op(ReshapeOp, AnyValue("x"), name="grouped"), name="transpose")
)


def _channel_shuffle(m: Match) -> NnOp | None:
    shape, grouped = shape_of(m["x"]), shape_of(m["grouped"])
    if shape != m.shape or len(shape) < 2 or len(grouped) < 3:
        return None
    perm = m.op("transpose").settings["perm"]
    is_swap = perm == (0, 2, 1, *range(3, len(grouped)))
    if not is_swap or (grouped[0], grouped[1] * grouped[2]) != shape[:2]:
        return None
    return m.make(ChannelShuffleOp, m["x"], groups=grouped[1])


def _batched_transpose(m: Match) -> NnOp | None:
    """Return a transpose of x, if the reshapes only merge and split leading unmoved dimensions."""
    shape, grouped = shape_of(m["x"]), shape_of(m["grouped"])
    perm = m.op("transpose").settings["perm"]
    kept = next((d for d, source in enumerate(perm) if d != source), len(perm))
    moved = len(grouped) - kept
    lead = len(shape) - moved
    if lead < 0 or shape[lead:] != grouped[kept:]:
        return None
    if m.shape[:lead] != shape[:lead]:
        return None
    tail = (lead + source - kept for source in perm[kept:])
    return m.make(TransposeOp, m["x"], perm=(*range(lead), *tail))


PATTERNS = (
    Pattern("channel-shuffle", _REGROUPED, _channel_shuffle),
    Pattern("batched-transpose", _REGROUPED, _batched_transpose),
)
