"""Functions whose kernels go through the same large arrays, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper

import tessella
from tessella.dialects.tile import KernelOp
from tests.frontends.onnx.models import model, value
from tests.models import lowered_for, run_onnxruntime
from tests.native import Array


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def gradient(w: Any, x: Any, y: Any) -> Any:
    p = 1 / (1 + np.exp(-(x @ w)))
    return x.T @ (p - y) / x.shape[0]


def moments(x: Any) -> Any:
    return x.sum(), (x * x).sum()


def masked_mean(x: Any, mask: Any) -> Any:
    return np.where(mask, x, np.float32(0)).sum() / mask.sum().astype(np.float32)


def unit_rows(x: Any) -> Any:
    return x / np.sqrt((x * x).sum(axis=1, keepdims=True))


def deviation(x: Any) -> Any:
    centred = x - x.mean(axis=0)
    return np.sqrt((centred * centred).mean(axis=0))


def mean_and_variance(x: Any) -> Any:
    return x.mean(axis=1), x.var(axis=1)


def standardised(x: Any) -> Any:
    return (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)


def log_sum(x: Any) -> Any:
    most = x.max(axis=1)
    return most + np.log(np.exp(x - most[:, None]).sum(axis=1))


def columns(x: Any, w: Any) -> Any:
    return x.sum(axis=0), x.max(axis=0), x @ w


CASES: dict[str, tuple[Callable[..., Any], list[Array]]] = {
    "gradient": (gradient, [normal(0, 48), normal(1, 20000, 48), normal(2, 20000)]),
    "moments": (moments, [normal(0, 600_000)]),
    "moments of odd rows": (moments, [normal(0, 2187, 301)]),
    "masked mean": (masked_mean, [normal(0, 2_000_000), normal(1, 2_000_000) > 0]),
    "unit rows": (unit_rows, [normal(0, 3000, 200)]),
    "mean and variance": (mean_and_variance, [normal(0, 3001, 211)]),
    "standardised": (standardised, [normal(0, 3001, 211)]),
    "logarithm of a sum": (log_sum, [normal(0, 3001, 211)]),
    "sums and a product": (columns, [normal(0, 9000, 64), normal(1, 64)]),
}


def kernels_of(function: Callable[..., Any], arguments: list[Array]) -> str:
    return tessella.jit(function, target="avx2").lower(*arguments).as_text("tile")


@pytest.mark.sweep
@pytest.mark.parametrize("name", CASES)
def test_one_kernel_reads_the_array_once(name: str) -> None:
    function, arguments = CASES[name]
    text = kernels_of(function, arguments)
    assert text.count("tile.kernel @") == 1
    assert "nest = #tile.nest" in text


@pytest.mark.sweep
@pytest.mark.parametrize("name", [*CASES, "deviation", "prime"])
def test_results(name: str) -> None:
    """Errors are at most four times NumPy's, whose sums are pairwise."""
    others: dict[str, tuple[Callable[..., Any], list[Array]]] = {
        "deviation": (deviation, [normal(0, 40000, 30)]),
        "prime": (gradient, [normal(0, 48), normal(1, 20011, 48), normal(2, 20011)]),
    }
    function, arguments = (CASES | others)[name]
    wide = [a.astype(np.float64) if a.dtype == np.float32 else a for a in arguments]
    found, exact, numpys = (
        [np.asarray(each) for each in (result if isinstance(result, tuple) else (result,))]
        for result in (tessella.jit(function)(*arguments), function(*wide), function(*arguments))
    )
    for result, wanted, other in zip(found, exact, numpys, strict=True):
        scale = np.finfo(np.float32).eps * np.abs(wanted).max()
        error, allowed = np.abs(result - wanted).max(), 4 * np.abs(other - wanted).max()
        assert error <= allowed + 2 * scale


def test_what_does_not_divide_stays_apart() -> None:
    """A loop over 20011 rows, a prime number, has no steps that a sum over it could have."""
    text = kernels_of(gradient, [normal(0, 48), normal(1, 20011, 48), normal(2, 20011)])
    assert text.count("tile.kernel @") == 2


def test_small_arrays_stay_apart() -> None:
    text = kernels_of(gradient, [normal(0, 48), normal(1, 200, 48), normal(2, 200)])
    assert text.count("tile.kernel @") == 2


def test_what_is_read_in_between_stays_apart() -> None:
    """The sum is complete only when its kernel is: another reads the array again."""
    x = normal(0, 600_000)
    text = kernels_of(lambda x: (x - x.max()).sum(), [x])
    assert text.count("tile.kernel @") == 2


# ** what only moves elements **


def filtered(channels: int, side: int) -> ModelProto:
    """A convolution of an image in nchw, whose result is in nchw too."""
    w = normal(0, channels, channels, 3, 3) / np.float32(3 * channels**0.5)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    shape = [1, channels, side, side]
    return model(nodes, [value("x", shape)], [value("y", shape)], weights={"w": w})


@pytest.mark.parametrize("side, kernels", [(224, 1), (225, 2), (40, 3)])
def test_relayouts_join_the_convolution(side: int, kernels: int) -> None:
    """The one before it does for images that are larger than the second level of cache, the one
    after it where rows of tiles divide the image too."""
    module = lowered_for(filtered(32, side), "avx512").stages["tile"]
    assert sum(isinstance(op, KernelOp) for op in module.walk()) == kernels


@pytest.mark.parametrize("channels, side", [(32, 128), (32, 96), (40, 97), (24, 130)])
@pytest.mark.parametrize("threads", [1, 2])
def test_results_of_strips(channels: int, side: int, threads: int) -> None:
    proto, x = filtered(channels, side), normal(1, 1, channels, side, side)
    found = tessella.compile(proto, threads=threads).run(None, {"x": x})[0]
    [wanted] = run_onnxruntime(proto, {"x": x})
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
