"""Transposing a square of elements in vector registers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import vector
from xdsl.dialects.builtin import DenseArrayBase, VectorType, i64
from xdsl.ir import SSAValue

from tessella.lowering.values import Emitter


def transpose(e: Emitter, vectors: Sequence[SSAValue]) -> list[SSAValue]:
    """The columns of a square whose rows these vectors are: as many as they have lanes, a power of
    two.

    One stage for each bit of the lanes' numbers swaps it between row and lane (K. S. Eklundh, "A
    fast computer method for matrix transposing", 1972): ``n log2(n)`` shuffles of two vectors.
    """
    rows, count = list(vectors), len(vectors)
    bit = 1
    while bit < count:
        low = [lane if not lane & bit else count + lane - bit for lane in range(count)]
        high = [lane + bit if not lane & bit else count + lane for lane in range(count)]
        for i in (i for i in range(count) if not i & bit):
            a, b = rows[i], rows[i + bit]
            rows[i], rows[i + bit] = _shuffle(e, a, b, low), _shuffle(e, a, b, high)
        bit *= 2
    return rows


def _shuffle(e: Emitter, a: SSAValue, b: SSAValue, lanes: Sequence[int]) -> SSAValue:
    assert isinstance(a.type, VectorType)
    op = vector.ShuffleOp.create(
        operands=[a, b],
        result_types=[a.type],
        properties={"mask": DenseArrayBase.from_list(i64, list(lanes))},
    )
    return e.op(op)
