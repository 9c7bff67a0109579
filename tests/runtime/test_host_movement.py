"""Ops that move elements, and resize, against NumPy, ONNX's reference evaluator and onnxruntime."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tessella.dialects import nn
from tessella.dialects.nn.movement import COORDINATES, NEAREST_MODES, PAD_MODES
from tessella.runtime.host import KERNELS
from tessella.runtime.host.movement import resize_positions
from tessella.support.errors import ExecutionError
from tests.dialects.oracle import Array, assert_close, reference, run, runtime, sample

F32, F64 = np.float32, np.float64


@pytest.mark.parametrize("dtype", [F32, np.int8, np.bool_])
def test_reshape(dtype: Any) -> None:
    x = sample(0, (2, 3, 4), dtype)
    for shape in ((24,), (4, 6), (2, 1, 12), (1, 1, 24, 1)):
        expected = reference("Reshape", x, np.array(shape))
        assert_close(run(nn.ReshapeOp, x, shape=shape), expected)
    assert_close(run(nn.ReshapeOp, x[:, :1, :0], shape=(0, 7)), [np.zeros((0, 7), dtype)])
    assert_close(run(nn.ReshapeOp, x[:1, :1, :1], shape=()), [x[0, 0, 0, ...]])


@pytest.mark.parametrize("perm", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)], ids=str)
def test_transpose(perm: tuple[int, ...]) -> None:
    x = sample(0, (2, 3, 4))
    assert_close(run(nn.TransposeOp, x, perm=perm), reference("Transpose", x, perm=perm))


@pytest.mark.parametrize("seed", range(30))
def test_slice(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = sample(seed, rng.integers(1, 7, 3).tolist())
    starts, sizes, steps, ends = list[int](), list[int](), list[int](), list[int]()
    for extent in map(int, x.shape):
        step = int(rng.choice([-3, -2, -1, 1, 2, 3]))
        start = int(rng.integers(extent))
        room = start if step < 0 else extent - 1 - start
        size = int(rng.integers(0, room // abs(step) + 2))
        end = start + size * step
        starts.append(start)
        sizes.append(size)
        steps.append(step)
        ends.append(end if end >= 0 else -extent - 1)
    found = run(nn.SliceOp, x, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))
    arrays = (np.array(values) for values in (starts, ends, range(3), steps))
    assert_close(found, reference("Slice", x, *arrays))


@pytest.mark.parametrize("mode", PAD_MODES)
@pytest.mark.parametrize("seed", range(12))
def test_pad(seed: int, mode: str) -> None:
    rng = np.random.default_rng(seed)
    x = sample(seed, rng.integers(1, 6, 3).tolist())
    # up to three times the size: reflections are reflected again
    low, high = (tuple(rng.integers(0, [3 * n for n in x.shape]).tolist()) for _ in range(2))
    found = run(nn.PadOp, x, low=low, high=high, mode=mode, value=1.5)
    pads = np.array([*low, *high])
    assert_close(found, reference("Pad", x, pads, np.array(1.5, F32), mode=mode))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.bool_, F64])
def test_pad_of_types(dtype: Any) -> None:
    x = sample(0, (2, 3), dtype)
    found = run(nn.PadOp, x, low=(1, 0), high=(0, 2), mode="constant", value=1.0)
    expected = np.pad(x, [(1, 0), (0, 2)], constant_values=np.array(1, dtype))
    assert_close(found, [expected])


def test_pad_saturates_to_integers() -> None:
    x = np.zeros((1,), np.int8)
    for value, expected in ((1e9, 127), (-math.inf, -128)):
        found = run(nn.PadOp, x, low=(1,), high=(0,), mode="constant", value=value)
        assert found[0].tolist() == [expected, 0]


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("sizes", [(1,), (2, 3), (0, 4, 1)], ids=str)
def test_concat(sizes: tuple[int, ...], axis: int) -> None:
    shapes = [[n if d == axis else 2 + d for d in range(3)] for n in sizes]
    inputs = [sample(i, shape) for i, shape in enumerate(shapes)]
    assert_close(run(nn.ConcatOp, *inputs, axis=axis), reference("Concat", *inputs, axis=axis))


def test_expand() -> None:
    for shape, to in (((3, 1), (2, 3, 4)), ((), (2, 3)), ((1,), (0,)), ((2, 3), (2, 3))):
        x = sample(0, shape)
        assert_close(run(nn.ExpandOp, x, shape=to), reference("Expand", x, np.array(to)))


@pytest.mark.parametrize("repeats", [(1, 1), (2, 3), (0, 2), (4, 1)], ids=str)
def test_tile(repeats: tuple[int, ...]) -> None:
    x = sample(0, (2, 3), np.int32)
    assert_close(run(nn.TileOp, x, repeats=repeats), reference("Tile", x, np.array(repeats)))


def resize_sizes(x: Array, scales: Array) -> tuple[int, ...]:
    """The result's sizes, as ONNX defines them."""
    return tuple(int(n * float(s)) for n, s in zip(x.shape, scales, strict=True))


SCALES = [(1, 1, 2, 2), (1, 1, 0.7, 1.7), (1, 1, 3, 0.5), (1, 1, 1, 2.5), (1, 1, 0.4, 0.3)]

# with these the reference evaluator takes size * scale for the result's size, rounded or not
BY_FRACTION = ("pytorch_half_pixel", "align_corners")


@pytest.mark.sweep
@pytest.mark.parametrize("scales", SCALES, ids=str)
@pytest.mark.parametrize("nearest", NEAREST_MODES)
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_resize_nearest(coordinates: str, nearest: str, scales: tuple[float, ...]) -> None:
    x, ratios = sample(0, (1, 2, 6, 4)), np.array(scales, F32)
    theirs: dict[str, Any] = {
        "mode": "nearest",
        "coordinate_transformation_mode": coordinates,
        "nearest_mode": nearest,
    }
    found = run(
        nn.ResizeOp,
        x,
        sizes=resize_sizes(x, ratios),
        scales=tuple(map(float, ratios)),
        mode="nearest",
        coordinates=coordinates,
        nearest_mode=nearest,
    )
    assert_close(found, runtime("Resize", x, None, ratios, opset=19, **theirs))


def test_resize_positions_are_in_single_precision() -> None:
    # 1.5 / 0.6 - 0.5 is 2 in single precision, and less in double precision
    assert resize_positions(5, 3, float(F32(0.6)), "half_pixel")[1] == 2


@pytest.mark.parametrize("scales", SCALES, ids=str)
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_resize_linear(coordinates: str, scales: tuple[float, ...]) -> None:
    x, ratios = sample(0, (1, 2, 6, 4)), np.array(scales, F32)
    theirs: dict[str, Any] = {"mode": "linear", "coordinate_transformation_mode": coordinates}
    found = run(
        nn.ResizeOp,
        x,
        sizes=resize_sizes(x, ratios),
        scales=tuple(map(float, ratios)),
        mode="linear",
        coordinates=coordinates,
        nearest_mode="floor",
    )
    assert_close(found, runtime("Resize", x, None, ratios, opset=19, **theirs))
    if coordinates not in BY_FRACTION:
        assert_close(found, reference("Resize", x, None, ratios, opset=19, **theirs))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("sizes", [(7,), (3,), (1,), (5,)], ids=str)
def test_resize_to_sizes(sizes: tuple[int, ...], mode: str) -> None:
    x = sample(0, (1, 1, 5, 3))
    full = (*x.shape[:2], *sizes, 6)
    ratios = tuple(new / old for new, old in zip(full, x.shape, strict=True))
    found = run(
        nn.ResizeOp,
        x,
        sizes=full,
        scales=ratios,
        mode=mode,
        coordinates="half_pixel",
        nearest_mode="round_prefer_floor",
    )
    assert_close(found, reference("Resize", x, None, None, np.array(full), opset=19, mode=mode))


def test_resize_of_integers_takes_the_nearest() -> None:
    x = sample(0, (2, 3), np.uint8)
    found = run(
        nn.ResizeOp,
        x,
        sizes=(4, 6),
        scales=(2.0, 2.0),
        mode="nearest",
        coordinates="asymmetric",
        nearest_mode="floor",
    )
    assert_close(found, [np.repeat(np.repeat(x, 2, 0), 2, 1)])


def test_resize_needs_no_more_memory_than_operand_and_result() -> None:
    x = np.zeros((1, 1 << 20), np.uint8)
    found = run(
        nn.ResizeOp,
        x,
        sizes=(1 << 20, 1),
        scales=(2.0**20, 2.0**-20),
        mode="nearest",
        coordinates="asymmetric",
        nearest_mode="floor",
    )
    assert found[0].nbytes == 1 << 20


@pytest.mark.parametrize("dtype", [F32, np.int64, np.bool_])
@pytest.mark.parametrize(
    "shape, groups", [((2, 6), 2), ((1, 6, 5), 3), ((2, 4, 3, 2), 1), ((1, 0), 2)]
)
def test_channel_shuffle(shape: tuple[int, ...], groups: int, dtype: Any) -> None:
    x = sample(0, shape, dtype)
    [y] = run(nn.ChannelShuffleOp, x, groups=groups)
    each = shape[1] // groups
    for i in range(groups):
        for j in range(each):
            np.testing.assert_array_equal(y[:, j * groups + i], x[:, i * each + j])


@pytest.mark.parametrize("count", [0, 1, 7, 29, 30])
def test_a_part_does_not_keep_much(count: int) -> None:
    x = np.arange(60).reshape(30, 2)
    found = KERNELS["nn.trim"](x, np.array(count), sizes=(count,))
    np.testing.assert_array_equal(found, x[:count])
    assert np.shares_memory(found, x) == (4 * count > 30)


@pytest.mark.parametrize("count", [-1, 31])
def test_a_count_is_one_of_slices(count: int) -> None:
    with pytest.raises(ExecutionError, match="a count is out of range"):
        KERNELS["nn.trim"](np.zeros(30), np.array(count), sizes=(count,))
