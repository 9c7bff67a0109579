"""Poolings against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tessella.dialects import nn
from tests.dialects.oracle import Array, assert_close, run, runtime, sample


def pooling(seed: int) -> tuple[Array, dict[str, Any]]:
    """A random pooling with strides, pads, dilations, and windows that overhang."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    kernel = rng.integers(1, 4, rank)
    settings = {
        "kernel_shape": tuple(kernel.tolist()),
        "strides": tuple(rng.integers(1, 5, rank).tolist()),
        "pads": tuple(rng.integers(0, [*kernel, *kernel]).tolist()),
        "dilations": tuple(rng.integers(1, 3, rank).tolist()),
        "ceil_mode": bool(rng.integers(2)),
    }
    return sample(seed, (2, 2, *rng.integers(5, 10, rank))), settings


@pytest.mark.parametrize("seed", range(60))
def test_max_pool(seed: int) -> None:
    x, settings = pooling(seed)
    theirs: dict[str, Any] = settings | {"ceil_mode": int(settings["ceil_mode"])}
    assert_close(run(nn.MaxPoolOp, x, **settings), runtime("MaxPool", x, **theirs))


@pytest.mark.parametrize("seed", range(60))
def test_avg_pool(seed: int) -> None:
    x, settings = pooling(seed)
    settings["count_include_pad"] = bool(seed % 2)
    theirs: dict[str, Any] = {k: int(v) if isinstance(v, bool) else v for k, v in settings.items()}
    assert_close(run(nn.AvgPoolOp, x, **settings), runtime("AveragePool", x, **theirs))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_max_pool_of_integers(dtype: Any) -> None:
    x = sample(0, (1, 2, 5, 6), dtype) - np.array(20 if dtype == np.int8 else 0, dtype)
    window: dict[str, Any] = {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}
    ours: dict[str, Any] = {**window, "dilations": (1, 1), "ceil_mode": False}
    assert_close(run(nn.MaxPoolOp, x, **ours), runtime("MaxPool", x, **window))


def test_windows_without_any_element() -> None:
    x = np.ones((1, 1, 1), np.float32)
    window: dict[str, Any] = {
        "kernel_shape": (2,),
        "strides": (1,),
        "pads": (1, 1),
        "dilations": (2,),
    }
    assert run(nn.MaxPoolOp, x, **window, ceil_mode=False)[0].tolist() == [[[-np.inf]]]
    mean = run(nn.AvgPoolOp, x, **window, ceil_mode=False, count_include_pad=False)
    assert np.isnan(mean[0]).all()
    padded = run(nn.AvgPoolOp, x, **window, ceil_mode=False, count_include_pad=True)
    assert padded[0].tolist() == [[[0.0]]]


def test_a_window_that_would_start_in_the_padding_is_left_out() -> None:
    x = np.arange(1, 5, dtype=np.float32).reshape(1, 1, 4)
    window: dict[str, Any] = {
        "kernel_shape": (2,),
        "strides": (3,),
        "pads": (1, 1),
        "dilations": (1,),
    }
    found = run(nn.MaxPoolOp, x, **window, ceil_mode=True)
    assert_close(
        found, runtime("MaxPool", x, kernel_shape=[2], strides=[3], pads=[1, 1], ceil_mode=1)
    )
    window["pads"] = (0, 1)
    assert run(nn.MaxPoolOp, x, **window, ceil_mode=True)[0].tolist() == [[[2.0, 4.0]]]


def test_max_pool_keeps_nan() -> None:
    x = np.array([[[1.0, np.nan, 2.0, 3.0]]], np.float32)
    window: dict[str, Any] = {
        "kernel_shape": (2,),
        "strides": (1,),
        "pads": (0, 0),
        "dilations": (1,),
    }
    found = run(nn.MaxPoolOp, x, **window, ceil_mode=False)[0]
    np.testing.assert_array_equal(found, [[[np.nan, np.nan, 3.0]]])
