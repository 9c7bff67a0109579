"""Ops that move elements about."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto, helper

from tests.fuzz.elements import CODES, Array
from tests.fuzz.graphs import MOST_ELEMENTS, Draft, Row, Wanted

FEW = MOST_ELEMENTS // 6


def axis_of(d: Draft, x: Array) -> int:
    """An axis, counted from either end."""
    d.require(x.ndim > 0)
    return d.between(-x.ndim, x.ndim - 1)


def ranked(low: int = 1, most: int = MOST_ELEMENTS, high: int = 6) -> Wanted:
    """Return whether an array has so many dimensions and elements."""
    return lambda a: low <= a.ndim <= high and a.size <= most


def pick(d: Draft, low: int = 1, most: int = MOST_ELEMENTS) -> Array:
    """An operand of at least so many dimensions."""
    return d.pick(ranked(low, most), lambda: d.shape(d.between(low, max(low, 4))))


def anything(d: Draft) -> None:
    d.pick()


def shape(d: Draft) -> None:
    x = d.pick()
    if "start" in d.schema.attributes and d.coin():
        d.set("start", d.between(-x.ndim - 1, x.ndim))
        d.set("end", d.between(-x.ndim, x.ndim + 1))


def concat(d: Draft) -> None:
    x = pick(d, most=FEW)
    axis = axis_of(d, x)
    d.set("axis", axis)
    at = axis % x.ndim

    def joins(a: Array) -> bool:
        return (
            a.ndim == x.ndim
            and a.size <= FEW
            and all(
                n == m for i, (n, m) in enumerate(zip(a.shape, x.shape, strict=True)) if i != at
            )
        )

    for _ in range(d.one_of(0, 1, 1, 1, 2, 4)):
        other = (*x.shape[:at], d.one_of(1, 2, 5), *x.shape[at + 1 :])
        d.pick(joins, lambda other=other: other)


def transpose(d: Draft) -> None:
    x = d.pick()
    if d.chance(80):
        d.set("perm", d.random.sample(range(x.ndim), x.ndim))


def _factors(d: Draft, size: int) -> list[int]:
    """Numbers with this product."""
    made: list[int] = []
    for factor in (2, 3, 5, 7, 11, 17):
        while size and size % factor == 0:
            made.append(factor)
            size //= factor
    made += [size] if size != 1 else []
    d.random.shuffle(made)
    sizes = [1] * d.between(0, 2)
    while made:
        count = d.between(1, len(made))
        sizes.insert(d.between(0, len(sizes)), math.prod(made[:count]))
        made = made[count:]
    return sizes


def reshape(d: Draft) -> None:
    x = d.pick(ranked(0))
    if x.size == 0:
        d.constant(np.asarray(x.shape[::-1], np.int64))
        d.set("allowzero", 1)
        d.require("allowzero" in d.schema.attributes)
        return
    sizes = _factors(d, x.size)
    if sizes and d.coin():
        sizes[d.between(0, len(sizes) - 1)] = -1
    for i in range(min(len(sizes), x.ndim)):
        if sizes[i] == x.shape[i] and d.chance(30):
            sizes[i] = 0
    d.setting(sizes, lambda a: a.ndim == 1 and bool(np.all(a > 0)) and a.prod() == x.size)


def flatten(d: Draft) -> None:
    x = d.pick(ranked(1))
    if d.chance(80):
        d.set("axis", d.between(-x.ndim if d.opset >= 11 else 0, x.ndim))


def squeeze(d: Draft) -> None:
    x = d.pick(lambda a: 1 in a.shape, lambda: (1, *d.shape(2)))
    ones = [i - x.ndim * d.between(0, d.opset >= 11) for i, n in enumerate(x.shape) if n == 1]
    if d.chance(80):
        d.listed("axes", d.random.sample(ones, d.between(1, max(1, len(ones)))) if ones else [])


def unsqueeze(d: Draft) -> None:
    x = d.pick(ranked(0, high=4))
    rank = x.ndim + d.between(1, 2)
    axes = d.random.sample(range(rank), rank - x.ndim)
    d.listed("axes", [i - rank * d.between(0, d.opset >= 11) for i in axes])


def expand(d: Draft) -> None:
    x = d.pick(ranked(0, FEW, 4))
    sizes = [d.one_of(1, 3, 5) if n == 1 else d.one_of(1, n) for n in x.shape]
    sizes = [*([d.one_of(1, 3)] * d.between(0, 1)), *sizes]
    d.setting(
        sizes[d.between(0, len(sizes)) if d.chance(20) else 0 :], lambda a: _expands(x.shape, a)
    )


def _expands(shape: tuple[int, ...], to: Array) -> bool:
    if to.ndim != 1 or len(to) > 6 or not np.all((to > 0) & (to <= MOST_ELEMENTS)):
        return False
    try:
        return math.prod(np.broadcast_shapes(shape, tuple(to.tolist()))) <= MOST_ELEMENTS
    except ValueError:
        return False


def tile(d: Draft) -> None:
    x = d.pick(ranked(1, FEW, 4))
    d.constant(np.asarray([d.one_of(1, 1, 2, 3) for _ in x.shape], np.int64))


def slices(d: Draft) -> None:
    x = pick(d)
    axes = d.random.sample(range(x.ndim), d.between(1, x.ndim))
    starts, ends = ([d.between(-n - 2, n + 2) for n in (x.shape[i] for i in axes)] for _ in "ab")
    names = [i - x.ndim * d.between(0, 1) for i in axes]
    if "starts" in d.schema.attributes:
        d.set("starts", starts)
        d.set("ends", ends)
        d.set("axes", axes)
        return
    steps = [d.one_of(1, 1, 1, 2, 3, -1, -2) for _ in axes]
    for i, step in enumerate(steps):
        if d.chance(20):
            starts[i], ends[i] = (0, 1 << 62) if step > 0 else (1 << 62, -(1 << 62))
    for values in (starts, ends, names, steps):
        d.constant(np.asarray(values, np.int64), TensorProto.INT64)


def split(d: Draft) -> None:
    x = pick(d)
    axis = axis_of(d, x) if d.opset >= 11 else d.between(0, x.ndim - 1)
    d.set("axis", axis)
    size = x.shape[axis]
    cuts = sorted(d.between(0, size) for _ in range(d.between(0, 2)))
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, size], strict=True)]
    d.outputs = len(sizes)
    if "num_outputs" in d.schema.attributes and d.coin():
        d.require(size >= len(sizes) > 0)
        d.set("num_outputs", len(sizes))
    else:
        d.listed("split", sizes)


def pad(d: Draft) -> None:
    x = pick(d, most=FEW)
    mode = d.attributes.get("mode", "constant")
    least = min(x.shape)
    d.require(mode == "constant" or least > 0)
    reach = {"constant": 3, "edge": 3, "reflect": min(2, least - 1), "wrap": min(2, least)}[mode]
    low = -1 if mode == "constant" and least > 2 else 0
    pads = [d.between(low, reach) for _ in range(2 * x.ndim)]
    if "pads" in d.schema.attributes:
        d.set("pads", pads)
        return
    d.constant(np.asarray(pads, np.int64), TensorProto.INT64)
    if mode == "constant" and d.coin():
        d.constant(np.asarray(d.one_of(0, 1)))


def depth_to_space(d: Draft) -> None:
    block = d.one_of(1, 2, 3)
    d.set("blocksize", block)
    d.pick(
        lambda a: a.ndim == 4 and a.shape[1] % block**2 == 0,
        lambda: (d.between(1, 2), block**2 * d.between(1, 3), d.between(1, 5), d.between(1, 5)),
    )


def space_to_depth(d: Draft) -> None:
    block = d.one_of(1, 2, 3)
    d.set("blocksize", block)
    d.pick(
        lambda a: a.ndim == 4 and not a.shape[2] % block and not a.shape[3] % block,
        lambda: (
            d.between(1, 2),
            d.between(1, 5),
            block * d.between(1, 4),
            block * d.between(1, 4),
        ),
    )


def trilu(d: Draft) -> None:
    x = pick(d, 2)
    if d.chance(70):
        d.constant(np.asarray(d.between(-max(x.shape), max(x.shape)), np.int64))


def eye_like(d: Draft) -> None:
    d.pick(lambda a: a.ndim == 2, lambda: d.shape(2))
    if d.coin():
        d.set("dtype", d.one_of(*CODES))


def constant_of_shape(d: Draft) -> None:
    d.setting(
        d.shape(),
        lambda a: a.ndim == 1 and len(a) < 6 and bool(np.all(a >= 0)) and a.prod() <= FEW,
    )
    code = d.one_of(*CODES)
    if d.chance(80):
        d.set("value", helper.make_tensor("value", code, [1], [d.between(0, 1)]))


def counted(d: Draft) -> None:
    start, step = d.between(-5, 5), d.one_of(1, 2, -1, -3)
    start = max(start, 0) if d.coin() else start
    for value in (start, start + step * d.between(0, 20), step):
        d.constant(np.asarray(value))


def reverse_sequence(d: Draft) -> None:
    x = pick(d, 2)
    batch = d.between(0, 1)
    d.set("batch_axis", batch)
    d.set("time_axis", 1 - batch)
    d.require(x.shape[1 - batch] > 0)
    lengths = [d.between(1, x.shape[1 - batch]) for _ in range(x.shape[batch])]
    d.new((len(lengths),), lambda a: np.asarray(lengths, a.dtype))


def compress(d: Draft) -> None:
    x = d.pick()
    size = x.size
    if x.ndim and d.coin():
        axis = axis_of(d, x) if d.opset >= 11 else d.between(0, x.ndim - 1)
        d.set("axis", axis)
        size = x.shape[axis]
    count = d.between(0, size)
    d.constant(np.asarray([d.coin() for _ in range(count)], np.bool_))


def centre(d: Draft) -> None:
    x = pick(d, 2, FEW)
    axes = d.random.sample(range(x.ndim), d.between(1, 2))
    d.set("axes", axes)
    # of int32, the body that ONNX gives has a Max of two types
    sizes = [d.between(1, x.shape[i] + 3) for i in axes]
    d.constant(np.asarray(sizes), TensorProto.INT64)


def window(d: Draft) -> None:
    d.constant(np.asarray(d.between(3, 20), np.int64))


ROWS = (
    Row("Shape", shape, exact=True, of_shape=True),
    Row("Size", anything, exact=True, of_shape=True),
    Row("Concat", concat, exact=True),
    Row("Transpose", transpose, exact=True),
    Row("Reshape", reshape, exact=True),
    Row("Flatten", flatten, exact=True),
    Row("Squeeze", squeeze, exact=True),
    Row("Unsqueeze", unsqueeze, exact=True),
    Row("Expand", expand, exact=True),
    Row("Tile", tile, exact=True),
    Row("Slice", slices, exact=True),
    Row("Split", split, exact=True),
    Row("Pad", pad, {"mode": ("constant", "edge", "reflect", "wrap")}, exact=True),
    Row("DepthToSpace", depth_to_space, {"mode": ("DCR", "CRD")}, exact=True),
    Row("SpaceToDepth", space_to_depth, exact=True),
    Row("Trilu", trilu, {"upper": (0, 1)}, exact=True),
    Row("EyeLike", eye_like, {"k": (0, 1, -1, 3)}, exact=True),
    Row("ConstantOfShape", constant_of_shape, exact=True),
    Row("Range", counted, exact=True),
    Row("ReverseSequence", reverse_sequence, exact=True),
    Row("Compress", compress, exact=True),
    Row("CenterCropPad", centre, exact=True),
    *(
        Row(f"{name}Window", window, {"periodic": (0, 1)})
        for name in ("Blackman", "Hamming", "Hann")
    ),
)
