"""Rounding errors of long sums and of norms far from zero, against ONNX Runtime's and NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper, numpy_helper

from tessella import jit
from tessella.frontends.compile import compile
from tests.models import run_onnxruntime

Floats = npt.NDArray[np.float32]
MOST = 1.5
"""Times ONNX Runtime's error."""


def model(
    node: onnx.NodeProto, x: Floats, *weights: Floats, shape: tuple[int, ...]
) -> onnx.ModelProto:
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(w, name) for w, name in zip(weights, "wb", strict=False)],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def check(made: onnx.ModelProto, x: Floats, wanted: npt.NDArray[np.float64]) -> None:
    ours = np.asarray(compile(made)(x), np.float64)
    peers = np.asarray(run_onnxruntime(made, {"x": x})[0], np.float64)
    mine, theirs = (np.sqrt(np.mean((y - wanted) ** 2)) for y in (ours, peers))
    unit = np.finfo(np.float32).eps  # of the results of norms, which are near 1
    assert mine <= MOST * theirs + unit, f"{mine / theirs:.2f} times ONNX Runtime's error"


@pytest.mark.sweep
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("k", [1024, 4096, 16384, 4099])
def test_long_products(k: int, positive: bool) -> None:
    rng = np.random.default_rng(k)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((32, k), (k, 48)))
    x, w = (abs(x), abs(w)) if positive else (x, w)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    check(model(node, x, w, shape=(32, 48)), x, x.astype(np.float64) @ w.astype(np.float64))


SUMS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda a, b: a.sum(),
    "mean": lambda a, b: a.mean(),
    "squares": lambda a, b: ((a - b) ** 2).sum(),
    "columns": lambda a, b: a.reshape(-1, 8).sum(axis=0),
    "product": lambda a, b: a @ b,
}
LONG = 10_000_000


@cache
def long_arrays() -> tuple[Floats, Floats]:
    rng = np.random.default_rng(0)
    return rng.random(LONG, np.float32), rng.standard_normal(LONG, np.float32)


@pytest.mark.sweep
@pytest.mark.parametrize("name", SUMS)
def test_sums_of_long_arrays(name: str) -> None:
    """Against NumPy's, which sums in pairs: of several stretches, as one sum may be lucky."""
    function = SUMS[name]
    compiled, errors = jit(function), list[tuple[float, float]]()
    for start in (0, 8, 4096, 65536):
        a, b = (x[start : start + LONG - 65536] for x in long_arrays())
        wanted = function(a.astype(np.float64), b.astype(np.float64))
        ours, pairwise = (np.asarray(f(a, b), np.float64) for f in (compiled, function))
        rounding = np.finfo(np.float32).eps * np.abs(wanted)
        errors.append((np.max(abs(ours - wanted) - rounding), np.max(abs(pairwise - wanted))))
    mine, theirs = np.sqrt(np.mean(np.square(np.maximum(errors, 0)), axis=0))
    assert mine <= 4 * theirs, f"{mine / theirs:.2f} times NumPy's error"


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e4])
@pytest.mark.parametrize("n", [768, 4096])
def test_layer_norm_far_from_zero(n: int, offset: float) -> None:
    rng = np.random.default_rng(n)
    x = (rng.standard_normal((16, n)) + offset).astype(np.float32)
    node = helper.make_node("LayerNormalization", ["x", "w", "b"], ["y"], axis=-1)
    made = model(node, x, np.ones(n, np.float32), np.zeros(n, np.float32), shape=x.shape)
    centred = x.astype(np.float64) - x.astype(np.float64).mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    check(made, x, centred / np.sqrt(variance + 1e-5))


@pytest.mark.parametrize("n", [10_000, 1_000_000])
def test_long_sums(n: int) -> None:
    x = np.random.default_rng(n).random((1, n)).astype(np.float32)
    made = model(helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0), x, shape=())
    check(made, x, np.asarray(x.astype(np.float64).sum()))
