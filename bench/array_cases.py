"""Functions of arrays as scientists write them, for NumPy, JAX, numba and tessella.

A function takes the modules that it computes with as its first argument: NumPy's functions, under
`tessella.jit` too, or those of JAX. Its loops are what a user of numba would write, `prange` around
what threads may share out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.roofs import Roof, Roofs

Array = npt.NDArray[Any]

prange = range
"""numba's own inside compiled loops."""

CHUNKS = 64
"""Chunks of a sum that threads may share."""


@dataclass(frozen=True)
class Modules:
    """The modules a function computes with: one with NumPy's interface, and the error function."""

    np: Any
    erf: Callable[[Any], Any] | None


@dataclass(frozen=True)
class ArrayCase:
    """A function, its arguments, and the peers' versions of it."""

    arguments: Callable[[np.random.Generator], list[Array]]
    function: Callable[..., Any]
    loops: Callable[..., Any]
    """The loops that numba compiles."""
    others: Mapping[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
    """Versions for peers that need another form."""
    roof: Callable[[Roofs, int], Roof] | None = None
    """A loop that moves the same bytes in the same way, if the function does nothing else."""


def _normal(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], list[Array]]:
    return lambda rng: [rng.standard_normal(shape, np.float32) for shape in shapes]


# ** along rows **


def softmax(m: Modules, x: Any) -> Any:
    """softmax(tanh(x) * x + 1) of each row."""
    y = m.np.tanh(x) * x + 1
    e = m.np.exp(y - y.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_loops(x: Array) -> Array:
    """Loops for numba."""
    result = np.empty_like(x)
    rows, columns = x.shape
    one = np.float32(1)
    for i in prange(rows):
        most = np.float32(-np.inf)
        for j in range(columns):
            y = np.tanh(x[i, j]) * x[i, j] + one
            result[i, j] = y
            most = max(most, y)
        total = np.float32(0)
        for j in range(columns):
            e = np.exp(result[i, j] - most)
            result[i, j] = e
            total += e
        scale = one / total
        for j in range(columns):
            result[i, j] *= scale
    return result


def layer_norm(m: Modules, x: Any, scale: Any, shift: Any) -> Any:
    """Each row with mean 0 and deviation 1, scaled and shifted."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return centred / m.np.sqrt(variance + m.np.float32(1e-5)) * scale + shift


def layer_norm_loops(x: Array, scale: Array, shift: Array) -> Array:
    """Loops for numba."""
    result = np.empty_like(x)
    rows, columns = x.shape
    for i in prange(rows):
        total = np.float32(0)
        for j in range(columns):
            total += x[i, j]
        mean = total / np.float32(columns)
        squares = np.float32(0)
        for j in range(columns):
            squares += (x[i, j] - mean) * (x[i, j] - mean)
        factor = np.float32(1) / np.sqrt(squares / np.float32(columns) + np.float32(1e-5))
        for j in range(columns):
            result[i, j] = (x[i, j] - mean) * factor * scale[j] + shift[j]
    return result


# ** over all elements **


def squared_error(m: Modules, a: Any, b: Any) -> Any:
    """sum((a - b)**2)."""
    return ((a - b) ** 2).sum()


def squared_error_loops(a: Array, b: Array) -> Any:
    """Loops for numba."""
    total = np.float32(0)
    for i in prange(a.size):
        difference = a[i] - b[i]
        total += difference * difference
    return total


def masked(m: Modules, x: Any, mask: Any) -> Any:
    """Mean and standard deviation of the selected elements."""
    zero = m.np.float32(0)
    count = mask.sum()
    mean = m.np.where(mask, x, zero).sum() / count.astype(m.np.float32)
    centred = m.np.where(mask, x - mean, zero)
    return mean, m.np.sqrt((centred * centred).sum() / count.astype(m.np.float32))


def masked_numpy(m: Modules, x: Array, mask: Array) -> Any:
    """NumPy's version, which selects elements."""
    chosen = x[mask]
    return chosen.mean(), chosen.std()


def masked_loops(x: Array, mask: Array) -> Any:
    """Loops for numba."""
    count, total = 0, np.float32(0)
    for i in prange(x.size):
        if mask[i]:
            count += 1
            total += x[i]
    mean = total / np.float32(count)
    squares = np.float32(0)
    for i in prange(x.size):
        if mask[i]:
            squares += (x[i] - mean) * (x[i] - mean)
    return mean, np.sqrt(squares / np.float32(count))


def _mask_arguments(rng: np.random.Generator) -> list[Array]:
    x = rng.standard_normal(4_000_000, np.float32)
    return [x, rng.random(x.shape) < 0.5]


# ** what memory limits **


def total(m: Modules, x: Any) -> Any:
    """The sum."""
    return x.sum()


def total_loops(x: Array) -> Any:
    """Loops for numba."""
    result = np.float32(0)
    for i in prange(x.size):
        result += x[i]
    return result


def copy(m: Modules, x: Any) -> Any:
    """A copy."""
    return m.np.copy(x)


def copy_loops(x: Array) -> Array:
    """Loops for numba."""
    result = np.empty_like(x)
    for i in prange(x.size):
        result[i] = x[i]
    return result


def add(m: Modules, a: Any, b: Any) -> Any:
    """The sum of two arrays."""
    return a + b


def add_loops(a: Array, b: Array) -> Array:
    """Loops for numba."""
    result = np.empty_like(a)
    for i in prange(a.size):
        result[i] = a[i] + b[i]
    return result


LARGE = 100_000_000


def _large(arrays: int) -> Callable[[np.random.Generator], list[Array]]:
    """Return arrays of which a million elements are random, as drawing all would take seconds."""
    return lambda rng: [np.resize(rng.random(1_000_000, np.float32), LARGE) for _ in range(arrays)]


# ** elementwise **


def black_scholes(m: Modules, spot: Any, strike: Any, years: Any) -> Any:
    """Prices of European calls and puts: F. Black, M. Scholes, 1973."""
    assert m.erf is not None
    rate, volatility = m.np.float32(0.02), m.np.float32(0.3)
    half, root = m.np.float32(0.5), m.np.float32(math.sqrt(0.5))
    spread = volatility * m.np.sqrt(years)
    d1 = (m.np.log(spot / strike) + (rate + half * volatility * volatility) * years) / spread
    d2 = d1 - spread
    first, second = half + half * m.erf(d1 * root), half + half * m.erf(d2 * root)
    discounted = strike * m.np.exp(-rate * years)
    call = spot * first - discounted * second
    return call, call - spot + discounted


def black_scholes_loops(spot: Array, strike: Array, years: Array) -> Any:
    """Loops for numba."""
    rate, volatility = np.float32(0.02), np.float32(0.3)
    half, root = np.float32(0.5), np.float32(math.sqrt(0.5))
    call, put = np.empty_like(spot), np.empty_like(spot)
    for i in prange(spot.size):
        spread = volatility * np.sqrt(years[i])
        drift = (rate + half * volatility * volatility) * years[i]
        d1 = (np.log(spot[i] / strike[i]) + drift) / spread
        d2 = d1 - spread
        first = half + half * math.erf(d1 * root)
        second = half + half * math.erf(d2 * root)
        discounted = strike[i] * np.exp(-rate * years[i])
        call[i] = spot[i] * first - discounted * second
        put[i] = call[i] - spot[i] + discounted
    return call, put


def _option_arguments(rng: np.random.Generator) -> list[Array]:
    ranges = ((10, 100), (10, 100), (0.1, 2))
    return [rng.uniform(low, high, 2_000_000).astype(np.float32) for low, high in ranges]


# ** products **


def distances(m: Modules, a: Any, b: Any) -> Any:
    """The squared distance of each row of a to each row of b."""
    return ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=-1)


def distances_loops(a: Array, b: Array) -> Array:
    """Loops for numba."""
    result = np.empty((a.shape[0], b.shape[0]), np.float32)
    for i in prange(a.shape[0]):
        for j in range(b.shape[0]):
            total = np.float32(0)
            for k in range(a.shape[1]):
                difference = a[i, k] - b[j, k]
                total += difference * difference
            result[i, j] = total
    return result


def logistic_gradient(m: Modules, w: Any, x: Any, y: Any) -> Any:
    """The gradient of the mean loss of a logistic regression."""
    p = 1 / (1 + m.np.exp(-(x @ w)))
    return x.T @ (p - y) / x.shape[0]


def logistic_gradient_loops(w: Array, x: Array, y: Array) -> Array:
    """Loops for numba."""
    rows, columns = x.shape
    partial = np.zeros((CHUNKS, columns), np.float32)
    one = np.float32(1)
    for chunk in prange(CHUNKS):
        gradient = np.zeros(columns, np.float32)
        for i in range(chunk * rows // CHUNKS, (chunk + 1) * rows // CHUNKS):
            total = np.float32(0)
            for j in range(columns):
                total += x[i, j] * w[j]
            residual = one / (one + np.exp(-total)) - y[i]
            for j in range(columns):
                gradient[j] += x[i, j] * residual
        partial[chunk] = gradient
    return partial.sum(axis=0) / np.float32(rows)


def _regression_arguments(rng: np.random.Generator) -> list[Array]:
    x = rng.standard_normal((100_000, 100), np.float32)
    w = rng.standard_normal(100, np.float32) * np.float32(0.1)
    return [w, x, (rng.random(100_000) < 0.5).astype(np.float32)]


# ** images **


def _interior(m: Modules, u: Any) -> Any:
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    middle = u[1:-1, 1:-1]
    return middle + m.np.float32(0.1) * (around - 4 * middle)


def heat(m: Modules, u: Any) -> Any:
    """One step of the heat equation with the five-point stencil; the border stays."""
    rows = m.np.concatenate([u[1:-1, :1], _interior(m, u), u[1:-1, -1:]], axis=1)
    return m.np.concatenate([u[:1], rows, u[-1:]], axis=0)


def heat_numpy(m: Modules, u: Array) -> Array:
    """NumPy's version, which writes to a slice."""
    result = u.copy()
    result[1:-1, 1:-1] = _interior(m, u)
    return result


def heat_jax(m: Modules, u: Any) -> Any:
    """JAX's version, which updates functionally."""
    return u.at[1:-1, 1:-1].set(_interior(m, u))


def heat_loops(u: Array) -> Array:
    """Loops for numba."""
    result = np.empty_like(u)
    rows, columns = u.shape
    result[0], result[-1] = u[0], u[-1]
    for i in prange(1, rows - 1):
        result[i, 0], result[i, -1] = u[i, 0], u[i, -1]
        for j in range(1, columns - 1):
            around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
            result[i, j] = u[i, j] + np.float32(0.1) * (around - np.float32(4) * u[i, j])
    return result


TAPS = 5


def image_filter(m: Modules, x: Any, taps: Any) -> Any:
    """A filter of 5x5 taps on positions inside the image."""
    rows, columns = x.shape[0] - TAPS + 1, x.shape[1] - TAPS + 1
    total = m.np.float32(0)
    for i in range(TAPS):
        for j in range(TAPS):
            total = total + taps[i, j] * x[i : i + rows, j : j + columns]
    return total


def image_filter_loops(x: Array, taps: Array) -> Array:
    """Loops for numba."""
    rows, columns = x.shape[0] - 4, x.shape[1] - 4
    result = np.empty((rows, columns), np.float32)
    for i in prange(rows):
        for j in range(columns):
            total = np.float32(0)
            for k in range(5):
                for n in range(5):
                    total += taps[k, n] * x[i + k, j + n]
            result[i, j] = total
    return result


CASES: Mapping[str, ArrayCase] = {
    "softmax-tanh-4096x1024": ArrayCase(_normal((4096, 1024)), softmax, softmax_loops),
    "layer-norm-4096x1024": ArrayCase(
        _normal((4096, 1024), (1024,), (1024,)), layer_norm, layer_norm_loops
    ),
    "squared-error-10M": ArrayCase(
        _normal((10_000_000,), (10_000_000,)), squared_error, squared_error_loops
    ),
    "black-scholes-2M": ArrayCase(_option_arguments, black_scholes, black_scholes_loops),
    "distances-1000x1000x64": ArrayCase(
        _normal((1000, 64), (1000, 64)), distances, distances_loops
    ),
    "heat-2048x2048": ArrayCase(
        _normal((2048, 2048)), heat, heat_loops, {"numpy": heat_numpy, "jax": heat_jax}
    ),
    "filter-5x5-2048x2048": ArrayCase(
        _normal((2048, 2048), (TAPS, TAPS)), image_filter, image_filter_loops
    ),
    "logistic-gradient-100000x100": ArrayCase(
        _regression_arguments, logistic_gradient, logistic_gradient_loops
    ),
    "masked-deviation-4M": ArrayCase(
        _mask_arguments, masked, masked_loops, {"numpy": masked_numpy}
    ),
    "sum-100M": ArrayCase(_large(1), total, total_loops, roof=Roofs.read),
    "copy-100M": ArrayCase(_large(1), copy, copy_loops, roof=Roofs.copy),
    "add-100M": ArrayCase(_large(2), add, add_loops, roof=Roofs.add),
}
