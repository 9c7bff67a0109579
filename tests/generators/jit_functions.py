"""Random functions on arrays, of NumPy's functions and ours, for `jit`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tessella

Step = Callable[[np.random.Generator, Any, Any], Any]
"""A value made of one or both of two others."""


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


STEPS: Sequence[Step] = [
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

IMAGE_STEPS: Sequence[Step] = [
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


def function(seed: int, steps: Sequence[Step]) -> Callable[..., tuple[Any, ...]]:
    """A function of a few steps. A step that its operands do not fit is left out."""

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
