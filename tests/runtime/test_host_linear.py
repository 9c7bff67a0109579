"""Matrix products and convolutions against onnxruntime and ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tessella.dialects import nn
from tests.dialects.oracle import Array, assert_close, reference, run, runtime, sample

MATMULS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3, 4), (4, 5)),
    ((1, 1), (1, 1)),
    ((2, 3, 4), (4, 5)),
    ((3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (5, 4, 2)),
    ((0, 4), (4, 5)),
    ((3, 0), (0, 5)),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("shapes", MATMULS, ids=str)
def test_matmul(shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: Any) -> None:
    a, b = (sample(i, shape, dtype) for i, shape in enumerate(shapes))
    expected = reference("MatMul", a, b)
    assert_close(run(nn.MatmulOp, a, b, transpose_b=False), expected)
    swapped = np.ascontiguousarray(np.swapaxes(b, -1, -2))
    assert_close(run(nn.MatmulOp, a, swapped, transpose_b=True), expected)


@pytest.mark.parametrize("transposed", [False, True])
def test_fc(transposed: bool) -> None:
    x, w, b = sample(0, (3, 4)), sample(1, (5, 4) if transposed else (4, 5)), sample(2, (5,))
    expected = reference("Gemm", x, w, b, transB=int(transposed))
    assert_close(run(nn.FcOp, x, w, b, transpose_w=transposed), expected)


def test_fc_of_more_dimensions() -> None:
    x, w, b = sample(0, (2, 3, 4)), sample(1, (4, 5)), sample(2, (5,))
    expected = [reference("MatMul", x, w)[0] + b]
    assert_close(run(nn.FcOp, x, w, b, transpose_w=False), expected)


def window(rng: np.random.Generator, rank: int) -> dict[str, tuple[int, ...]]:
    """Random strides, pads and dilations."""
    return {
        "strides": tuple(rng.integers(1, 4, rank).tolist()),
        "pads": tuple(rng.integers(0, 3, 2 * rank).tolist()),
        "dilations": tuple(rng.integers(1, 3, rank).tolist()),
    }


def convolution(seed: int) -> tuple[list[Array], dict[str, Any]]:
    """Operands and settings of a random convolution."""
    rng = np.random.default_rng(seed)
    rank, groups = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2, 3]))
    sizes = rng.integers(5, 9, rank)
    kernel = rng.integers(1, 4, rank)
    per_in, per_out = rng.integers(1, 4, 2)
    x = sample(seed, (int(rng.integers(1, 3)), per_in * groups, *sizes))
    w = sample(seed + 1, (per_out * groups, per_in, *kernel))
    operands = [x, w, sample(seed + 2, (per_out * groups,))]
    return operands[: int(rng.integers(2, 4))], {**window(rng, rank), "groups": groups}


@pytest.mark.parametrize("seed", range(40))
def test_conv(seed: int) -> None:
    operands, settings = convolution(seed)
    theirs: dict[str, Any] = {"group" if k == "groups" else k: v for k, v in settings.items()}
    assert_close(run(nn.ConvOp, *operands, **settings), runtime("Conv", *operands, **theirs))


@pytest.mark.parametrize("seed", range(40))
def test_conv_transpose(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank, groups = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2]))
    per_in, per_out = rng.integers(1, 4, 2)
    settings = window(rng, rank)
    output_pads = tuple(int(rng.integers(0, s)) for s in settings["strides"])
    x = sample(seed, (2, per_in * groups, *rng.integers(2, 6, rank)))
    w = sample(seed + 1, (per_in * groups, per_out, *rng.integers(3, 5, rank)))
    operands = [x, w, sample(seed + 2, (per_out * groups,))][: int(rng.integers(2, 4))]
    found = run(nn.ConvTransposeOp, *operands, **settings, output_pads=output_pads, groups=groups)
    theirs: dict[str, Any] = {**settings, "output_padding": output_pads, "group": groups}
    assert_close(found, runtime("ConvTranspose", *operands, **theirs))
