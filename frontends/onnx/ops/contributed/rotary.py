"""Converters of rotary position embeddings."""

from __future__ import annotations

from tessella.dialects.nn.core import shapes_differ
from tessella.frontends.emitter import Value, concat
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops.contributed.heads import joined, split
from tessella.frontends.onnx.registry import contributed
from tessella.support.conditions import decided
from tessella.support.errors import ShapeError


@contributed("RotaryEmbedding", interleaved=0, num_heads=0, rotary_embedding_dim=0, scale=1.0)
def rotary_embedding(call: Call) -> Value:
    """Emit the rotation of pairs of elements of each head, by angles that depend on the position of
    the token."""
    # It only says how the caller fills the operands.
    call.meaningless("is_packed_batching")
    x, places = call.x, call.operand(1)
    cos, sin = call.operand(2), call.operand(3)
    if x.rank not in (3, 4):
        raise ShapeError("RotaryEmbedding takes x of rank 3 or 4", found=str(x.type))
    width, heads = call.integer("rotary_embedding_dim"), call.integer("num_heads")
    if x.rank == 4:
        parts = x
    elif heads:
        parts = split(x, heads)
    else:
        parts = split(x, x.shape[2] // (2 * cos.shape[1]))
    if width and width != 2 * cos.shape[1]:
        raise ShapeError(
            "the cache of cosines does not fit attribute 'rotary_embedding_dim'",
            expected=f"{width // 2} columns",
            found=str(cos.type),
        )
    batch, _, length, _ = parts.shape
    if places.rank < 2:
        places = places.reshape((1, 1)) + call.positions(length, 1, 2).cast(places.dtype)
    elif shapes_differ(places.shape, (batch, length)):
        raise ShapeError(
            "the positions do not fit",
            expected=f"[{batch}, {length}], or one position",
            found=str(places.type),
        )
    y = rotated(parts, places, cos, sin, interleaved=call.flag("interleaved"))
    return y if x.rank == 4 else joined(y)


def rotated(x: Value, places: Value, cos: Value, sin: Value, *, interleaved: bool) -> Value:
    """Emit the rotation of x[B, N, S, D] at the positions ``places``[B or 1, S], by the rows of
    ``cos`` and ``sin``, which are cosines and sines of the angles of each position.

    A pair consists of neighbours if ``interleaved``, otherwise of an element of the first half and
    one of the second. Elements beyond twice the number of angles do not change.
    """
    if cos.rank != 2 or shapes_differ(cos.shape, sin.shape):
        raise ShapeError(
            "the caches of cosines and sines are not matrices of one shape",
            found=f"{cos.type} and {sin.type}",
        )
    half, size = cos.shape[1], x.shape[3]
    if decided(2 * half > size):
        raise ShapeError("there are more angles than pairs", found=f"{cos.type} for {x.type}")
    c, s = (
        cache.gather(places, 0).reshape((places.shape[0], 1, places.shape[1], half))
        for cache in (cos, sin)
    )
    turned = x.part(3, 0, 2 * half)
    if interleaved:
        pairs = turned.reshape((*x.shape[:3], half, 2))
        a, b = (pairs.part(4, i, 1).reshape((*x.shape[:3], half)) for i in (0, 1))
    else:
        a, b = (turned.part(3, start, half) for start in (0, half))
    new = [a * c - b * s, a * s + b * c]
    if interleaved:
        columns = [part.reshape((*x.shape[:3], half, 1)) for part in new]
        new = [concat(columns, 4).reshape(turned.shape)]
    if 2 * half != size:
        new.append(x.part(3, 2 * half, size - 2 * half))
    return concat(new, 3)
