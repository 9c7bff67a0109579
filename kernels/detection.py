"""Kernels of the ops on the boxes of detectors."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from xdsl.dialects.arith import AddfOp, AndIOp, DivfOp, MulfOp, SubfOp
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.arith import CmpfOp, SelectOp
from tessella.dialects.layout import NCHW
from tessella.dialects.nn.core import shape_of
from tessella.kernels.builder import KernelBuilder, Scalars
from tessella.kernels.elements import FLOATS, T, Table, rows
from tessella.kernels.registry import native
from tessella.support.conditions import always

DETECTED: Table = rows(
    (name for name in FLOATS if name != "f64"), reads=(T, T, "i64", T), writes=("i64",)
)


def _fits(op: nn.NonMaxSuppressionOp) -> str | None:
    """The reason why a kernel does not select boxes."""
    boxes, room = shape_of(op.scores)[-1], op.settings["room"]
    if not always(boxes < 1 << 31):
        return "there may be more boxes than 32 bits count"
    return None if always(room >= 1) else "there may be no room for boxes"


@native(nn.NonMaxSuppressionOp, "greedy", NCHW, elements=DETECTED, applies=_fits)
def non_max_suppression(
    k: KernelBuilder, op: nn.NonMaxSuppressionOp, *operands: SSAValue
) -> Sequence[SSAValue]:
    """A greedy selection of each class by its scores, then a join of what is selected."""
    boxes, scores, most, overlap, *least = operands
    batches, classes, count = shape_of(scores)
    place = ["b", "i"]

    def key(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
        if not least:
            return a[0]
        above = s.op(CmpfOp(a[0], a[1], "ogt"))
        return s.op(SelectOp(above, a[0], s.like(nan, a[0])))

    def overlaps(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
        *first, _ = a[:5]
        *second, limit = a[5:]
        centered: bool = op.settings["centered"]
        return _overlaps(s, _corners(s, first, centered), _corners(s, second, centered), limit)

    selected = k.suppress(
        {"b": batches, "c": classes},
        {"i": count},
        [(scores, ["b", "c", "i"]), *((value, []) for value in least)],
        [*((boxes, [*place, side]) for side in range(4)), (overlap, [])],
        (most, []),
        op.settings["room"],
        key,
        overlaps,
    )
    return k.join(*selected, [k.result_type(op, i) for i in range(2)])


Span = tuple[SSAValue, SSAValue]
"""Of a box along a dimension: its low and its high end."""


def _corners(s: Scalars, box: Sequence[SSAValue], centered: bool) -> Sequence[Span]:
    """A box, given by two corners or by its center and its sides, along both dimensions."""
    if not centered:
        return [_ordered(s, box[d], box[d + 2]) for d in range(2)]
    halves = [s.op(MulfOp(side, s.like(0.5, side))) for side in box[2:]]
    pairs = zip(box[:2], halves, strict=True)
    return [(s.op(SubfOp(x, half)), s.op(AddfOp(x, half))) for x, half in pairs]


def _ordered(s: Scalars, a: SSAValue, b: SSAValue) -> Span:
    return _least(s, a, b), _greatest(s, a, b)


def _least(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
    return s.op(SelectOp(s.op(CmpfOp(a, b, "olt")), a, b))


def _greatest(s: Scalars, a: SSAValue, b: SSAValue) -> SSAValue:
    return s.op(SelectOp(s.op(CmpfOp(a, b, "ogt")), a, b))


def _overlaps(
    s: Scalars, first: Sequence[Span], second: Sequence[Span], limit: SSAValue
) -> SSAValue:
    """Whether the intersection of two boxes is more of their union than that. A box without an area
    overlaps none, nor does one that has a NaN."""
    common = [
        (_greatest(s, a[0], b[0]), _least(s, a[1], b[1]))
        for a, b in zip(first, second, strict=True)
    ]
    areas = [_area(s, box) for box in (common, first, second)]
    union = s.op(SubfOp(s.op(AddfOp(areas[1], areas[2])), areas[0]))
    share = s.op(DivfOp(areas[0], union))
    conditions = [s.op(CmpfOp(low, high, "olt")) for low, high in common]
    conditions += [s.op(CmpfOp(area, s.like(0, area), "ogt")) for area in (*areas, union)]
    found = s.op(CmpfOp(share, limit, "ogt"))
    for condition in conditions:
        found = s.op(AndIOp(found, condition))
    return found


def _area(s: Scalars, box: Sequence[Span]) -> SSAValue:
    height, width = (s.op(SubfOp(high, low)) for low, high in box)
    return s.op(MulfOp(height, width))
