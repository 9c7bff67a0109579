"""Nodes with attributes and small operands that make no sense, and odd ones that do."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.frontends.onnx.semantics.case import Case, runtime

Array = npt.NDArray[Any]
HUGE = 1 << 62
LEAST = -(1 << 63)
NAN, INF = float("nan"), float("inf")


class Either:
    """Alternatives for one operand or attribute of a row."""

    def __init__(self, *values: Any) -> None:
        self.values = values


def over(
    op: str, *operands: Any, outputs: Any = 1, wanted: Any = None, **attributes: Any
) -> Iterator[Case]:
    """Return a case for each choice among the alternatives."""
    given = [*operands, *attributes.values()]
    lists = [x.values if isinstance(x, Either) else (x,) for x in given]
    for chosen in itertools.product(*lists):
        settings = dict(zip(attributes, chosen[len(operands) :], strict=True))
        yield Case(op, chosen[: len(operands)], settings, outputs=outputs, wanted=wanted)


def f(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def floats(*values: float) -> Array:
    return np.array(values, np.float32)


def i(*values: int) -> Array:
    return np.array(values, np.int64)


def one(value: float, dtype: npt.DTypeLike = np.int64) -> Array:
    return np.array(value, dtype)


def real(value: float) -> Array:
    return one(value, np.float32)


def lengths(*values: int) -> Array:
    return np.array(values, np.int32)


def bits(*values: int) -> Array:
    return np.array(values, np.bool_)


def bytes_(count: int) -> Array:
    return np.zeros(count, np.uint8)


GRID = f(1, 2, 2, 2)
BOXES = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 10, 1, 11]]], np.float32)
SCORES = np.array([[[0.9, 0.8, 0.7]]], np.float32)
REGIONS = floats(0, 0, 2, 2).reshape(1, 4)
PAIR = i(0, 1)
MEL = (one(4), one(8), one(100), real(1), real(40))
RECURRENT = {"RNN": 1, "LSTM": 4, "GRU": 3}


def recurrent() -> Iterator[Case]:
    """Layers of two hidden values over three steps of a batch of two."""
    for op, gates in RECURRENT.items():
        x, w = f(3, 2, 2), f(1, 2 * gates, 2)
        wrong = Either(lengths(-1, 2), lengths(9, 2), lengths(1), lengths(2**31 - 1, -(2**31)))
        ways = Either("forward", "reverse")
        settings = {"outputs": 2, "hidden_size": 2}
        yield from over(op, x, w, w, None, wrong, direction=ways, **settings)
        yield from over(op, x, w, w, outputs=2, hidden_size=Either(0, 3, -1, 1 << 40))
        yield from over(op, x, w, w, clip=Either(-1.0, NAN), **settings)
        yield from over(op, x, w, w, activations=Either(["Nope"] * 3, ["Tanh"] * 7), **settings)
        yield from over(op, x, w, w, direction="x", **settings)
        yield from over(op, x, w, w, layout=2, **settings)
        yield from over(op, x, np.concatenate([w, w]), w, **settings)
        yield from over(op, x, w, np.concatenate([w, w]), **settings)
        yield from over(op, x, w, w, direction="bidirectional", **settings)
        yield from over(op, x, w, w, Either(f(1, 3), f(2, 4 * gates)), **settings)
        start = Either(f(2, 2, 2), f(1, 2, 3), f(1, 1, 2))
        yield from over(op, x, w, w, None, None, start, **settings)


def attention() -> Iterator[Case]:
    q, k = f(1, 2, 2, 4), f(1, 2, 3, 4)
    none = f(1, 2, 0, 4)
    yield from over("Attention", Either(q, none), none, none, is_causal=Either(0, 1))
    yield from over("Attention", q, none, none, Either(f(2, 0), None))
    yield from over("Attention", q[..., :0], k[..., :0], k)
    heads = {"q_num_heads": Either(0, 3, -2), "kv_num_heads": Either(0, 2)}
    yield from over("Attention", f(1, 2, 8), f(1, 3, 8), f(1, 3, 8), **heads)
    cache, table = f(1, 4, 2), f(9, 2)
    yield from over("TensorScatter", cache, f(1, 2, 2), i(3))
    x, turned = f(1, 2, 3, 4), i(0, 1, 99)[None]
    yield from over("RotaryEmbedding", x, table, table, turned)
    yield from over("RotaryEmbedding", x, table, table, i(0, 1, 2)[None], rotary_embedding_dim=9)
    yield from over("RotaryEmbedding", f(1, 3, 8), table, table, i(0, 1, 2)[None], num_heads=3)


def detection() -> Iterator[Case]:
    op = "NonMaxSuppression"
    yield from over(op, BOXES, SCORES, Either(i(), i(1, 2)))
    overlaps = (floats(x) for x in (1.5, -0.5, NAN, INF))
    yield from over(op, BOXES, SCORES, i(3), Either(*overlaps, floats(0.5, 0.6), floats()))
    yield from over(op, BOXES, SCORES, i(3), floats(0.5), floats())
    yield from over(op, BOXES, SCORES[:, :, :2], i(3), floats(0.5))
    yield from over(op, BOXES[:, :, :3], SCORES, i(3), floats(0.5))
    yield from over(op, BOXES, SCORES, i(3), floats(0.5), center_point_box=2)
    x = f(1, 1, 4, 4)
    yield from over("RoiAlign", x, REGIONS, i(0), output_height=Either(-1, 1 << 40))
    yield from over("RoiAlign", x, REGIONS, i(0), output_width=-1)
    yield from over("RoiAlign", x, REGIONS, i(0), sampling_ratio=Either(-1, 1 << 31))
    yield from over("RoiAlign", x, REGIONS, i(0), spatial_scale=Either(NAN, INF))
    yield from over("RoiAlign", x, REGIONS, i(0), mode="x")
    yield from over("RoiAlign", x, REGIONS, Either(i(-1), i(1), i(1 << 40), i(), i(0, 0)))
    yield from over("RoiAlign", f(1, 1, 0, 0), REGIONS, i(0))
    yield from over("RoiAlign", x, REGIONS[:, :3], i(0))
    yield from over("GridSample", x, f(1, 2, 2, 3))
    yield from over("GridSample", x, GRID, mode="x")
    yield from over("GridSample", f(1, 1, 0, 4), GRID)
    sizes = Either(i(1, 1, -1, 2), i(2, 1, 2, 2), i(1, 1, 2), i(1, 1, HUGE, 2))
    yield from over("AffineGrid", f(1, 2, 3), sizes)
    offsets = f(1, 8, 2, 2)
    yield from over("DeformConv", f(1, 1, 3, 3), f(1, 1, 2, 2), offsets, offset_group=0)


def movement() -> Iterator[Case]:
    x, flat = f(3, 2), f(3)
    modes = Either("constant", "reflect", "edge", "wrap")
    beyond = Either(i(-9, 0), i(-2, -2), i(-4, 4), i(HUGE, HUGE), i(1, 1, 1), i())
    yield from over("Pad", flat, beyond, mode=modes)
    yield from over("Pad", f(0), i(1, 1), mode=Either("reflect", "edge", "wrap"))
    yield from over("Pad", flat, i(1, 1), mode="nope")
    yield from over("Pad", x, i(1, 1), None, Either(i(5), i(-3), i(0, 1)))
    yield from over("Pad", flat, i(1, 1), Either(floats(1, 2), floats()))
    yield from over("Slice", flat, i(0), i(3), i(0), i(0))
    yield from over("Slice", flat, i(0, 0), i(3))
    yield from over("Slice", flat, i(0), i(3), Either(i(5), i(-2)))
    yield from over("Slice", x, i(0, 0), i(3, 3), i(0, 0))
    yield from over("Slice", flat, i(0), i(3), i(0), i(1, 1))
    yield from over("Slice", real(1), i(0), i(1))
    parts = Either(i(1, 1), i(4, -1), i(1, 3), i(HUGE, HUGE), i(1, 2, 0), i(3))
    yield from over("Split", flat, parts, outputs=2)
    yield from over("Split", flat, outputs=2, num_outputs=Either(0, 3, -1))
    yield from over("Split", flat, i(1, 2), outputs=2, axis=4)
    yield from over("SplitToSequence", flat, Either(one(0), one(-1), i(1, 1), i(4, -1)))
    repeats = Either(i(-1, 1), i(1), i(1, 1, 1), i(1 << 40, 1 << 40), i(HUGE, 1), i())
    yield from over("Tile", x, repeats)
    yield from over("Expand", flat, Either(i(-1), i(2), i(1 << 40, 3), i(0)))
    shapes = Either(i(-2), i(-1, -1), i(0, 0), i(HUGE, HUGE), i(2, 2))
    yield from over("Reshape", flat, shapes)
    yield from over("ConstantOfShape", Either(i(-1), i(1 << 40, 1 << 40)))
    yield from over("Unsqueeze", flat, Either(i(5), i(0, 0), i(-3)))
    yield from over("Squeeze", flat, Either(i(0), i(3)))
    yield from over("Transpose", x, perm=Either([0, 0], [0], [-1, 0], [0, 1, 2], [0, 2]))
    yield from over("Flatten", flat, axis=Either(3, -2))
    yield from over("Concat", flat, f(2), axis=Either(2, -2))
    yield from over("DepthToSpace", f(1, 4, 2, 2), blocksize=Either(0, 3, -2))
    yield from over("DepthToSpace", f(1, 4, 2, 2), blocksize=2, mode="x")
    yield from over("SpaceToDepth", f(1, 1, 4, 4), blocksize=Either(0, 3, -2))
    yield from over("CenterCropPad", flat, Either(i(2, 2), i(HUGE)))
    yield from over("CenterCropPad", x, i(2), axes=[4])
    yield from over("ReverseSequence", x, Either(i(-1, 2), i(9, 2), i(1), i(HUGE, 1)))
    yield from over("ReverseSequence", x, i(1, 2), time_axis=Either(0, 1, 2), batch_axis=0)
    columns = f(1, 4, 4)
    yield from over("Col2Im", columns, Either(i(-3, 3), i(9, 9)), i(2, 2))
    yield from over("Col2Im", columns, i(3, 3), Either(i(0, 2), i(-2, 2)))
    yield from over("Col2Im", columns, i(3, 3), i(2, 2), strides=[0, 1])
    yield from over("Col2Im", f(1, 4, 5), i(3, 3), i(2, 2))


def indexing() -> Iterator[Case]:
    flat, x = f(3), f(2, 3)
    for index in (i(5), i(-4), i(HUGE)):
        yield from over("Gather", flat, index)
        yield from over("GatherElements", flat, index)
        yield from over("ScatterElements", flat, index, f(1))
        yield from over("GatherND", flat, index[:, None])
        yield from over("ScatterND", flat, index[:, None], f(1))
    for op in ("Gather", "GatherElements"):
        yield from over(op, flat, i(0), axis=Either(1, -2))
    yield from over("ScatterElements", flat, i(0), f(1), axis=4)
    yield from over("ScatterElements", flat, PAIR, f(1))
    yield from over("ScatterElements", flat, i(0), f(1), reduction="nope")
    yield from over("ScatterND", flat, PAIR[:, None], f(1))
    yield from over("ScatterND", flat, i(0)[:, None], f(1), reduction="nope")
    yield from over("ScatterND", x, i(0, 0, 0)[None], f(1))
    yield from over("GatherND", x, PAIR[:, None], batch_dims=Either(-1, 2, 3, HUGE))
    yield from over("GatherND", x, Either(i(0, 0, 0)[None], one(0), np.zeros((2, 0), np.int64)))
    yield from over("OneHot", PAIR, one(3), Either(f(1), f(3), f(), f(0), f(1, 2)))
    depths = Either(one(-1), i(3, 3), i(), one(HUGE), real(NAN), real(INF))
    yield from over("OneHot", PAIR, depths, f(2))
    yield from over("OneHot", i(0), one(3), f(2), axis=Either(5, -3))
    yield from over("Trilu", f(3, 3), Either(i(1, 1), i()))
    yield from over("Trilu", flat)
    yield from over("Trilu", f(3, 3), upper=7)
    yield from over("Compress", f(3, 2), bits(1, 0, 1, 1, 1), axis=0)
    yield from over("Compress", f(1, 3), bits(1, 0, 1, 1, 1))
    yield from over("Compress", f(3, 2), bits(1), axis=Either(5, -3))
    yield from over("Compress", f(3, 2), bits(1)[None], axis=0)
    yield from over("TopK", flat, Either(i(-1), i(4), i(HUGE), i(1, 1), i()), outputs=2)
    yield from over("TopK", flat, i(1), outputs=2, axis=3)
    yield from over("TopK", Either(f(0), real(1)), i(1), outputs=2)
    yield from over("TopK", flat, i(2), outputs=2, largest=2)
    yield from over("Unique", flat, axis=3)
    yield from over("Unique", flat, sorted=2)
    yield from over("EyeLike", flat)
    yield from over("CumSum", flat, Either(one(3), i(0, 0), i()))
    yield from over("ArgMax", flat, axis=2)
    yield from over("ArgMax", f(0))
    yield from over("ReduceSum", f(3, 3), Either(i(3), i(0, 0), i(0, -2)))


def sizes() -> Iterator[Case]:
    flat, image = f(3), f(1, 1, 4)
    scales = Either(*map(floats, (0, NAN, INF, -1, 1e30, 1e10)))
    modes = Either("nearest", "linear", "cubic")
    yield from over("Resize", flat, None, scales, mode=modes)
    yield from over("Resize", flat, None, None, Either(i(0), i(-1), i(HUGE), i(), i(2, 2)))
    yield from over("Resize", flat, None, floats(2, 2))
    yield from over("Resize", flat)
    yield from over("Resize", f(0), None, None, i(4))
    yield from over("Resize", f(3, 3), None, floats(2), axes=[5])
    yield from over("Resize", f(3, 3), None, floats(2, 2), axes=[0, 0])
    cropped = {"coordinate_transformation_mode": "tf_crop_and_resize"}
    yield from over("Resize", flat, Either(floats(0, NAN), floats(0), None), None, i(4), **cropped)
    names = "mode", "nearest_mode", "coordinate_transformation_mode", "keep_aspect_ratio_policy"
    for name in names:
        yield from over("Resize", flat, None, None, i(4), **{name: "nope"})
    yield from over("Range", one(0), one(5), one(0))
    yield from over("Range", one(0), one(HUGE), one(1))
    yield from over("Range", i(0, 1), one(5), one(1))
    yield from over("Range", real(0), Either(real(NAN), real(INF)), real(1))
    yield from over("Range", real(0), real(5), Either(real(NAN), real(0)))
    for op in ("MaxPool", "AveragePool", "LpPool"):
        yield from over(op, image, kernel_shape=Either([0], [-1], [2, 2], [1 << 40], [9]))
        for name in ("strides", "dilations"):
            yield from over(op, image, kernel_shape=[2], **{name: Either([0], [-1], [1, 1])})
        pads = Either([-1, 0], [2, 0], [1 << 40, 1 << 40], [0])
        yield from over(op, image, kernel_shape=[2], pads=pads)
    yield from over("MaxPool", image, kernel_shape=[2], storage_order=2)
    yield from over("LpPool", image, kernel_shape=[2], p=Either(0, -1))
    yield from over("GlobalLpPool", image, p=Either(0, -1))
    where = (i(0, 9), i(0, HUGE))
    yield from over(
        "MaxUnpool", f(1, 1, 2), Either(*(x[None, None] for x in where)), kernel_shape=[2]
    )
    yield from over("MaxUnpool", f(1, 1, 2), PAIR[None, None], i(1, 1, 1), kernel_shape=[2])
    yield from over("MaxUnpool", f(1, 1, 2), PAIR[None, None], i(1, 1, HUGE), kernel_shape=[2])


def linear() -> Iterator[Case]:
    x, w = f(1, 2, 4), f(2, 2, 2)
    yield from over("Conv", x, f(2, 1, 2), group=Either(0, 3))
    yield from over("Conv", x, w, group=-1)
    for op in ("Conv", "ConvTranspose"):
        for name in ("strides", "dilations"):
            yield from over(op, x, w, **{name: Either([0], [-1], [1, 1])})
        yield from over(op, x, w, pads=Either([-1, 0], [1]))
        yield from over(op, x, w, kernel_shape=[3])
        yield from over(op, x, w, f(3))
        yield from over(op, x, w, auto_pad="x")
        yield from over(op, x, f(2, 2, 0))
    yield from over("Conv", x, f(2, 2, 9))
    yield from over("ConvTranspose", x, w, output_padding=Either([9], [-1]))
    yield from over("ConvTranspose", x, w, output_shape=Either([-1], [99]))
    yield from over("ConvTranspose", x, w, pads=[9, 9])
    yield from over("ConvTranspose", x, w, strides=[1 << 40])
    yield from over("Det", f(2, 3))
    yield from over("MatMul", f(2), f(3))
    yield from over("Gemm", f(2, 3), f(2, 3))
    for equation in (
        "i,i->",
        "ij->",
        "q->z",
        "",
        "i->ii",
        "i,j,k->",
        "i->\u00e9",
        "i-",
        "..i..->i",
    ):
        yield from over("Einsum", f(2), *([f(3)] * ("," in equation)), equation=equation)
    for loss in ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"):
        yield from over(loss, f(3, 4), i(0, 1, 3), reduction=Either("median", ""))
    yield from over("DFT", f(1, 4, 1), Either(one(0), one(-1), one(1 << 40), i(4, 4)))
    yield from over("DFT", f(1, 4, 3))
    yield from over("DFT", f(1, 4, 1), None, one(9))
    yield from over("STFT", f(1, 8, 1), Either(one(0), one(-1)), None, one(4))
    yield from over("STFT", f(1, 8, 1), one(2), None, Either(one(9), one(0), one(-1)))
    yield from over("STFT", f(1, 8, 1), one(2), f(3), one(4))
    yield from over("HannWindow", one(1 << 40))
    for at, value in ((0, one(0)), (0, one(1 << 40)), (1, one(-8)), (2, one(0)), (3, real(50))):
        yield from over("MelWeightMatrix", *MEL[:at], value, *MEL[at + 1 :])


def normalization() -> Iterator[Case]:
    image, flat = f(1, 3, 2, 2), f(3)
    yield from over("LRN", image, size=Either(0, -1))
    yield from over("InstanceNormalization", f(1, 3, 2), f(2), f(3))
    yield from over("GroupNormalization", f(1, 4, 2), f(4), f(4), num_groups=Either(3, 0, -2))
    yield from over("LayerNormalization", f(2, 3), f(3), axis=2)
    yield from over("LayerNormalization", f(2, 3), f(2))
    yield from over("BatchNormalization", f(1, 3), f(3), f(3), f(3), f(2))
    yield from over("LpNormalization", flat, p=Either(0, 3))
    yield from over("LpNormalization", flat, axis=4)
    two = (f(2), bytes_(2))
    yield from over("QuantizeLinear", flat, *two)
    yield from over("QuantizeLinear", f(4), *two, axis=0, block_size=-2)
    yield from over("DequantizeLinear", bytes_(4), *two, axis=5)
    yield from over("DequantizeLinear", bytes_(4), f(2), bytes_(3))
    yield from over("NegativeLogLikelihoodLoss", f(2, 3), Either(i(0, 5), i(0, -5)))
    yield from over("SoftmaxCrossEntropyLoss", f(2, 3), i(0, 9))


def elementwise() -> Iterator[Case]:
    flat, byte = f(3), np.array([1], np.uint8)
    yield from over("BitShift", byte, byte, direction="x")
    yield from over("Where", bits(1), f(2), f(3))
    yield from over("PRelu", flat, f(2))
    yield from over("Clip", flat, Either(floats(1, 2), floats()))
    yield from over("IsInf", flat, detect_negative=5)
    yield from over("Dropout", flat, Either(real(2), real(-1), real(NAN)), one(1, np.bool_))
    yield from over("Cast", flat, to=Either(99, 0, -1))
    yield from over("BitCast", flat, to=99)
    yield from over("Multinomial", f(1, 3), sample_size=Either(-1, 1 << 50))
    yield from over("RandomNormal", shape=Either([-1], [1 << 50]))


def refused() -> Sequence[Case]:
    """Return nodes that end in an error."""
    families = (attention, detection, elementwise, indexing, linear, movement, normalization)
    return [case for make in (*families, recurrent, sizes) for case in make()]


def computed() -> Sequence[Case]:
    """Return odd nodes that have a result."""
    return [
        *over("Attention", f(1, 2, 0, 4), f(1, 2, 3, 4), f(1, 2, 3, 4), is_causal=Either(0, 1)),
        *over("Compress", f(3, 2), Either(bits(1, 0, 0, 0, 0), bits(), bits(1)), axis=0),
        *over("Compress", f(1, 3), Either(bits(1, 0, 0, 0, 0), bits(), bits(1))),
        *over(
            "NonMaxSuppression", BOXES, SCORES, Either(one(2), i(2), i(0), one(-1)), wanted=runtime
        ),
        *over("GatherND", f(2, 3), PAIR[:, None], batch_dims=1),
        *over("HannWindow", Either(one(-3), one(0))),
        *over("Mod", floats(5, -5), floats(3, 3), fmod=0),
        *over("Pad", f(3), i(0, -3), wanted=lambda x, _: x[:0]),
        *over("RotaryEmbedding", f(1, 2, 1, 4), f(9, 2), f(9, 2), i(-1)[None]),
        *over("TensorScatter", f(1, 4, 2), f(1, 2, 2), i(-1)),
        *over("Pad", f(3), i(9, 9), mode=Either("constant", "edge")),
        *over("ReverseSequence", f(3, 2), Either(i(0, 0), i(3, 3)), time_axis=0, batch_axis=1),
        *over("Tile", f(2, 3), i(0, 1)),
        *over("Split", f(3), i(3, 0), outputs=2),
        *over("TopK", f(3), i(0), outputs=2),
        *over("OneHot", i(-9, 9), one(3), f(2)),
        *over("OneHot", PAIR, one(0), f(2)),
        *over("Range", one(0), one(5), one(-1)),
        *over("Trilu", f(3, 3), one(HUGE), wanted=lambda x, k: 0 * x),
        *over("Trilu", f(3, 3), one(HUGE), upper=0, wanted=lambda x, k: x),
        *over("Trilu", f(3, 3), one(LEAST), wanted=lambda x, k: x),
        *over("Trilu", f(3, 3), one(LEAST), upper=0, wanted=lambda x, k: 0 * x),
        *over("CenterCropPad", f(3), i(-1), wanted=runtime),
        *over("Resize", f(3), None, floats(1e-9)),
        *over("Resize", f(3), None, floats(2), i(6)),
        *over("MaxUnpool", f(1, 1, 2), i(0, -1)[None, None], kernel_shape=[2]),
        *over("QuantizeLinear", f(4), f(2), bytes_(2), axis=0, block_size=3, wanted=runtime),
        *over("EyeLike", f(3, 3), k=HUGE, wanted=lambda x: 0 * x),
        *over("Slice", f(3), i(0), i(3), i(0), i(LEAST), wanted=lambda x, *_: x[:0]),
        *over("Slice", f(3), i(-LEAST - 1), i(LEAST), i(0), i(LEAST), wanted=lambda x, *_: x[2:]),
        *over("Shape", f(3), start=HUGE, end=-HUGE, wanted=lambda x: i()),
        *over("LRN", f(1, 3, 2, 2), size=99, wanted=runtime),
        *over("GroupNormalization", f(1, 4, 2), f(4), f(4), num_groups=4),
        *over("QuantizeLinear", f(3), real(0), one(0, np.uint8), wanted=runtime),
    ]
