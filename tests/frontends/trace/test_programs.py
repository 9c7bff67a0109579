"""Random programs: ops of every family on each other's results, compiled, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tessella
from tests.frontends.trace.checks import array

Step = Callable[[np.random.Generator, Any, Any], Any]


def _axis(rng: np.random.Generator, x: Any) -> int:
    return int(rng.integers(-x.ndim, x.ndim))


def _order(rng: np.random.Generator, x: Any) -> list[int]:
    return [int(d) for d in rng.permutation(x.ndim)]


def _convolved(rng: np.random.Generator, x: Any, _: Any) -> Any:
    groups = x.shape[1] if rng.integers(2) else 1
    shape = (groups * int(rng.integers(1, 4)), x.shape[1] // groups, *rng.integers(1, 4, 2))
    w = np.asarray(rng.standard_normal(shape) / 3, np.float32)
    bias = np.asarray(rng.standard_normal(shape[0]), np.float32) if rng.integers(2) else None
    strides = int(rng.integers(1, 3))
    return tessella.conv2d(x, w, bias, strides=strides, padding="same", groups=groups)


STEPS: list[Step] = [
    lambda _, x, y: x + y,
    lambda _, x, y: x - y * 0.5,
    lambda _, x, y: np.maximum(x, y),
    lambda _, x, y: np.where(x > y, x, y * 0.5),
    lambda _, x, y: np.tanh(x),
    lambda _, x, y: x / (1 + abs(x)),
    lambda _, x, y: np.exp(-x * x),
    lambda _, x, y: (x > 0.1).astype(np.float32) * x,
    lambda r, x, y: x.sum(_axis(r, x), keepdims=bool(r.integers(2))) / 4,
    lambda r, x, y: x.max(_axis(r, x)),
    lambda _, x, y: x - x.mean(-1, keepdims=True),
    lambda r, x, y: np.transpose(x, _order(r, x)),
    lambda r, x, y: x.reshape(-1)[:: int(r.choice([-1, 2, 3]))],
    lambda r, x, y: np.concatenate([x, x * 2], _axis(r, x)),
    lambda _, x, y: x[..., None],
    lambda _, x, y: x[..., : max(1, x.shape[-1] // 2)],
    lambda _, x, y: x @ np.swapaxes(x, -1, -2) / x.shape[-1],
]

IMAGE_STEPS: list[Step] = [
    _convolved,
    _convolved,
    lambda _, x, y: tessella.max_pool2d(x, 2, 1, padding="same"),
    lambda r, x, y: tessella.avg_pool2d(x, 3, int(r.integers(1, 3)), padding=1),
    lambda _, x, y: tessella.relu(x),
    lambda _, x, y: tessella.silu(x) + y * 0.5,
    lambda r, x, y: tessella.concatenate([x, tessella.tanh(x)], axis=_axis(r, x)),
    lambda r, x, y: tessella.mean(x, axis=(2, 3), keepdims=bool(r.integers(2))),
    lambda r, x, y: tessella.transpose(x, _order(r, x)),
    lambda r, x, y: tessella.softmax(x, axis=_axis(r, x)),
    lambda _, x, y: tessella.layer_norm(x, axis=1),
]


def _program(seed: int, steps: list[Step]) -> Callable[..., tuple[Any, ...]]:
    """A program of a few steps; one that its operands do not fit is left out."""

    def run(*arrays: Any) -> tuple[Any, ...]:
        rng = np.random.default_rng(seed)
        values = list(arrays)
        for _ in range(int(rng.integers(3, 12))):
            step = steps[int(rng.integers(len(steps)))]
            x, y = (values[int(rng.integers(len(values)))] for _ in range(2))
            state = np.random.default_rng(rng.integers(1 << 30))
            try:
                result = step(state, x, y)
            except (ValueError, IndexError, tessella.TessellaError):
                continue
            if 0 < result.size < 10000 and 0 < result.ndim < 5:
                values.append(result)
        return tuple(values[-3:])

    return run


@pytest.mark.parametrize("seed", range(30))
def test_random_programs(seed: int) -> None:
    shapes = [(2, 3), (3, 4, 5), (1, 5), (17,)]
    arrays = [array(shape, seed=seed) / 2 for shape in shapes]
    _check(_program(seed, STEPS), arrays)


@pytest.mark.parametrize("seed", range(30))
def test_random_programs_on_images(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers((1, 1, 3, 3), (3, 6, 10, 10)))
    _check(_program(seed, IMAGE_STEPS), [array(shape, seed=seed) / 2])


def _check(program: Callable[..., tuple[Any, ...]], arrays: list[Any]) -> None:
    with np.errstate(all="ignore"):
        want = program(*arrays)
    got = tessella.jit(lambda *args: program(*args))(*arrays)
    assert len(got) == len(want)
    for have, wanted in zip(got, want, strict=True):
        assert (have.dtype, have.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(have, wanted, rtol=1e-3, atol=2e-4)
