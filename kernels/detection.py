"""Kernels of detection ops: selection of boxes, and sampling of regions."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan

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
    SubiOp,
)
from xdsl.dialects.builtin import IndexType, i32
from xdsl.dialects.math import CeilOp, FloorOp, RoundOp
from xdsl.ir import Attribute, SSAValue

from tessella.dialects import nn
from tessella.dialects.arith import CmpfOp, CmpiOp, SelectOp
from tessella.dialects.layout import NCHW, NHWC
from tessella.dialects.nn.core import shape_of, tensor
from tessella.kernels.builder import Form, KernelBuilder, Scalars
from tessella.kernels.elements import FLOATS, T, Table, rows
from tessella.kernels.registry import native
from tessella.runtime.host.detection import MOST_POINTS
from tessella.support.conditions import always
from tessella.support.sizes import Size, estimated

DETECTED: Table = rows(
    (name for name in FLOATS if name != "f64"), reads=(T, T, "i64", T), writes=("i64",)
)


SAMPLED: Table = rows(FLOATS, reads=(T, T, "i64"))
MOST = 1 << 30
"""The limit on an image's extent, as positions have 32 bits."""


def _fits(op: nn.NonMaxSuppressionOp) -> str | None:
    """Return the reason why the kernel cannot select boxes; None if it can."""
    boxes, room = shape_of(op.scores)[-1], op.settings["room"]
    if not always(boxes < 1 << 31):
        return "there may be more boxes than 32 bits count"
    return None if always(room >= 1) else "there may be no room for boxes"


@native(nn.NonMaxSuppressionOp, "greedy", NCHW, elements=DETECTED, applies=_fits)
def non_max_suppression(
    k: KernelBuilder, op: nn.NonMaxSuppressionOp, *operands: SSAValue
) -> Sequence[SSAValue]:
    """Emit a greedy selection of each class by its scores, then a join of the selected boxes."""
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
    """Return the spans of a box along both dimensions. ``box`` has two corners or, if ``centered``,
    the center and the sides."""
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


def _fits_in(op: nn.RoiAlignOp | nn.MaxRoiPoolOp) -> str | None:
    """Return the reason why the kernel cannot sample regions; None if it can."""
    extents = shape_of(op.x)[2:]
    return None if all(always(e < MOST) for e in extents) else "an image may be too large"


@native(nn.RoiAlignOp, "roi_align", NHWC, NCHW, elements=SAMPLED, applies=_fits_in)
def roi_align(
    k: KernelBuilder, op: nn.RoiAlignOp, x: SSAValue, rois: SSAValue, batches: SSAValue
) -> SSAValue:
    """Emit R[r, c, p, q], the mean or the maximum of X[B[r], c] at the sampling points in part (p,
    q) of region r.

    The number of sampling points is an attribute, or follows from the size of the region.
    """
    make = _by_number if op.settings["samples"] else _by_size
    return make(k, op, x, rois, batches)


def _by_number(
    k: KernelBuilder, op: nn.RoiAlignOp, x: SSAValue, rois: SSAValue, batches: SSAValue
) -> SSAValue:
    """Emit the kernel for a fixed number of sampling points. Their coordinates along each dimension
    are a tensor [regions, size, samples]."""
    type, samples = k.result_type(op), op.settings["samples"]
    count, channels, *sizes = shape_of(type)
    element = k.computed(type.element_type)
    points = [_points(k, op, rois, d, element) for d in range(2)]
    is_mean = op.settings["mode"] == "avg"

    def body(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
        return _value(s, op, x, a[0], a[1:], element)

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


def _by_size(
    k: KernelBuilder, op: nn.RoiAlignOp, x: SSAValue, rois: SSAValue, batches: SSAValue
) -> SSAValue:
    """Emit the kernel for numbers of sampling points that depend on the region. The numbers along
    each dimension are a tensor [regions]; the sums end at them."""
    type = k.result_type(op)
    count, channels, *sizes = shape_of(type)
    element, is_mean = k.computed(type.element_type), op.settings["mode"] == "avg"
    numbers = [_numbers(k, op, rois, batches, d, element) for d in range(2)]

    def body(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
        counts, ends = a[1:3], a[3:]
        points = [
            _point(s, op, ends[2 * d : 2 * d + 2], d, ("pq"[d], "ij"[d]), s.cast(n, element))
            for d, n in enumerate(counts)
        ]
        value = _value(s, op, x, a[0], points, element)
        first, second = (s.below(name, n) for name, n in zip("ij", counts, strict=True))
        neutral = s.like(0.0 if is_mean else -inf, value)
        return s.op(SelectOp(s.op(AndIOp(first, second)), value, neutral))

    def finished(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
        found, *counts = a
        high, wide = (s.cast(n, found.type) for n in counts)
        total = s.op(MulfOp(high, wide))
        is_empty = s.op(CmpfOp(total, s.like(0.0, total), "oeq"))
        value = s.op(DivfOp(found, total)) if is_mean else found
        return s.op(SelectOp(is_empty, s.like(0.0, value), value))

    free: dict[str, Size] = {"r": count, "c": channels, "p": sizes[0], "q": sizes[1]}
    ends: list[tuple[SSAValue, Sequence[Form]]] = [
        (rois, ["r", side]) for d in range(2) for side in _sides(d)
    ]
    counts: list[tuple[SSAValue, Sequence[Form]]] = [(n, ["r"]) for n in numbers]
    reduced = {name: _most(size) for name, size in zip("ij", sizes, strict=True)}
    operands = [(batches, ["r"]), *counts, *ends]
    kind = "+" if is_mean else ">"
    found = k.contract(kind, free, reduced, operands, (type, [*free]), body)
    return k.contract("=", free, {}, [(found, [*free]), *counts], (type, [*free]), finished)


def _most(size: Size) -> int:
    """Return the maximum number of sampling points for each element of the result, along a
    dimension with ``size`` elements."""
    return max(1, MOST_POINTS // estimated(size))


def _value(
    s: Scalars,
    op: nn.RoiAlignOp,
    x: SSAValue,
    batch: SSAValue,
    point: Sequence[SSAValue],
    element: Attribute,
) -> SSAValue:
    """Return the weighted sum of the four elements around a sampling point or, in the mode ``max``,
    the greatest weighted element."""
    image = s.op(IndexCastOp(batch, IndexType()))
    rows, columns = (
        _taps(s, at, extent) for at, extent in zip(point, shape_of(x)[2:], strict=True)
    )
    total: SSAValue | None = None
    for y, v in rows:
        for at, w in columns:
            own = s.cast(s.extract(x, [image, s.index("c"), y, at]), element)
            value = s.op(MulfOp(s.op(MulfOp(v, w)), own))
            if total is None:
                total = value
            else:
                join = AddfOp if op.settings["mode"] == "avg" else MaximumfOp
                total = s.op(join(total, value))
    assert total is not None
    return total


@native(nn.MaxRoiPoolOp, "max_roi_pool", NHWC, NCHW, elements=SAMPLED, applies=_fits_in)
def max_roi_pool(
    k: KernelBuilder, op: nn.MaxRoiPoolOp, x: SSAValue, rois: SSAValue, batches: SSAValue
) -> SSAValue:
    """Emit R[r, c, p, q], the maximum of X[B[r], c] over the pixels that part (p, q) of region r
    touches.

    For each dimension, the first pixel of each part and its number of pixels are tensors [regions,
    size]. These numbers bound the loops of the maxima.
    """
    type, extents = k.result_type(op), shape_of(x)[2:]
    count, channels, *sizes = shape_of(type)
    element = k.computed(type.element_type)
    spans = [_spans(k, op, rois, d, element) for d in range(2)]

    def body(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
        batch, starts, counts = a[0], a[1::2], a[2::2]
        image = s.op(IndexCastOp(batch, IndexType()))
        places = [
            _pixel(s, start, name, extent)
            for start, name, extent in zip(starts, "ij", extents, strict=True)
        ]
        value = s.cast(s.extract(x, [image, s.index("c"), *places]), element)
        first, second = (s.below(name, n) for name, n in zip("ij", counts, strict=True))
        return s.op(SelectOp(s.op(AndIOp(first, second)), value, s.like(-inf, value)))

    def finished(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
        found, rows, columns = a
        area = s.op(MinSIOp(rows, columns))
        is_empty = s.op(CmpiOp(area, s.like(0, area), "sle"))
        return s.op(SelectOp(is_empty, s.like(0.0, found), found))

    free: dict[str, Size] = {"r": count, "c": channels, "p": sizes[0], "q": sizes[1]}
    reduced = dict(zip("ij", extents, strict=True))
    parts = [(each, ["r", name]) for span, name in zip(spans, "pq", strict=True) for each in span]
    found = k.contract(">", free, reduced, [(batches, ["r"]), *parts], (type, [*free]), body)
    return k.contract("=", free, {}, [(found, [*free]), *parts[1::2]], (type, [*free]), finished)


def _pixel(s: Scalars, start: SSAValue, name: str, extent: Size) -> SSAValue:
    """Return the position of a pixel along a dimension: ``start`` plus the index ``name``, clamped
    to the last pixel."""
    last = s.op(IndexCastOp(s.op(AddiOp(s.size(extent), s.like(-1, s.size(0)))), i32))
    at = s.op(AddiOp(start, s.op(IndexCastOp(s.index(name), i32))))
    return s.op(IndexCastOp(s.op(MinSIOp(at, last)), IndexType()))


def _spans(
    k: KernelBuilder, op: nn.MaxRoiPoolOp, rois: SSAValue, dimension: int, element: Attribute
) -> tuple[SSAValue, SSAValue]:
    """Emit the first pixel of each part of a region along a dimension, and the number of its
    pixels: two tensors [regions, size]."""
    settings, extent = op.settings, shape_of(op.x)[2 + dimension]
    size = settings["sizes"][dimension]

    def edge(s: Scalars, a: Sequence[SSAValue], step: int) -> SSAValue:
        low, high = (s.op(RoundOp(s.op(MulfOp(end, s.like(settings["scale"], end))))) for end in a)
        one = s.like(1.0, low)
        length = _greatest(s, s.op(AddfOp(s.op(SubfOp(high, low)), one)), one)
        part = s.op(DivfOp(length, s.like(size, length)))
        number = _float(s, s.index("p"), low.type)
        at = s.op(MulfOp(s.op(AddfOp(number, s.like(step, number))), part))
        moved = s.op(AddfOp(s.op((CeilOp if step else FloorOp)(at)), low))
        bounded = _least(
            s, _greatest(s, moved, s.like(0.0, moved)), _float(s, s.size(extent), low.type)
        )
        return s.cast(bounded, i32)

    def first(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
        return edge(s, a, 0)

    def number(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
        return s.op(SubiOp(edge(s, a, 1), edge(s, a, 0)))

    free: dict[str, Size] = {"r": shape_of(rois)[0], "p": size}
    ends: list[tuple[SSAValue, Sequence[Form]]] = [(rois, ["r", d]) for d in _sides(dimension)]
    into = (tensor(i32, [*free.values()]), [*free])
    return k.contract("=", free, {}, ends, into, first), k.contract(
        "=", free, {}, ends, into, number
    )


def _sides(dimension: int) -> tuple[int, int]:
    """Return the columns of the tensor of regions that hold the low and the high end along a
    dimension."""
    return 1 - dimension, 3 - dimension


def _points(
    k: KernelBuilder, op: nn.RoiAlignOp, rois: SSAValue, dimension: int, element: Attribute
) -> SSAValue:
    """Emit the coordinates of the sampling points along a dimension, a tensor [regions, size,
    samples]. A point beyond the image has the coordinate -1."""
    samples, size = op.settings["samples"], op.settings["sizes"][dimension]

    def body(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
        return _point(s, op, a, dimension, ("p", "i"), s.like(samples, a[0]))

    free: dict[str, Size] = {"r": shape_of(rois)[0], "p": size, "i": samples}
    ends: list[tuple[SSAValue, Sequence[Form]]] = [(rois, ["r", d]) for d in _sides(dimension)]
    return k.contract("=", free, {}, ends, (tensor(element, [*free.values()]), [*free]), body)


def _numbers(
    k: KernelBuilder,
    op: nn.RoiAlignOp,
    rois: SSAValue,
    batches: SSAValue,
    dimension: int,
    element: Attribute,
) -> SSAValue:
    """Emit the number of sampling points for each element of the result along a dimension, a tensor
    [regions].

    For a region with too many points, the call fails: the emitted code reads an element out of
    bounds, which is checked.
    """
    most = _most(op.settings["sizes"][dimension])

    def body(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
        _, part = _parts(s, op, a, dimension)
        whole = s.op(CeilOp(part))
        zero, infinite = s.like(0.0, part), s.like(inf, part)
        above, below = s.op(CmpfOp(whole, zero, "ogt")), s.op(CmpfOp(whole, infinite, "olt"))
        number = s.cast(s.op(SelectOp(s.op(AndIOp(above, below)), whole, zero)), i32)
        fits = s.op(CmpiOp(number, s.like(most, number), "sle"))
        region = s.op(IndexCastOp(s.index("r"), i32))
        place = s.op(SelectOp(fits, region, s.like(-1, region)))
        checked = s.extract(batches, [s.op(IndexCastOp(place, IndexType()))])
        return s.op(SelectOp(fits, number, s.cast(checked, i32)))

    count = shape_of(rois)[0]
    ends: list[tuple[SSAValue, Sequence[Form]]] = [(rois, ["r", d]) for d in _sides(dimension)]
    return k.contract("=", {"r": count}, {}, ends, (tensor(i32, [count]), ["r"]), body)


def _parts(
    s: Scalars, op: nn.RoiAlignOp, ends: Sequence[SSAValue], dimension: int
) -> tuple[SSAValue, SSAValue]:
    """Return the start of a region along a dimension, and the length of one of its parts. A region
    has a part for each element of the result along the dimension."""
    settings, size = op.settings, op.settings["sizes"][dimension]
    low, high = (s.op(MulfOp(end, s.like(settings["scale"], end))) for end in ends)
    if settings["half_pixel"]:
        low, high = (s.op(SubfOp(end, s.like(0.5, end))) for end in (low, high))
    length = s.op(SubfOp(high, low))
    if not settings["half_pixel"]:
        length = _greatest(s, length, s.like(1.0, length))
    return low, s.op(DivfOp(length, s.like(size, length)))


def _point(
    s: Scalars,
    op: nn.RoiAlignOp,
    ends: Sequence[SSAValue],
    dimension: int,
    names: tuple[str, str],
    samples: SSAValue,
) -> SSAValue:
    """Return the coordinate of a sampling point along a dimension; -1 beyond the image.

    ``names`` are the index of the region's part and the index of the point in the part, which has
    ``samples`` points.
    """
    low, part = _parts(s, op, ends, dimension)
    number, inner = (_float(s, s.index(name), low.type) for name in names)
    start = s.op(AddfOp(low, s.op(MulfOp(number, part))))
    middle = s.op(AddfOp(inner, s.like(0.5, inner)))
    moved = s.op(DivfOp(s.op(MulfOp(middle, part)), samples))
    at = s.op(AddfOp(start, moved))
    above = s.op(CmpfOp(at, s.like(-1.0, at), "oge"))
    below = s.op(CmpfOp(at, _float(s, s.size(shape_of(op.x)[2 + dimension]), low.type), "ole"))
    inside = s.op(AndIOp(above, below))
    kept = _greatest(s, at, s.like(0.0, at))
    return s.op(SelectOp(inside, kept, s.like(-1.0, at)))


Tap = tuple[SSAValue, SSAValue]
"""The position of an element beside a point, and its weight."""


def _taps(s: Scalars, at: SSAValue, extent: Size) -> tuple[Tap, Tap]:
    """Return the two elements around the coordinate ``at`` along a dimension, with their weights in
    a linear interpolation. The weights are 0 if the coordinate is negative, which stands for a
    point beyond the image."""
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
