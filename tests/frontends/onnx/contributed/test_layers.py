"""Activations, products, convolutions and normalizations of ONNX Runtime's domain."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tessella
from tessella.support.errors import ShapeError, UnsupportedError
from tests.frontends.onnx.contributed.cases import Array, Case, check, close, made, results
from tests.models import run_onnxruntime
from tests.native import normal

X, BIAS = normal(2, 3, 8), normal(8, seed=1)
MATRIX, WEIGHT = normal(3, 4), normal(5, 4, seed=1)
IMAGE, FILTER = normal(1, 4, 5, 6), normal(6, 4, 3, 3, seed=1)
GRID = normal(1, 3, 3, 2, seed=2)
IDS = np.array([[4, 0, 9], [2, 2, 7]], np.int32)
SEGMENTS = np.array([[0, 1, 1], [0, 0, 1]], np.int32)
MASK = np.array([[1, 1, 0], [1, 0, 1]], np.int32)
BYTES = np.arange(120, dtype=np.uint8).reshape(1, 5, 6, 4) * 7
TABLES = [normal(n, 8, seed=n) for n in (10, 5, 2)]

SMALL = [
    Case("Gelu", [X]),
    Case("FastGelu", [X]),
    Case("FastGelu", [X, BIAS]),
    Case("QuickGelu", [X]),
    Case("QuickGelu", [X], {"alpha": 1.0}),
    Case("BiasGelu", [X, BIAS]),
    Case("GridSample", [IMAGE, GRID]),
    Case(
        "GridSample",
        [IMAGE, GRID],
        {"mode": "bicubic", "align_corners": 1, "padding_mode": "border"},
    ),
    Case("Trilu", [MATRIX]),
    Case("Trilu", [MATRIX, np.array(1)], {"upper": 0}),
    Case("GatherND", [MATRIX, np.array([[1], [0]])]),
    Case("NhwcMaxPool", [BYTES], {"kernel_shape": [2, 3], "strides": [2, 1]}),
]

PRODUCTS = [
    Case("FusedMatMul", [MATRIX, WEIGHT], {"alpha": 0.5, "transB": 1}),
    Case("FusedMatMul", [normal(2, 4, 3), normal(4, 5)], {"transA": 1}),
    Case("FusedMatMul", [normal(4), normal(2, 4, 5)], {"transA": 1}),
    Case("FusedMatMul", [MATRIX, normal(4)], {"transB": 1}),
    Case("FusedMatMul", [normal(3, 2, 4), normal(4, 2, 5)], {"transBatchA": 1, "transBatchB": 1}),
    Case(
        "FusedMatMul",
        [normal(4, 2, 3), normal(4, 2, 5)],
        {"transA": 1, "transBatchA": 1, "transBatchB": 1},
    ),
    Case("TransposeMatMul", [MATRIX, WEIGHT], {"alpha": 2.0, "transB": 1}),
]

ACTIVATIONS = {
    "Elu": {"alpha": 0.3},
    "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
    "LeakyRelu": {"alpha": 0.2},
    "Relu": {},
    "ScaledTanh": {"alpha": 1.3, "beta": 0.6},
    "Selu": {"alpha": 1.2, "gamma": 1.3},
    "Sigmoid": {},
    "Softplus": {},
    "Softsign": {},
    "Tanh": {},
    "ThresholdedRelu": {"alpha": 0.3},
}
FUSED_GEMM = [
    Case(
        "FusedGemm",
        [MATRIX, WEIGHT, normal(5, seed=2)],
        {
            "activation": name,
            "transB": 1,
            "alpha": 0.5,
            "beta": 2.0,
            **{f"activation_{key}": value for key, value in parameters.items()},
        },
    )
    for name, parameters in ACTIVATIONS.items()
]

OF_CONVOLUTIONS = {
    "Clip": [-0.5, 0.7],
    "HardSigmoid": [0.3, 0.4],
    "HardSwish": None,
    "LeakyRelu": [0.2],
    "Relu": None,
    "Sigmoid": None,
    "Tanh": None,
}
FUSED_CONV = [
    Case("FusedConv", [IMAGE, FILTER]),
    Case(
        "FusedConv",
        [IMAGE, FILTER, normal(6), normal(1, 6, 3, 4, seed=3)],
        {"activation": "Relu"},
    ),
    *(
        Case(
            "FusedConv",
            [IMAGE, FILTER[:, :2], normal(6)],
            {
                "activation": name,
                "strides": [2, 1],
                "pads": [1, 0, 1, 1],
                "group": 2,
                **({"activation_params": given} if given else {}),
            },
        )
        for name, given in OF_CONVOLUTIONS.items()
    ),
]

NORMS = [
    Case("SimplifiedLayerNormalization", [X, BIAS], domain="", outputs=["", ""]),
    Case("SimplifiedLayerNormalization", [X, BIAS], {"epsilon": 1e-2}, domain=""),
    Case("SkipLayerNormalization", [X, X[0], BIAS], outputs=["", "unused", "unused", ""]),
    Case("SkipLayerNormalization", [X, X[1:], BIAS, BIAS, BIAS[::-1].copy()]),
    Case("SkipLayerNormalization", [X, X[::-1].copy(), BIAS, BIAS], {"epsilon": 1e-2}),
    Case("SkipLayerNormalization", [X, X[::-1].copy(), BIAS], outputs=["", "", "", ""]),
    Case(
        "SkipSimplifiedLayerNormalization",
        [X, X[::-1].copy(), BIAS, BIAS[::-1].copy()],
        {"epsilon": 1e-2},
        outputs=["", "unused", "", ""],
    ),
    Case("SkipSimplifiedLayerNormalization", [X[0], X[1], BIAS]),
    Case(
        "EmbedLayerNormalization",
        [IDS, SEGMENTS, *TABLES, BIAS, BIAS, MASK],
        outputs=["float32", "int32"],
    ),
    Case(
        "EmbedLayerNormalization",
        [IDS, None, *TABLES[:2], None, BIAS, BIAS],
        outputs=["float32", "int32", "float32"],
    ),
    Case(
        "EmbedLayerNormalization",
        [IDS, SEGMENTS, *TABLES, BIAS, BIAS, None, np.array([[2, 0, 4]], np.int32)],
        {"epsilon": 1e-2, "mask_index_type": 0},
        outputs=["float32", "unused", "float32"],
    ),
]

CASES = [*SMALL, *PRODUCTS, *FUSED_GEMM, *FUSED_CONV, *NORMS]


@pytest.mark.sweep
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_as_onnxruntime(case: Case) -> None:
    check(case)


# ** ops that ONNX Runtime has on other devices alone **


def gelu(x: Array) -> Array:
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def of_onnx(op: str, operands: list[Array], **attributes: object) -> Array:
    """Return the result of an ONNX op in ONNX Runtime."""
    return run_onnxruntime(*made(Case(op, operands, attributes, domain="")))[0]


def channels_last(op: str, x: Array, *operands: Array, **attributes: object) -> Array:
    return np.moveaxis(of_onnx(op, [np.moveaxis(x, -1, 1), *operands], **attributes), 1, -1)


LAST = np.moveaxis(IMAGE, 1, -1).copy()
CONVOLVED = channels_last("Conv", LAST, FILTER, pads=[1, 0, 1, 0])
GROUPS = [LAST, normal(4, seed=4), normal(4, seed=5)]


def normalized(x: Array) -> Array:
    return channels_last("GroupNormalization", x, *GROUPS[1:], num_groups=2, epsilon=1e-5)


SILU = normalized(LAST) / (1 + np.exp(-normalized(LAST)))
TANH_GELU = run_onnxruntime(*made(Case("FastGelu", [MATRIX @ WEIGHT.T + normal(5)])))[0]
SUM = LAST + normal(1, 5, 6, 4, seed=6) + normal(4, seed=7)


def swish(slope: float) -> Array:
    y = of_onnx("Conv", [IMAGE, FILTER])
    return y / (1 + np.exp(-slope * y))


ELSEWHERE: list[tuple[Case, list[Array]]] = [
    (Case("BiasAdd", [X, BIAS, X[::-1].copy()]), [X + BIAS + X[::-1]]),
    (
        Case("BiasSplitGelu", [X, BIAS]),
        [(X + BIAS)[..., :4] * gelu((X + BIAS)[..., 4:])],
    ),
    (
        Case("BiasSoftmax", [X, X[:1]], {"axis": -1, "is_inner_broadcast": 0}),
        [softmax(X + X[:1])],
    ),
    (
        Case("BiasSoftmax", [X, X[:1]], {"axis": 1, "is_inner_broadcast": 0}),
        [softmax((X + X[:1]).reshape(2, 24)).reshape(X.shape)],
    ),
    (
        Case("FusedMatMulActivation", [MATRIX, WEIGHT], {"transB": 1, "activation": "Relu"}),
        [np.maximum(MATRIX @ WEIGHT.T, 0)],
    ),
    (Case("GemmFastGelu", [MATRIX, WEIGHT.T.copy(), normal(5)]), [TANH_GELU]),
    (Case("NhwcConv", [LAST, FILTER], {"pads": [1, 0, 1, 0]}), [CONVOLVED]),
    (
        Case(
            "NhwcFusedConv",
            [LAST, FILTER, None, CONVOLVED],
            {"pads": [1, 0, 1, 0], "activation": "Relu"},
        ),
        [np.maximum(2 * CONVOLVED, 0)],
    ),
    *(
        (Case("FusedConv", [IMAGE, FILTER], {"activation": name, **parameters}), [swish(slope)])
        for name, slope, parameters in (
            ("Silu", 1.0, {}),
            ("Swish", 1.0, {}),
            ("Swish", 0.3, {"activation_params": [0.3]}),
        )
    ),
    (Case("GroupNorm", GROUPS, {"groups": 2, "activation": 0}), [normalized(LAST)]),
    (Case("GroupNorm", GROUPS, {"groups": 2, "activation": 1}), [SILU]),
    (
        Case("GroupNorm", [IMAGE, *GROUPS[1:]], {"groups": 2, "activation": 0, "channels_last": 0}),
        [np.moveaxis(normalized(LAST), -1, 1)],
    ),
    (
        Case(
            "SkipGroupNorm",
            [*GROUPS, normal(1, 5, 6, 4, seed=6), normal(4, seed=7)],
            {"groups": 2, "activation": 0},
            outputs=["", ""],
        ),
        [normalized(SUM), SUM],
    ),
    (
        Case("SkipGroupNorm", [*GROUPS, normal(1, 4, seed=6)], {"groups": 2, "activation": 0}),
        [normalized(LAST + normal(1, 4, seed=6))],
    ),
]


@pytest.mark.parametrize("case, expected", ELSEWHERE, ids=lambda x: getattr(x, "title", ""))
def test_as_an_expression(case: Case, expected: list[Array]) -> None:
    proto, feeds = made(case)
    for found, wanted in zip(tessella.compile(proto).run(None, feeds), expected, strict=True):
        close(found, wanted.astype(np.float32), 1e-4)


def test_layer_normalization_before_its_op_set() -> None:
    """ONNX Runtime's optimizer puts the op into models of any op set."""
    case = Case("LayerNormalization", [X, BIAS, BIAS], {"epsilon": 1e-2}, domain="", opset=14)
    (found,), (expected,) = results(case)
    close(found, expected)


def test_an_unknown_activation_is_refused() -> None:
    case = Case("FusedConv", [IMAGE, FILTER], {"activation": "Cube"})
    with pytest.raises(UnsupportedError, match=r"FusedConv.*activation 'Cube'"):
        tessella.compile(made(case)[0])


@pytest.mark.parametrize(
    "name, given, found",
    [("Clip", [1.0], "short"), ("Silu", [1.0, 2.0], "long"), ("Relu", [1.0], "long")],
)
def test_parameters_of_the_wrong_number(name: str, given: list[float], found: str) -> None:
    attributes = {"activation": name, "activation_params": given}
    with pytest.raises(ShapeError, match=f"'activation_params' is too {found}"):
        tessella.compile(made(Case("FusedConv", [IMAGE, FILTER], attributes))[0])
