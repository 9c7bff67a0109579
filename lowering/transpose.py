"""Vector shuffles: transposes of square blocks, strided selection, interleaving of rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from xdsl.dialects import vector
from xdsl.dialects.builtin import DenseArrayBase, VectorType, i64
from xdsl.ir import SSAValue

from tessella.lowering.values import BlockEmitter


def transpose(
    e: BlockEmitter, vectors: Sequence[SSAValue], lanes: int, side_by_side: int = 1
) -> list[SSAValue]:
    """Return the columns of a square block that has the given vectors as its first rows.

    The other rows are arbitrary. ``side_by_side`` adjacent lanes form one element. Each stage swaps
    one bit between row number and lane number (J. O. Eklundh, "A fast computer method for matrix
    transposing", 1972): at most ``lanes log2(lanes)`` shuffles of two vectors. The number of lanes
    is a power of two.
    """
    height = lanes // side_by_side
    rows: list[SSAValue | None] = [*vectors, *[None] * (height - len(vectors))]
    bit = 1
    while bit < height:
        for i in (i for i in range(height) if not i & bit):
            pair = rows[i], rows[i + bit]
            rows[i], rows[i + bit] = _exchange(e, *pair, bit * side_by_side, lanes)
        bit *= 2
    return [row for row in rows if row is not None]


def _exchange(
    e: BlockEmitter, a: SSAValue | None, b: SSAValue | None, bit: int, lanes: int
) -> tuple[SSAValue | None, SSAValue | None]:
    """Swap the lanes of ``a`` whose number has the bit with the lanes of ``b`` whose number does
    not."""
    if a is None:
        return None, None
    if b is None:
        low = [lane if not lane & bit else -1 for lane in range(lanes)]
        high = [lane + bit if not lane & bit else -1 for lane in range(lanes)]
        return shuffle(e, a, a, low), shuffle(e, a, a, high)
    low = [lane if not lane & bit else lanes + lane - bit for lane in range(lanes)]
    high = [lane + bit if not lane & bit else lanes + lane for lane in range(lanes)]
    return shuffle(e, a, b, low), shuffle(e, a, b, high)


def pick(e: BlockEmitter, vectors: Sequence[SSAValue], stride: int) -> SSAValue:
    """Return every ``stride``-th element of consecutive vectors, starting at the first element."""
    result, lanes = vectors[0], e.lanes
    for i, other in enumerate(vectors[1:] or vectors[:1]):
        numbers: list[int] = []
        for lane in range(lanes):
            chunk, element = divmod(lane * stride, lanes)
            if chunk == i + 1:
                numbers.append(lanes + element)
            elif chunk <= i:
                numbers.append(element if i == 0 else lane)
            else:
                numbers.append(-1)
        result = shuffle(e, result, other, numbers)
    return result


def interleave(e: BlockEmitter, rows: Sequence[SSAValue]) -> list[SSAValue]:
    """Return the lanes of several rows interleaved, as consecutive vectors: the first lanes of all
    rows, their second lanes, and so on."""
    lanes, count = e.lanes, len(rows)
    chunks: list[SSAValue] = []
    for chunk in range(count):
        places = [divmod(chunk * lanes + lane, count) for lane in range(lanes)]
        result = rows[0]
        for number, row in [*enumerate(rows)][1:]:
            first = number == 1
            mask = [
                (lanes if of == number and row is not result else 0) + at
                if of == number
                else (-1 if of > number else at if first else lane)
                for lane, (at, of) in enumerate(places)
            ]
            result = shuffle(e, result, row, mask)
        chunks.append(result)
    return chunks


def joined(e: BlockEmitter, vectors: Sequence[SSAValue]) -> SSAValue:
    """Concatenate vectors of one type; their number must be a power of two."""
    while len(vectors) > 1:
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [_concat(e, a, b) for a, b in pairs]
    return vectors[0]


def _concat(e: BlockEmitter, a: SSAValue, b: SSAValue) -> SSAValue:
    assert isinstance(a.type, VectorType)
    (size,) = a.type.get_shape()
    op = vector.ShuffleOp.create(
        operands=[a, b],
        result_types=[VectorType(a.type.element_type, [2 * size])],
        properties={"mask": _mask(tuple(range(2 * size)))},
    )
    return e.op(op)


def shuffle(e: BlockEmitter, a: SSAValue, b: SSAValue, lanes: Sequence[int]) -> SSAValue:
    """Return the lanes with these numbers from the concatenation of two vectors."""
    assert isinstance(a.type, VectorType)
    op = vector.ShuffleOp.create(
        operands=[a, b],
        result_types=[a.type],
        properties={"mask": _mask(tuple(lanes))},
    )
    return e.op(op)


@cache
def _mask(lanes: Sequence[int]) -> DenseArrayBase:
    """Return a shuffle mask, cached because it takes longer to create than the op."""
    return DenseArrayBase.from_list(i64, list(lanes))
