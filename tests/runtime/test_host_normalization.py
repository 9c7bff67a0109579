"""Normalizations against ONNX's reference evaluator and onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tessella.dialects import nn
from tests.dialects.oracle import assert_close, reference, run, runtime, sample

F32, F64 = np.float32, np.float64
EPSILON = 2.0**-10  # the same in single and double precision
SHAPES: list[tuple[int, ...]] = [(2, 3, 5), (1, 4, 7, 3), (2, 1, 1, 1), (3, 2, 4, 1, 2)]


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_layer_norm(axis: int, has_bias: bool, dtype: Any) -> None:
    x = 3 * sample(axis, (2, 3, 7), dtype) + 1
    operands = [x, sample(1, x.shape[axis:], dtype), sample(2, x.shape[axis:], dtype)]
    operands = operands[: 2 + has_bias]
    found = run(nn.LayerNormOp, *operands, axis=axis, epsilon=EPSILON)
    assert_close(found, runtime("LayerNormalization", *operands, axis=axis, epsilon=EPSILON))


def test_layer_norm_with_a_scale_that_broadcasts() -> None:
    x, scale = sample(0, (2, 3, 4)), sample(1, (4,))
    found = run(nn.LayerNormOp, x, scale, axis=1, epsilon=EPSILON)
    full = np.ascontiguousarray(np.broadcast_to(scale, (3, 4)))
    assert_close(found, runtime("LayerNormalization", x, full, axis=1, epsilon=EPSILON))


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_rms_norm(axis: int, dtype: Any) -> None:
    x = 3 * sample(axis, (2, 3, 7), dtype)
    scale = sample(1, x.shape[axis:], dtype)
    found = run(nn.RmsNormOp, x, scale, axis=axis, epsilon=EPSILON)
    expected = reference("RMSNormalization", x, scale, opset=23, axis=axis, epsilon=EPSILON)
    # the reference evaluator computes in single precision
    assert_close([y.astype(F32) for y in found], [y.astype(F32) for y in expected])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_groups_of_one_channel(shape: tuple[int, ...]) -> None:
    x = 3 * sample(0, shape) + 1
    scale, bias = sample(1, shape[1:2]), sample(2, shape[1:2])
    found = run(nn.GroupNormOp, x, scale, bias, groups=shape[1], epsilon=EPSILON)
    assert_close(found, reference("InstanceNormalization", x, scale, bias, epsilon=EPSILON))


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_group_norm(groups: int) -> None:
    x, scale, bias = 3 * sample(0, (2, 6, 5, 3)) + 1, sample(1, (6,)), sample(2, (6,))
    found = run(nn.GroupNormOp, x, scale, bias, groups=groups, epsilon=EPSILON)
    wanted = reference(
        "GroupNormalization", x, scale, bias, opset=21, num_groups=groups, epsilon=EPSILON
    )
    assert_close(found, wanted)


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("shape", [(2, 3), *SHAPES], ids=str)
def test_batch_norm(shape: tuple[int, ...], dtype: Any) -> None:
    x = sample(0, shape, dtype)
    scale, bias, mean, variance = (sample(1 + i, shape[1:2], dtype) for i in range(4))
    operands = (x, scale, bias, mean, variance**2)
    found = run(nn.BatchNormOp, *operands, epsilon=EPSILON)
    assert_close(found, runtime("BatchNormalization", *operands, epsilon=EPSILON))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 21, 10**15])
@pytest.mark.parametrize("shape", [(2, 6, 3), (1, 1, 2, 2), (2, 7, 3, 2)], ids=str)
def test_lrn(shape: tuple[int, ...], size: int) -> None:
    x = 3 * sample(0, shape)
    ours: dict[str, Any] = {"size": size, "alpha": 0.5, "beta": 0.75, "bias": 2.0}
    found = run(nn.LrnOp, x, **ours)
    square = np.zeros_like(x)
    for c in range(shape[1]):
        low, high = max(0, c - (size - 1) // 2), min(shape[1], c + size // 2 + 1)
        square[:, c] = (x[:, low:high] ** 2).sum(axis=1)
    assert_close(found, [(x / (2.0 + 0.5 / size * square) ** 0.75).astype(F32)])
    if size % 2 and len(shape) == 4:
        assert_close(found, runtime("LRN", x, **ours))
