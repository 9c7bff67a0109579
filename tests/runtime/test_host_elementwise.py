"""Elementwise ops against ONNX's reference evaluator and onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tessella.dialects import nn
from tessella.runtime.host.elementwise import ROWS
from tests.dialects.oracle import Array, assert_close, reference, run, runtime, sample

F32, F64 = np.float32, np.float64
SHAPES: list[tuple[int, ...]] = [(), (1,), (0, 3), (7,), (3, 5), (2, 1, 3, 5)]

KINDS = {row.onnx.name: (row.kind, nn.OPS[name]) for name, row in ROWS.items() if row.onnx}
"""Of each operator of ONNX that is an op: its kind, and the op."""

UNARY = {
    **{
        name: op
        for name, (kind, op) in KINDS.items()
        if kind in ("unary", "float", "part", "predicate") and not op.DEFAULTS
    },
    "Erf": nn.ErfOp,
    "Gelu": nn.GeluOp,
    "IsInf": nn.IsInfOp,
}

PARAMETRIC: list[tuple[str, type[nn.NnOp], dict[str, Any], dict[str, float]]] = [
    ("LeakyRelu", nn.LeakyReluOp, {"alpha": 0.1}, {"alpha": 0.1}),
    ("Elu", nn.OPS["elu"], {"alpha": 1.5}, {"alpha": 1.5}),
    ("Celu", nn.OPS["celu"], {"alpha": 2.0}, {"alpha": 2.0}),
    ("ThresholdedRelu", nn.OPS["thresholded_relu"], {"alpha": 0.5}, {"alpha": 0.5}),
    ("HardSigmoid", nn.HardSigmoidOp, {"alpha": 0.3, "beta": 0.4}, {"alpha": 0.3, "beta": 0.4}),
    ("Selu", nn.OPS["selu"], {"alpha": 1.6, "gamma": 1.05}, {"alpha": 1.6, "beta": 1.05}),
    ("Gelu", nn.GeluTanhOp, {"approximate": "tanh"}, {}),
]

BINARY = {
    **{name: op for name, (kind, op) in KINDS.items() if kind in ("binary", "comparison")},
    "Min": nn.MinOp,
    "Max": nn.MaxOp,
}

BITWISE = {name: op for name, (kind, op) in KINDS.items() if kind == "bitwise"}
LOGICAL = {name: op for name, (kind, op) in KINDS.items() if kind == "logic"}

BROADCASTS: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3, 5), (3, 5)),
    ((3, 5), ()),
    ((), (2, 3)),
    ((3, 1), (1, 5)),
    ((2, 3, 4), (3, 1)),
    ((1,), (0, 2)),
]


def quiet(*args: Any, **keywords: Any) -> list[Array]:
    with np.errstate(all="ignore"):
        return reference(*args, **keywords)


@pytest.mark.sweep
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, shape: tuple[int, ...]) -> None:
    x = sample(len(shape), shape)
    assert_close(run(UNARY[name], x), runtime(name, x))


@pytest.mark.parametrize("name", UNARY)
def test_unary_on_special_values(name: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 89.0, -104.0, 1e-40], F32)
    assert_close(run(UNARY[name], x), runtime(name, x))


@pytest.mark.parametrize("name", ["Abs", "Neg", "Sign", "Relu"])
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_unary_on_integers(name: str, dtype: Any) -> None:
    x = sample(1, (3, 5), dtype)
    assert_close(run(UNARY[name], x), quiet(name, x))


# the reference evaluator computes these in single precision
SINGLE = ("Erf", "Gelu", "HardSwish")


@pytest.mark.parametrize("name", [name for name in UNARY if name not in SINGLE])
def test_unary_in_double(name: str) -> None:
    x = sample(2, (3, 5), F64)
    assert_close(run(UNARY[name], x), quiet(name, x))


def test_silu() -> None:
    x = sample(3, (4, 5))
    assert_close(run(nn.SiluOp, x), [x * reference("Sigmoid", x)[0]])


@pytest.mark.parametrize("name, op, theirs, ours", PARAMETRIC)
def test_parametric(name: str, op: type[nn.NnOp], theirs: Any, ours: Any) -> None:
    x = 3 * sample(4, (3, 7))
    assert_close(run(op, x, **ours), quiet(name, x, **theirs))


@pytest.mark.parametrize("shapes", BROADCASTS, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (sample(i, shape) for i, shape in enumerate(shapes))
    assert_close(run(BINARY[name], a, b), quiet(name, a, b))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.uint64, F64])
@pytest.mark.parametrize("name", BINARY)
def test_binary_of_types(name: str, dtype: Any) -> None:
    a, b = sample(5, (4, 6), dtype), sample(6, (6,), dtype)
    b = np.where(b == 0, np.ones_like(b), b)
    assert_close(run(BINARY[name], a, b), quiet(name, a, b))


@pytest.mark.parametrize("name", LOGICAL)
def test_logical(name: str) -> None:
    a, b = sample(7, (3, 4), bool), sample(8, (4,), bool)
    assert_close(run(LOGICAL[name], a, b), reference(name, a, b))
    assert_close(run(nn.NotOp, a), reference("Not", a))


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.uint64])
def test_bits(dtype: Any) -> None:
    limits = np.iinfo(dtype)
    a = np.random.default_rng(0).integers(limits.min, limits.max, (3, 40), dtype, endpoint=True)
    for name, op in BITWISE.items():
        assert_close(run(op, a, a[::-1, :]), reference(name, a, a[::-1, :]))
    assert_close(run(nn.OPS["bit_not"], a), reference("BitwiseNot", a))


@pytest.mark.parametrize("direction, op", [("LEFT", nn.BitLeftOp), ("RIGHT", nn.BitRightOp)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_shifts(dtype: Any, direction: str, op: type[nn.NnOp]) -> None:
    a = np.random.default_rng(0).integers(0, np.iinfo(dtype).max, (70, 3), dtype, endpoint=True)
    by = np.arange(70, dtype=dtype)[:, None]  # by all bits and more, too
    assert_close(run(op, a, by), reference("BitShift", a, by, direction=direction))


def test_integer_division_rounds_towards_zero_over_the_whole_range() -> None:
    every = np.arange(-128, 128, dtype=np.int8)
    lhs, rhs = every[:, None], every[None, :]
    wide = np.trunc(lhs.astype(F64) / np.where(rhs == 0, 1, rhs)).astype(np.int64).astype(np.int8)
    found = run(nn.DivOp, lhs, rhs)[0]
    np.testing.assert_array_equal(found, np.where(rhs == 0, 0, wide))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, F32])
def test_mod(dtype: Any) -> None:
    a, b = sample(9, (5, 6), dtype), sample(10, (6,), dtype)
    b = np.where(b == 0, np.ones_like(b), b)
    assert_close(run(nn.FmodOp, a, b), reference("Mod", a, b, fmod=1))
    if np.dtype(dtype).kind == "i":
        assert_close(run(nn.ModOp, a, b), reference("Mod", a, b))


def test_pow() -> None:
    a, b = np.abs(sample(11, (4, 5))), sample(12, (5,))
    assert_close(run(nn.PowOp, a, b), reference("Pow", a, b))
    integers, exponents = sample(13, (4, 5), np.int64), np.abs(sample(14, (5,), np.int64))
    assert_close(run(nn.PowOp, integers, exponents), reference("Pow", integers, exponents))


def test_pow_of_integers_by_negative_exponents() -> None:
    lhs = np.array([2, 1, -1, -1, 0, 3], np.int32)
    rhs = np.array([-1, -5, -2, -3, -1, 2], np.int32)
    assert run(nn.PowOp, lhs, rhs)[0].tolist() == [0, 1, 1, -1, 0, 9]


@pytest.mark.parametrize("dtype", [F32, F64, np.int8, np.int32])
def test_clip(dtype: Any) -> None:
    x = sample(15, (3, 5), dtype)
    low, high = np.array(-1, dtype), np.array(2, dtype)
    assert_close(run(nn.ClipOp, x, low=-1.0, high=2.0), reference("Clip", x, low, high))
    infinite = {"low": float("-inf"), "high": float("inf")}
    assert_close(run(nn.ClipOp, x, **infinite), [x])


def test_clip_beyond_an_integer_type() -> None:
    x = np.array([-128, 0, 127], np.int8)
    assert run(nn.ClipOp, x, low=300.0, high=400.0)[0].tolist() == [127, 127, 127]
    assert run(nn.ClipOp, x, low=-1e30, high=1e30)[0].tolist() == x.tolist()


def test_clip_where_the_bounds_cross() -> None:
    x = sample(16, (9,))
    expected = reference("Clip", x, np.array(2, F32), np.array(1, F32))
    assert_close(run(nn.ClipOp, x, low=2.0, high=1.0), expected)


def test_where() -> None:
    condition, a, b = sample(17, (3, 1), bool), sample(18, (1, 4)), sample(19, ())
    assert_close(run(nn.WhereOp, condition, a, b), reference("Where", condition, a, b))


CASTS = [F32, F64, np.int8, np.uint8, np.int32, np.int64, np.bool_]


@pytest.mark.parametrize("to", CASTS)
@pytest.mark.parametrize("source", CASTS)
def test_cast(source: Any, to: Any) -> None:
    from onnx import helper

    from tessella.dialects.nn.core import element_type

    x = np.abs(sample(20, (4, 5), source)) if source != np.bool_ else sample(20, (4, 5), bool)
    expected = reference("Cast", x, to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))
    assert_close(run(nn.CastOp, x, to=element_type(to)), expected)


def test_cast_of_floats_out_of_range_saturates() -> None:
    from tessella.dialects.nn.core import element_type

    x = np.array([np.nan, np.inf, -np.inf, 127.9, 128.0, -128.9, -129.0, 3e38], F32)
    found = run(nn.CastOp, x, to=element_type(np.int8))[0]
    assert found.tolist() == [0, 127, -128, 127, 127, -128, -128, 127]
    limits = np.iinfo(np.int64)
    edges = np.array([2.0**63, -(2.0**63), 2.0**63 - 1024], F64)
    found = run(nn.CastOp, edges, to=element_type(np.int64))[0]
    assert found.tolist() == [limits.max, limits.min, 2**63 - 1024]


def test_nan_in_min_and_max() -> None:
    a, b = np.array([np.nan, 1.0], F32), np.array([2.0, np.nan], F32)
    for op in (nn.MinOp, nn.MaxOp):
        assert np.isnan(run(op, a, b)[0]).all()
