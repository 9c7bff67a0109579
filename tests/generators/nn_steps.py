"""The ops of random programs: each function adds one, with the constants that it needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tessella.dialects import nn
from tessella.dialects.nn.core import NnOp, PyValue, element_type
from tessella.runtime.scan import Loop
from tessella.support.conditions import decided
from tessella.support.decisions import known
from tessella.support.sizes import Size, bounds_of
from tests.generators.nn_sketch import MOST_ELEMENTS, Drawn, Program, Sketch, Step
from tests.generators.open_sizes import is_open

Drawer = Callable[[Sketch], None]

# ** elementwise **


def unary(s: Sketch) -> None:
    x = s.pick()
    if x is not None:
        s.op(s.one_of(nn.ReluOp, nn.NegOp, nn.AbsOp), x)


def clip(s: Sketch) -> None:
    x = s.pick()
    if x is not None:
        s.op(nn.ClipOp, x, low=-8.0, high=s.one_of(8.0, math.inf))


def partner(s: Sketch, x: int) -> int:
    """Another operand for an op that broadcasts: a value that is there already, or a constant."""
    shape = s.drawn[x].shape
    other = s.pick(lambda a: s.broadcasts(a.shape, shape))
    if other is not None and s.coin():
        return other
    cut = s.between(0, len(shape))
    flat = tuple(1 if s.coin() else n for n in shape[cut:])
    return s.constant(flat)


def binary(s: Sketch) -> None:
    x = s.pick()
    if x is None:
        return
    operands = [x, partner(s, x)]
    if s.coin():
        operands.reverse()
    kind = s.one_of(nn.AddOp, nn.MulOp, nn.SubOp, nn.MaxOp, nn.MinOp)
    most = s.most(operands[0]) * s.most(operands[1])
    s.op(kind if kind is not nn.MulOp or s.fits(most) else nn.AddOp, *operands)


def where(s: Sketch) -> None:
    """Add a comparison, and an op that selects by it. For inexact floats, both choices are
    close."""
    x = s.pick()
    if x is None:
        return
    y = partner(s, x)
    compare = s.one_of(nn.LessOp, nn.GreaterEqualOp, nn.GreaterOp, nn.LessEqualOp)
    condition = s.op(compare, x, y)
    if s.exact and s.coin():
        condition = s.op(nn.NotOp, condition)
    if s.exact and s.coin():
        s.op(nn.CastOp, condition, to=element_type(s.dtype))
        return
    s.op(nn.WhereOp, condition, x, y)


def neutral(s: Sketch) -> None:
    """Arithmetic that does nothing, or nearly so."""
    x = s.pick()
    if x is None:
        return
    kinds = (nn.AddOp, nn.SubOp, nn.MulOp, nn.DivOp, nn.PowOp)
    kind = kinds[s.between(0, 4)]
    number: float = s.one_of(0.0, -0.0, 1.0) if kind in kinds[:3] else s.one_of(1.0, 2.0)
    shape = s.one_of((), (1,), s.drawn[x].shape)
    if kind is nn.PowOp and not s.fits(s.most(x) ** 2):
        return
    if kind is nn.DivOp and s.exact and number != 1:
        x = s.op(nn.MulOp, x, s.splat(2, ()))
    s.op(kind, x, s.splat(number, shape))


def equal(s: Sketch) -> None:
    x = s.pick()
    if x is not None:
        mask = s.op(nn.EqualOp, x, partner(s, x))
        other = s.op(nn.LessOp, x, x)
        both = s.op(s.one_of(nn.AndOp, nn.OrOp, nn.XorOp), mask, other)
        s.op(nn.WhereOp, both, x, s.splat(s.one_of(0, 3), ()))


# ** movement **


def transpose(s: Sketch) -> None:
    x = s.pick(lambda a: a.ndim > 1)
    if x is not None:
        perm = s.random.sample(range(s.drawn[x].ndim), s.drawn[x].ndim)
        s.op(nn.TransposeOp, x, perm=tuple(perm))


def reshape(s: Sketch) -> None:
    x = s.pick()
    if x is None:
        return
    shape = list(s.drawn[x].shape)
    for _ in range(s.between(1, 2)):
        change = s.one_of("merge", "split", "unit")
        at = s.between(0, max(0, len(shape) - 1))
        if change == "merge" and at + 1 < len(shape):
            shape[at : at + 2] = [shape[at] * shape[at + 1]]
        elif change == "split" and shape and shape[at] % 2 == 0:
            shape[at : at + 1] = [2, shape[at] // 2]
        elif len(shape) < 5:
            shape.insert(at, 1)
    s.op(nn.ReshapeOp, x, shape=tuple(shape))


def slice_(s: Sketch) -> None:
    x = s.pick(lambda a: a.ndim > 0)
    if x is None:
        return
    starts: list[Size] = []
    sizes: list[Size] = []
    steps: list[int] = []
    for extent in s.drawn[x].shape:
        start, size, step = part(s, extent)
        starts.append(start)
        sizes.append(size)
        steps.append(step)
    s.op(nn.SliceOp, x, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))


def part(s: Sketch, extent: Size) -> tuple[Size, Size, int]:
    """The start, size and step of a part of a dimension."""
    if not isinstance(extent, int):
        half, last = (extent + 1) // 2, extent - 1
        return s.one_of(
            (0, extent, 1), (0, last, 1), (1, last, 1), (last, extent, -1), (0, half, 2)
        )
    step = s.one_of(1, 1, -1, 2, -3)
    start = s.between(0, extent - 1)
    room = extent - start if step > 0 else start + 1
    return start, s.between(1, -(-room // abs(step))), step


def concat(s: Sketch) -> None:
    x = s.pick(lambda a: a.ndim > 0 and a.size <= MOST_ELEMENTS // 3)
    if x is None:
        return
    shape = s.drawn[x].shape
    axis = s.between(0, len(shape) - 1)
    other = s.pick(lambda a: a.shape == shape)
    parts = [x, x if other is None else other]
    if s.coin():
        parts.insert(1, s.constant([*shape[:axis], 2, *shape[axis + 1 :]]))
    s.op(nn.ConcatOp, *parts, axis=axis)


def pad(s: Sketch) -> None:
    x = s.pick(lambda a: a.ndim > 0 and math.prod(n + 3 for n in a.array.shape) <= MOST_ELEMENTS)
    if x is not None:
        rank = s.drawn[x].ndim
        low, high = (tuple(s.between(0, 3) for _ in range(rank)) for _ in range(2))
        value = s.one_of(0.0, 2.0)
        s.op(nn.PadOp, x, low=low, high=high, mode="constant", value=value)


def repeat(s: Sketch) -> None:
    x = s.pick(lambda a: 0 < a.ndim < 4 and a.size <= MOST_ELEMENTS // 6)
    if x is None:
        return
    shape = s.drawn[x].shape
    if s.coin():
        repeats = tuple(s.one_of(1, 2) for _ in shape)
        s.op(nn.TileOp, x, repeats=repeats)
    else:
        s.op(nn.ExpandOp, x, shape=(s.one_of(1, 3), *(5 if n == 1 else n for n in shape)))


def gather(s: Sketch) -> None:
    x = s.pick(lambda a: 0 < a.ndim < 4)
    if x is None:
        return
    shape = s.drawn[x].shape
    axis = s.between(0, len(shape) - 1)
    count = s.one_of((), (1,), (3,), (2, 2))
    extent, _ = bounds_of(shape[axis])
    if not extent:
        return
    indices = s.integers(count, -extent, extent - 1)
    if math.prod(s.sampled(shape)) // s.sampled(shape)[axis] * indices.size <= MOST_ELEMENTS:
        s.op(nn.GatherOp, x, s.add(Step(nn.WeightOp, array=indices)), axis=axis)


# ** contractions **


def reduce(s: Sketch) -> None:
    x = s.pick(lambda a: a.ndim > 0)
    if x is None:
        return
    shape = s.drawn[x].shape
    axes = sorted({s.between(0, len(shape) - 1) for _ in range(s.between(1, 3))})
    count = math.prod(s.sampled(shape)[d] for d in axes)
    sums = s.fits(s.most(x) * count)
    kind = s.one_of(nn.ReduceMaxOp, nn.ReduceMinOp, *([nn.ReduceSumOp] * 2 * sums))
    s.op(kind, x, axes=tuple(axes), keepdims=s.coin())


def matmul(s: Sketch) -> None:
    x = s.pick(lambda a: a.ndim > 1)
    if x is None:
        return
    *batch, _, k = s.drawn[x].shape
    *_, m, depth = s.drawn[x].array.shape
    rows = math.prod(s.sampled(batch)) * m
    if s.coin() and s.fits(s.most(x) ** 2 * depth):
        if rows * m <= MOST_ELEMENTS:
            s.op(nn.MatmulOp, x, x, transpose_b=True)
        return
    n, transposed = s.one_of(1, 3, 5, 18, 35), s.coin()
    if not s.fits(s.most(x) * 4 * depth) or rows * n > MOST_ELEMENTS:
        return
    shape = (n, k) if transposed else (k, n)
    outer = batch if s.coin() else []
    y = s.op(nn.MatmulOp, x, s.constant([*outer, *shape]), transpose_b=transposed)
    if s.coin():
        s.op(nn.AddOp, y, s.constant([n]))


def _images(a: Drawn) -> bool:
    return 3 <= a.ndim <= 4 and decided(a.shape[1] <= 33) and a.size <= 1000


def conv(s: Sketch) -> None:
    x = s.pick(_images)
    if x is None:
        return
    _, channels, *sizes = s.drawn[x].shape
    groups = s.one_of(1, 1, channels, 2 if channels % 2 == 0 else 1)
    per_out = s.one_of(1, 3, 17) if groups < 4 else s.one_of(1, 2)
    kernel = [s.one_of(1, 2, 3) for _ in sizes]
    pads = tuple(s.between(0, 2) for _ in range(2 * len(sizes)))
    rank = len(sizes)
    fits = all(n + pads[d] + pads[rank + d] >= kernel[d] for d, n in enumerate(sizes)) and s.fits(
        s.most(x) * 4 * math.prod(kernel) * (channels // groups) + 4
    )
    if not fits:
        return
    operands = [x, s.constant([groups * per_out, channels // groups, *kernel])]
    if s.coin():
        operands.append(s.constant([groups * per_out]))
    y = s.op(
        nn.ConvOp,
        *operands,
        strides=tuple(s.one_of(1, 1, 2) for _ in sizes),
        pads=pads,
        dilations=(1,) * rank,
        groups=groups,
    )
    if s.coin() and s.fits(s.most(y) * 4 + 4):
        shape = (groups * per_out, *[1] * rank)
        scaled = s.op(nn.MulOp, y, s.constant(shape))
        s.op(nn.AddOp, scaled, s.constant(shape))


def _pooled(a: Drawn) -> bool:
    return _images(a) and all(decided(size >= 2) for size in a.shape[2:])


def max_pool(s: Sketch) -> None:
    x = s.pick(_pooled)
    if x is not None:
        rank = s.drawn[x].ndim - 2
        window(s, nn.MaxPoolOp, x, rank)


def window(s: Sketch, kind: type[NnOp], x: int, rank: int, **settings: PyValue) -> None:
    kernel = tuple(s.one_of(1, 2, 2) for _ in range(rank))
    pads = tuple(s.between(0, k - 1) for k in (*kernel, *kernel))
    strides = tuple(s.one_of(1, 2) for _ in range(rank))
    s.op(
        kind,
        x,
        kernel_shape=kernel,
        strides=strides,
        pads=pads,
        dilations=(1,) * rank,
        ceil_mode=s.coin(),
        **settings,
    )


# ** loops **


def scan(s: Sketch) -> None:
    """A loop that keeps its state small, and may end before its sequence does."""
    x = s.pick(lambda a: a.ndim > 1 and (is_open(a.shape[0]) or 0 < known(a.shape[0]) <= 9))
    if x is None or not s.fits(s.most(x) * 64):
        return
    sequence = s.drawn[x]
    shape = sequence.shape[1:]
    h = s.pick(lambda a: a.shape == shape and np.abs(a.array).max(initial=0) <= 8)
    other = s.pick()
    operands = [s.constant(shape) if h is None else h, x]
    inputs = {
        "h": Drawn(shape, s.numbers(s.sampled(shape), 8)),
        "x": Drawn(shape, np.abs(sequence.array).max(axis=0)),
    }
    if other is not None and s.coin():
        operands.append(other)
        inputs["y"] = s.drawn[other]
    inner = Sketch(s.random, s.dtype, exact=s.exact, inputs=inputs, symbols=s.symbols)
    for _ in range(s.between(1, 3)):
        s.one_of(unary, binary, binary, clip, transpose, matmul, reduce)(inner)
    found = inner.pick(lambda a: a.shape == shape)
    assert found is not None
    new = inner.op(s.one_of(nn.AddOp, nn.SubOp, nn.MaxOp), found, s.one_of(0, 1))
    state, output = inner.op(nn.ClipOp, new, low=-8.0, high=8.0), inner.pick()
    assert output is not None
    inner.program.results = (state, output)
    backward = tuple(i for i in range(2) if s.coin())
    loop, body, result = Loop(1, 1, backward), inner.program, s.one_of(0, 1, 1)
    if s.coin():
        loop, body, result = Loop(2, 1, backward, conditional=True), ended(s, inner), result + 1
        operands = [s.splat(s.between(0, 5) > 0, (), np.bool_), *operands]
    s.add(Step(nn.ScanOp, tuple(operands), body=body, loop=loop, result=result))


def ended(s: Sketch, inner: Sketch) -> Program:
    """The body of a loop that goes on while the sum of its state is small, or while it is large."""
    inputs = inner.drawn[: len(inner.program.inputs)]
    names = dict(zip(inner.program.inputs, inputs, strict=True))
    names = {"go": Drawn((), np.array(True)), **names}
    whole = Sketch(s.random, s.dtype, exact=s.exact, inputs=names, symbols=s.symbols)
    for step in inner.program.steps:
        whole.add(replace(step, operands=tuple(i + 1 for i in step.operands)))
    state, output = (i + 1 for i in inner.program.results)
    axes = tuple(range(whole.drawn[state].ndim))
    total = whole.op(nn.ReduceSumOp, state, axes=axes, keepdims=False)
    compare = s.one_of(nn.LessOp, nn.GreaterOp)
    again = whole.op(compare, total, whole.splat(s.between(-20, 20), ()))
    whole.program.results = (again, state, output)
    return whole.program


# ** without native kernels **


def on_host(s: Sketch) -> None:
    x = s.pick(lambda a: 0 < a.ndim < 5)
    if x is None:
        return
    shape = s.drawn[x].shape
    axis = s.between(0, len(shape) - 1)
    if s.coin() and s.fits(s.most(x) * known(shape[axis])):
        s.op(nn.CumsumOp, x, axis=axis, exclusive=s.coin(), reverse=s.coin())
    else:
        s.op(nn.TopkOp, x, k=s.between(1, known(shape[axis])), axis=axis, largest=s.coin())


# ** inexact **


def smooth(s: Sketch) -> None:
    x = s.pick()
    if x is not None:
        s.op(s.one_of(nn.SigmoidOp, nn.TanhOp, nn.GeluOp), x)


def softmax(s: Sketch) -> None:
    x = s.pick(lambda a: a.ndim > 0)
    if x is not None:
        axis = s.between(0, s.drawn[x].ndim - 1)
        s.op(s.one_of(nn.SoftmaxOp, nn.LogSoftmaxOp), x, axis=axis)


def mean(s: Sketch) -> None:
    x = s.pick(lambda a: a.ndim > 0)
    if x is not None:
        axis = s.between(0, s.drawn[x].ndim - 1)
        s.op(nn.ReduceMeanOp, x, axes=(axis,), keepdims=s.coin())


def average(s: Sketch) -> None:
    x = s.pick(_pooled)
    if x is not None:
        rank = s.drawn[x].ndim - 2
        window(s, nn.AvgPoolOp, x, rank, count_include_pad=s.coin())


def layer_norm(s: Sketch) -> None:
    x = s.pick(lambda a: a.ndim > 0)
    if x is None:
        return
    shape = s.drawn[x].shape
    scale, bias = (s.constant(shape[-1:]) for _ in range(2))
    s.op(nn.LayerNormOp, x, scale, bias, axis=len(shape) - 1, epsilon=0.1)


def divide(s: Sketch) -> None:
    x = s.pick()
    if x is not None:
        s.op(nn.DivOp, x, s.splat(s.one_of(2, 3, -7), ()))


EXACT_ON_FLOATS: Sequence[Drawer] = (
    unary, clip, binary, binary, where, transpose, transpose, reshape, slice_, concat, pad, repeat,
    gather, reduce, matmul, conv, conv, max_pool,
)  # fmt: skip
EXACT: Sequence[Drawer] = (*EXACT_ON_FLOATS, equal, neutral, scan, scan)
INEXACT: Sequence[Drawer] = (smooth, softmax, softmax, mean, average, layer_norm, divide)
