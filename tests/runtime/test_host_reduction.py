"""Reductions, softmax, cumulative sums and topk against ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tessella.dialects import nn
from tests.dialects.oracle import Array, assert_close, reference, run, runtime, sample

F32, F64 = np.float32, np.float64

REDUCTIONS = {
    "ReduceSum": nn.ReduceSumOp,
    "ReduceMean": nn.ReduceMeanOp,
    "ReduceMax": nn.ReduceMaxOp,
    "ReduceMin": nn.ReduceMinOp,
    "ReduceProd": nn.ReduceProdOp,
}
AXES: list[tuple[int, ...]] = [(0,), (1,), (3,), (1, 2), (0, 3), (3, 1), (0, 1, 2, 3)]


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [F32, F64, np.int32])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduce(name: str, axes: tuple[int, ...], keepdims: bool, dtype: Any) -> None:
    x = sample(len(axes), (2, 3, 1, 5), dtype) % 4
    expected = runtime(name, x, np.array(axes), keepdims=int(keepdims))
    assert_close(run(REDUCTIONS[name], x, axes=axes, keepdims=keepdims), expected)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduce_nothing(name: str) -> None:
    for x in (sample(0, (2, 3)), sample(1, ())):
        assert_close(run(REDUCTIONS[name], x, axes=(), keepdims=False), [x])


EMPTY: list[tuple[str, Any, Any]] = [
    ("ReduceSum", F32, 0),
    ("ReduceProd", F32, 1),
    ("ReduceMean", F32, np.nan),
    ("ReduceMax", F32, -np.inf),
    ("ReduceMin", F32, np.inf),
    ("ReduceSum", np.int64, 0),
    ("ReduceMean", np.int64, 0),
    ("ReduceMax", np.int32, -(2**31)),
    ("ReduceMin", np.uint8, 255),
    ("ReduceMax", np.bool_, False),
]


@pytest.mark.parametrize("name, dtype, expected", EMPTY)
def test_reduce_no_elements(name: str, dtype: Any, expected: float) -> None:
    x = np.zeros((2, 0), dtype)
    found = run(REDUCTIONS[name], x, axes=(1,), keepdims=True)
    assert_close(found, [np.full((2, 1), expected, dtype)])


def test_reduce_max_and_min_keep_nan() -> None:
    x = np.array([[1, np.nan, 3]], F32)
    for name in ("ReduceMax", "ReduceMin"):
        assert np.isnan(run(REDUCTIONS[name], x, axes=(1,), keepdims=False)[0]).all()


def test_reduce_of_booleans() -> None:
    x = sample(2, (3, 4), bool)
    for name in ("ReduceMax", "ReduceMin"):
        expected = reference(name, x, np.array([1]), keepdims=0)
        assert_close(run(REDUCTIONS[name], x, axes=(1,), keepdims=False), expected)


def test_mean_of_integers_rounds_towards_zero() -> None:
    x = np.array([[-1, -2, -2], [1, 2, 2]], np.int32)
    assert run(nn.ReduceMeanOp, x, axes=(1,), keepdims=False)[0].tolist() == [-1, 1]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name, op", [("ArgMax", nn.ArgMaxOp), ("ArgMin", nn.ArgMinOp)])
def test_arg(name: str, op: type[nn.NnOp], axis: int, keepdims: bool, last: bool) -> None:
    x = np.random.default_rng(axis).integers(0, 3, (3, 4, 5)).astype(F32)
    found = run(op, x, axis=axis, keepdims=keepdims, select_last_index=last)
    theirs: dict[str, Any] = {
        "axis": axis,
        "keepdims": int(keepdims),
        "select_last_index": int(last),
    }
    assert_close(found, reference(name, x, **theirs))


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (3, 0)], ids=str)
@pytest.mark.parametrize("name, op", [("Softmax", nn.SoftmaxOp), ("LogSoftmax", nn.LogSoftmaxOp)])
def test_softmax(name: str, op: type[nn.NnOp], shape: tuple[int, ...], dtype: Any) -> None:
    x = 30 * sample(len(shape), shape, dtype)
    for axis in range(len(shape)):
        assert_close(run(op, x, axis=axis), runtime(name, x, axis=axis))


def test_softmax_of_huge_numbers_and_masks() -> None:
    x = np.array([[1e30, 1e30, -1e30], [0, -np.inf, 0]], F32)
    assert_close(run(nn.SoftmaxOp, x, axis=1), runtime("Softmax", x, axis=1))
    nothing = np.full((1, 3), -np.inf, F32)
    assert np.isnan(run(nn.SoftmaxOp, nothing, axis=1)[0]).all()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("dtype", [F32, F64, np.int32, np.int64])
@pytest.mark.parametrize("shape", [(5,), (3, 4), (1, 3), (2, 1, 3)], ids=str)
def test_cumsum(shape: tuple[int, ...], dtype: Any, exclusive: bool, reverse: bool) -> None:
    x = sample(0, shape, dtype)
    for axis in range(len(shape)):
        found = run(nn.CumsumOp, x, axis=axis, exclusive=exclusive, reverse=reverse)
        theirs: dict[str, Any] = {"exclusive": int(exclusive), "reverse": int(reverse)}
        assert_close(found, runtime("CumSum", x, np.array(axis), **theirs))


@pytest.mark.parametrize("exclusive", [False, True])
def test_cumsum_of_nothing(exclusive: bool) -> None:
    x = np.zeros((2, 0), F32)
    assert_close(run(nn.CumsumOp, x, axis=1, exclusive=exclusive, reverse=False), [x])


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("dtype", [F32, np.int64])
@pytest.mark.parametrize("k", [0, 1, 3, 4])
def test_topk(k: int, dtype: Any, largest: bool) -> None:
    # few different numbers, so that the order of equal ones matters
    x = np.random.default_rng(k).integers(0, 3, (4, 5, 6)).astype(dtype)
    for axis in range(3):
        found = run(nn.TopkOp, x, k=k, axis=axis, largest=largest)
        expected = runtime("TopK", x, np.array([k]), outputs=2, axis=axis, largest=int(largest))
        assert_close(found, expected)


def test_topk_counts_nan_as_largest() -> None:
    x: Array = np.array([1, np.nan, 3, 2], F32)
    assert run(nn.TopkOp, x, k=2, axis=0, largest=True)[1].tolist() == [1, 2]
    assert run(nn.TopkOp, x, k=2, axis=0, largest=False)[1].tolist() == [0, 3]
