"""Gather and scatter against ONNX's reference evaluator and onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tessella.dialects import nn
from tessella.support.errors import ExecutionError
from tests.dialects.oracle import Array, assert_close, reference, run, runtime, sample

INDICES = [np.int32, np.int64]


def random_indices(seed: int, shape: tuple[int, ...], size: int, dtype: Any = np.int64) -> Array:
    """Indices into a dimension of this size, from the front and from the back."""
    return np.random.default_rng(seed).integers(-size, size, shape).astype(dtype)


@pytest.mark.parametrize("dtype", INDICES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (0,)], ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_gather(axis: int, shape: tuple[int, ...], dtype: Any) -> None:
    data = sample(0, (3, 4, 5))
    indices = random_indices(1, shape, data.shape[axis], dtype)
    found = run(nn.GatherOp, data, indices, axis=axis)
    assert_close(found, runtime("Gather", data, indices, axis=axis))


@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 3, 1), (0, 4, 5), (3, 4, 9)], ids=str)
def test_gather_elements(shape: tuple[int, ...]) -> None:
    data = sample(0, (3, 4, 5), np.int32)
    indices = random_indices(1, shape, 5)
    found = run(nn.GatherElementsOp, data, indices, axis=2)
    assert_close(found, runtime("GatherElements", data, indices, axis=2))


GATHER_ND: list[tuple[tuple[int, ...], tuple[int, ...], int]] = [
    ((3, 3), (4, 2), 0),
    ((3, 3, 2), (4, 1), 0),
    ((3, 3, 3), (2, 2, 3), 0),
    ((2, 3, 4), (2, 5, 1), 1),
    ((2, 3, 3), (2, 1), 1),
    ((2, 3, 4, 5), (2, 3, 2, 1), 2),
    ((3, 3), (0, 2), 0),
]


@pytest.mark.parametrize("data_shape, shape, batch_dims", GATHER_ND)
def test_gather_nd(data_shape: tuple[int, ...], shape: tuple[int, ...], batch_dims: int) -> None:
    data = sample(0, data_shape)
    indices = random_indices(1, shape, min(data_shape[batch_dims:]))
    found = run(nn.GatherNdOp, data, indices, batch_dims=batch_dims)
    assert_close(found, runtime("GatherND", data, indices, batch_dims=batch_dims))


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1])
def test_scatter_elements(axis: int, reduction: str, dtype: Any) -> None:
    data, shape = sample(0, (3, 4), dtype), (2, 3)
    indices, updates = random_indices(1, shape, data.shape[axis]), sample(2, shape, dtype)
    found = run(nn.ScatterElementsOp, data, indices, updates, axis=axis, reduction=reduction)
    theirs: dict[str, Any] = {"axis": axis, "reduction": reduction}
    assert_close(found, runtime("ScatterElements", data, indices, updates, **theirs))


@pytest.mark.parametrize("axis", [0, 1])
def test_scatter_elements_without_reduction(axis: int) -> None:
    data, shape = sample(0, (3, 4)), (2, 3)
    rng = np.random.default_rng(1)
    order = np.stack([rng.permutation(data.shape[axis]) for _ in range(3)])
    indices = np.ascontiguousarray(order[:3, :2].T if axis == 0 else order[:2, :3])
    updates = sample(2, shape)
    found = run(nn.ScatterElementsOp, data, indices, updates, axis=axis, reduction="none")
    assert_close(found, reference("ScatterElements", data, indices, updates, axis=axis))


SCATTER_ND: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((8,), (4, 1)),
    ((4, 4, 4), (2, 1)),
    ((3, 4), (2, 2, 2)),
    ((3, 4), (0, 1)),
]


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("data_shape, shape", SCATTER_ND)
def test_scatter_nd(data_shape: tuple[int, ...], shape: tuple[int, ...], reduction: str) -> None:
    data = sample(0, data_shape)
    indices = random_indices(1, shape, min(data_shape))
    updates = sample(2, (*shape[:-1], *data_shape[shape[-1] :]))
    found = run(nn.ScatterNdOp, data, indices, updates, reduction=reduction)
    assert_close(found, runtime("ScatterND", data, indices, updates, reduction=reduction))


def test_scatter_nd_without_reduction() -> None:
    data, updates = sample(0, (5, 3)), sample(1, (2, 3))
    indices = np.array([[-1], [1]])
    expected = np.array(data)
    expected[[4, 1]] = updates
    assert_close(run(nn.ScatterNdOp, data, indices, updates, reduction="none"), [expected])


def test_the_last_of_several_updates_stays() -> None:
    data, indices = np.zeros(3, np.float32), np.array([1, 1, -2])
    updates = np.array([1, 2, 3], np.float32)
    found = run(nn.ScatterElementsOp, data, indices, updates, axis=0, reduction="none")
    assert found[0].tolist() == [0, 3, 0]
    found = run(nn.ScatterNdOp, data, indices[:, None], updates, reduction="none")
    assert found[0].tolist() == [0, 3, 0]


def test_scatter_leaves_data_as_it_is() -> None:
    data = np.zeros(3, np.float32)
    run(nn.ScatterNdOp, data, np.array([[0]]), np.ones(1, np.float32), reduction="add")
    assert data.tolist() == [0, 0, 0]


@pytest.mark.parametrize("bad", [4, -5, 2**62, -(2**63)])
def test_an_index_out_of_range(bad: int) -> None:
    data, indices = sample(0, (4, 4)), np.array([[0, bad]])
    updates = sample(1, (1, 2))
    scatter = {"reduction": "none"}
    cases: list[tuple[type[nn.NnOp], tuple[Array, ...], dict[str, Any]]] = [
        (nn.GatherOp, (data, indices), {"axis": 0}),
        (nn.GatherElementsOp, (data, indices), {"axis": 1}),
        (nn.GatherNdOp, (data, indices), {"batch_dims": 0}),
        (nn.ScatterElementsOp, (data, indices, updates), {"axis": 1, **scatter}),
        (nn.ScatterNdOp, (data, indices, updates[:, 0]), scatter),
    ]
    for op, operands, settings in cases:
        with pytest.raises(ExecutionError, match=rf"(?s)out of range.*\[-4, 4\).*{bad}"):
            run(op, *operands, **settings)


def test_an_index_into_nothing() -> None:
    data = np.zeros((0, 2), np.float32)
    with pytest.raises(ExecutionError):
        run(nn.GatherOp, data, np.array([0]), axis=0)
    assert run(nn.GatherOp, data, np.zeros(0, np.int64), axis=0)[0].shape == (0, 2)
