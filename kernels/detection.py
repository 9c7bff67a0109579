"""Kernels of the ops on the boxes of detectors."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from xdsl.dialects.arith import (
    AddfOp,
    AddiOp,
    AndIOp,
    DivfOp,
    IndexCastOp,
    MaximumfOp,
    MinSIOp,
    MulfOp,
    SubfOp,
)
from xdsl.dialects.builtin import IndexType, i32
from xdsl.ir import Attribute, SSAValue

from tessella.dialects import nn
from tessella.dialects.arith import CmpfOp, CmpiOp, SelectOp
from tessella.dialects.layout import NCHW, NHWC
from tessella.dialects.nn.core import shape_of, tensor
from tessella.kernels.builder import Form, KernelBuilder, Scalars
from tessella.kernels.elements import FLOATS, T, Table, rows
from tessella.kernels.registry import native
from tessella.support.conditions import always
from tessella.support.sizes import Size

DETECTED: Table = rows(
    (name for name in FLOATS if name != "f64"), reads=(T, T, "i64", T), writes=("i64",)
)


SAMPLED: Table = rows(FLOATS, reads=(T, T, "i64"))
MOST = 1 << 30
"""The limit on an image's extent, as positions have 32 bits."""


def _fits(op: nn.NonMaxSuppressionOp) -> str | None:
    """Return the reason why a kernel does not select boxes."""
    boxes, room = shape_of(op.scores)[-1], op.settings["room"]
    if not always(boxes < 1 << 31):
        return "there may be more boxes than 32 bits count"
    return None if always(room >= 1) else "there may be no room for boxes"


@native(nn.NonMaxSuppressionOp, "greedy", NCHW, elements=DETECTED, applies=_fits)
def non_max_suppression(
    k: KernelBuilder, op: nn.NonMaxSuppressionOp, *operands: SSAValue
) -> Sequence[SSAValue]:
    """A greedy selection of each class by its scores, then a join of the selected boxes."""
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
"""The low and the high end of a box along a dimension."""


def _corners(s: Scalars, box: Sequence[SSAValue], centered: bool) -> Sequence[Span]:
    """Return a box, given by two corners or by center and sides, along both dimensions."""
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
    """Return whether the intersection over union of two boxes exceeds a threshold.

    A box without area, or with a NaN, overlaps no other.
    """
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


# ** regions **


def _samples(op: nn.RoiAlignOp) -> str | None:
    """Return the reason why a kernel does not sample regions."""
    if op.settings["samples"] == 0:
        return "how many points a region has depends on its size"
    extents = shape_of(op.x)[2:]
    return None if all(always(e < MOST) for e in extents) else "an image may be too large"


@native(nn.RoiAlignOp, "roi_align", NHWC, NCHW, elements=SAMPLED, applies=_samples)
def roi_align(
    k: KernelBuilder, op: nn.RoiAlignOp, x: SSAValue, rois: SSAValue, batches: SSAValue
) -> SSAValue:
    """Sample regions, and average or maximise the samples.

    R[r, c, p, q] = +(the values at the sample points of X[B[r], c]) over their number, or their
    maximum.
    """
    type, settings = k.result_type(op), op.settings
    count, channels, *sizes = shape_of(type)
    samples, element = settings["samples"], k.computed(type.element_type)
    extents = shape_of(x)[2:]
    points = [_points(k, op, rois, d, extents[d], element) for d in range(2)]
    is_mean = settings["mode"] == "avg"

    def body(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
        image = s.op(IndexCastOp(a[0], IndexType()))
        taps = [_taps(s, at, extent) for at, extent in zip(a[1:], extents, strict=True)]
        total: SSAValue | None = None
        for y, v in taps[0]:
            for at, w in taps[1]:
                own = s.cast(s.extract(x, [image, s.index("c"), y, at]), element)
                value = s.op(MulfOp(s.op(MulfOp(v, w)), own))
                if total is None:
                    total = value
                else:
                    total = s.op((AddfOp if is_mean else MaximumfOp)(total, value))
        assert total is not None
        return total

    free: dict[str, Size] = {"r": count, "c": channels, "p": sizes[0], "q": sizes[1]}
    found = k.contract(
        "+" if is_mean else ">",
        free,
        {"i": samples, "j": samples},
        [(batches, ["r"]), (points[0], ["r", "p", "i"]), (points[1], ["r", "q", "j"])],
        (type, [*free]),
        body,
    )
    if not is_mean or samples == 1:
        return found
    return k.map([found], type, lambda s, a: s.op(DivfOp(a[0], s.like(samples**2, a[0]))))


def _points(
    k: KernelBuilder,
    op: nn.RoiAlignOp,
    rois: SSAValue,
    dimension: int,
    extent: Size,
    element: Attribute,
) -> SSAValue:
    """Return the sample points along a dimension, [regions, size, samples]; -1 beyond the image."""
    settings = op.settings
    samples, size = settings["samples"], settings["sizes"][dimension]

    def body(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
        low, high = (s.op(MulfOp(end, s.like(settings["scale"], end))) for end in a)
        if settings["half_pixel"]:
            low, high = (s.op(SubfOp(end, s.like(0.5, end))) for end in (low, high))
        length = s.op(SubfOp(high, low))
        if not settings["half_pixel"]:
            length = _greatest(s, length, s.like(1.0, length))
        part = s.op(DivfOp(length, s.like(size, length)))
        number, inner = (_float(s, s.index(name), element) for name in ("p", "i"))
        start = s.op(AddfOp(low, s.op(MulfOp(number, part))))
        middle = s.op(AddfOp(inner, s.like(0.5, inner)))
        moved = s.op(DivfOp(s.op(MulfOp(middle, part)), s.like(samples, part)))
        at = s.op(AddfOp(start, moved))
        above = s.op(CmpfOp(at, s.like(-1.0, at), "oge"))
        below = s.op(CmpfOp(at, _float(s, s.size(extent), element), "ole"))
        inside = s.op(AndIOp(above, below))
        kept = _greatest(s, at, s.like(0.0, at))
        return s.op(SelectOp(inside, kept, s.like(-1.0, at)))

    free: dict[str, Size] = {"r": shape_of(rois)[0], "p": size, "i": samples}
    ends: list[tuple[SSAValue, Sequence[Form]]] = [(rois, ["r", 1 - dimension + d]) for d in (0, 2)]
    return k.contract("=", free, {}, ends, (tensor(element, [*free.values()]), [*free]), body)


Tap = tuple[SSAValue, SSAValue]
"""The position of an element beside a point, and its weight."""


def _taps(s: Scalars, at: SSAValue, extent: Size) -> tuple[Tap, Tap]:
    """Return the elements around a point; their weights are 0 beyond the image."""
    last = s.op(IndexCastOp(s.op(AddiOp(s.size(extent), s.like(-1, s.size(0)))), i32))
    zero, one = s.like(0.0, at), s.like(1.0, at)
    inside = s.op(CmpfOp(at, zero, "oge"))
    kept = s.op(SelectOp(inside, at, zero))
    low = s.op(MinSIOp(s.cast(kept, i32), last))
    high = s.op(MinSIOp(s.op(AddiOp(low, s.like(1, low))), last))
    rest = s.op(SubfOp(kept, s.cast(low, at.type)))
    is_last = s.op(CmpiOp(low, last, "eq"))
    far = s.op(SelectOp(is_last, zero, rest))
    near = s.op(SelectOp(inside, s.op(SubfOp(one, far)), zero))
    first, second = (s.op(IndexCastOp(place, IndexType())) for place in (low, high))
    return (first, near), (second, far)


def _float(s: Scalars, index: SSAValue, element: Attribute) -> SSAValue:
    """Convert an index to a float."""
    return s.cast(s.op(IndexCastOp(index, i32)), element)
