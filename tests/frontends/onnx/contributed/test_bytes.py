"""Quantized ops of ONNX Runtime's domain: within one step of ONNX Runtime, or up to rounding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import tessella
from tessella.dialects.graph import main_function
from tessella.dialects.nn.core import shape_of
from tessella.frontends.onnx import OnnxSource
from tessella.support.sizes import Symbol
from tests.frontends.onnx.contributed.cases import Array, Case, made, results

BYTES = ("uint8", "int8")


def draw(seed: int, dtype: str, *shape: int) -> Array:
    info = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


def weight(seed: int, dtype: str, *shape: int) -> Array:
    """Return a weight of seven bits: ONNX Runtime's sums of pairs saturate on CPUs with AVX2
    alone."""
    return draw(seed, dtype, *shape) >> 1


def scale(*shape: int, seed: int = 0) -> Array:
    return np.asarray(np.random.default_rng(seed).uniform(0.01, 0.02, shape), np.float32)


def zero(dtype: str, number: int = 7, *shape: int) -> Array:
    return np.full(shape, number, dtype)


def cases(b: str) -> list[Case]:
    """Return a case for each op and attribute, for this 8-bit type."""
    image, matrix = (2, 4, 7, 6), (3, 9)
    one = [draw(0, b, *image), scale(), zero(b, 9), scale(seed=1) * 2, zero(b, 3)]
    two = [
        *[draw(0, b, *image), scale(), zero(b), draw(1, b, 4, 1, 6), scale(seed=1), zero(b, 11)],
        *[scale(seed=2) * 2, zero(b, 60)],
    ]
    softmax = [*one[:3], np.array(1 / 256, np.float32), np.full((), np.iinfo(b).min, b)]
    pool = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    weights = [weight(1, "int8", 9, 5), scale(5, seed=1)]
    gemm = [draw(0, b, *matrix), scale(), zero(b), weights[0], weights[1], zero("int8", 0, 5)]
    turned = [gemm[0].T.copy(), *gemm[1:3], weights[0].T.copy(), *gemm[4:]]
    quantized = [scale(seed=3) * 9, zero(b, 50)]
    bias = draw(4, "int16", 5).astype(np.int32)
    float_a = np.random.default_rng(0).standard_normal(matrix).astype(np.float32)
    float_bias = np.random.default_rng(1).standard_normal(5).astype(np.float32)
    products: list[tuple[Sequence[Array | None], tuple[int, ...]]] = [
        ([gemm[0], weights[0], scale(), weights[1], zero(b), None, float_bias], (0,)),
        ([gemm[0], draw(1, b, 9, 5), scale(), scale(), zero(b), zero(b, 99)], (0,)),
        ([gemm[0], weights[0], scale(), scale(), zero(b)], (0, 1)),
    ]
    dynamic = [float_a, weights[0], weights[1], None, float_bias]
    other = [draw(1, b, 2, 3, 7, 6), *two[4:6]]
    conv = [
        *[
            draw(0, b, 2, 7, 6, 4),
            scale(),
            zero(b),
            weight(1, "int8", 5, 4, 3, 3),
            scale(5, seed=1),
        ],
        *[zero("int8", 0, 5), scale(seed=2) * 20, zero(b, 3), bias],
    ]
    return [
        Case("QLinearAdd", two, inputs=(0, 3)),
        Case("QLinearMul", two, inputs=(0, 3)),
        Case("QLinearSigmoid", softmax),
        Case("QLinearLeakyRelu", one, {"alpha": 0.2}),
        Case("QLinearLeakyRelu", one),
        Case("QLinearSoftmax", softmax, {"opset": 13}),
        Case("QLinearSoftmax", softmax, {"opset": 13, "axis": 1}),
        Case("QLinearSoftmax", softmax, {"opset": 11, "axis": 1}),
        Case("QLinearConcat", [*two[6:], *two[:3], *other], {"axis": 1}, (2, 5)),
        Case("QLinearAveragePool", one, pool),
        Case("QLinearAveragePool", one, {**pool, "count_include_pad": 1, "ceil_mode": 1}),
        Case("QLinearAveragePool", one, {**pool, "channels_last": 1}),
        Case("QLinearGlobalAveragePool", one),
        Case("QLinearGlobalAveragePool", one, {"channels_last": 1}),
        Case("QGemm", [*gemm, bias, *quantized]),
        Case("QGemm", [*gemm, bias], outputs=["float32"]),
        Case("QGemm", [*gemm, None, *quantized], {"alpha": 0.5}),
        Case("QGemm", [*turned, bias, *quantized], {"transA": 1, "transB": 1}),
        *(Case("MatMulIntegerToFloat", x, {}, inputs, ["float32"]) for x, inputs in products),
        Case("DynamicQuantizeMatMul", dynamic, outputs=["float32"]),
        Case("QLinearConv", conv, {"channels_last": 1, "pads": [1, 0, 1, 2], "strides": [2, 1]}),
        Case("QuantizeLinear", [one[0].astype(np.float32), *one[3:]], outputs=[b]),
        Case("DequantizeLinear", one[:3], outputs=["float32"]),
    ]


CASES = [case for b in BYTES for case in cases(b)]


@pytest.mark.sweep
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.op}-{c.operands[0].dtype.name}")
def test_as_onnxruntime(case: Case) -> None:
    (found,), (expected,) = results(case)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    apart = np.abs(found.astype(np.float64) - expected)
    if found.dtype.kind == "f":
        assert apart.max() <= 1e-5 * np.abs(expected).max()
    else:
        assert apart.max() <= 1
        assert apart.mean() < 0.02


def test_rows_of_a_softmax_stay_open() -> None:
    proto, feeds = made(next(c for c in CASES if c.attributes == {"opset": 11, "axis": 1}))
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    n = Symbol("n", 2, 15).size
    graph = OnnxSource(proto).graph({"x0": (n, *feeds["x0"].shape[1:])})
    assert shape_of(main_function(graph.module).body.block.args[0])[0] == n
    graph.module.verify()


@pytest.mark.parametrize("b", BYTES)
def test_a_mean_over_axes(b: str) -> None:
    x = draw(0, b, 2, 4, 7, 6)
    operands = [x, scale(), zero(b, 9), scale(seed=1), zero(b, 3)]
    proto, feeds = made(Case("QLinearReduceMean", operands, {"axes": [1, -1], "keepdims": 0}))
    (found,) = tessella.compile(proto).run(None, feeds)
    wide = ((x.astype(np.float64) - 9) * operands[1]).mean((1, 3)) / operands[3]
    info = np.iinfo(b)
    wanted = np.clip(np.rint(wide) + 3, info.min, info.max)
    assert np.abs(found - wanted).max() <= 1
