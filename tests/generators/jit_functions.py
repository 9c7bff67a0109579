"""Random functions on arrays, of NumPy's functions and ours, for `jit`: a table of steps.

A step that its operands do not suit raises an error in NumPy, and is not taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

import tessella
from tests.frontends.trace.checks import Array
from tests.generators.choices import Choices

SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)
"""Around the numbers of lanes, and odd."""
DTYPES = "float32 float32 float32 float64 bool int8 int32 int64 uint8".split()
MOST_ELEMENTS = 4000
LARGEST = 1e4
Rng = np.random.Generator
Spoil = Callable[[Array, Sequence[Array], np.dtype[Any]], Array]
"""What happens to the result of a step that rounds to a dtype, beside numbers that cancel out."""


@dataclass(frozen=True)
class Step:
    """A way to make a value of two others, with settings that are drawn."""

    make: Callable[[Rng, Any, Any], Any]
    kinds: str = "fiub"
    """The kinds of dtypes that the first operand may have."""
    exact: bool = False
    """True if it moves or picks elements: it does not round."""
    cancels: bool = False
    """True if a small result is the difference of numbers as large as the operand."""


def _axis(rng: Rng, x: Any) -> int:
    return int(rng.integers(-x.ndim, x.ndim))


def _order(rng: Rng, x: Any) -> list[int]:
    return [int(d) for d in rng.permutation(x.ndim)]


def _sliced(rng: Rng, x: Any) -> Any:
    keys: list[Any] = []
    for n in x.shape:
        low, high = sorted(int(i) for i in rng.integers(0, n + 1, 2))
        step = int(rng.choice([1, 1, 2, 3]))
        back = slice(high - 1 if high else None, low - 1 if low else None, -step)
        keys.append(rng.choice(4))
        keys[-1] = [slice(None), slice(low, high, step), slice(low, high), back][keys[-1]]
    return x[tuple(keys)]


def _reshaped(rng: Rng, x: Any) -> Any:
    shape = list(x.shape)
    if rng.integers(2) and len(shape) > 1:
        at = int(rng.integers(len(shape) - 1))
        shape[at : at + 2] = [math.prod(shape[at : at + 2])]
    else:
        shape.insert(int(rng.integers(len(shape) + 1)), 1)
    return x.reshape(shape)


def _taken(rng: Rng, x: Any) -> Any:
    axis = _axis(rng, x)
    n = x.shape[axis]
    return np.take(x, rng.integers(-n, n, int(rng.integers(1, 5))), axis=axis)


def _product(rng: Rng, x: Any, _: Any) -> Any:
    n = int(rng.choice([1, 3, 16, 18]))
    w = rng.integers(-2, 3, (x.shape[-1], n)).astype(x.dtype)
    return x @ w


def _stencil(rng: Rng, x: Any, _: Any) -> Any:
    """Differences to both neighbours along an axis; the ends stay, or are left out."""
    axis, extent = _axis(rng, x), slice(None)
    if x.shape[axis] < 3:
        raise ValueError("no neighbours")
    parts = (
        (slice(0, -2),),
        (slice(1, -1),),
        (slice(2, None),),
        (slice(0, 1),),
        (slice(-1, None),),
    )
    before = (extent,) * (axis % x.ndim)
    low, middle, high, first, last = (x[before + part] for part in parts)
    inner = middle * 2 - low - high
    return np.concatenate([first, inner, last], axis) if rng.integers(2) else inner


def _distances(rng: Rng, x: Any, y: Any) -> Any:
    """Squared differences, summed over an axis; of all pairs of rows of matrices."""
    pairs = x.ndim == 2 and y.ndim == 2 and x.shape[1] == y.shape[1]
    difference = x[:, None] - y[None] if pairs else x - y
    return (difference * difference).sum(axis=_axis(rng, difference))


def _column(rng: Rng, x: Any, _: Any) -> Any:
    """A product with one column, of the matrix or of what it is transposed."""
    x = np.swapaxes(x, -1, -2) if rng.integers(2) else x
    return x @ np.ones((x.shape[-1], 1), x.dtype)


def _compared(rng: Rng, x: Any, y: Any) -> Any:
    return [np.less, np.less_equal, np.greater, np.equal, np.not_equal][rng.integers(5)](x, y)


def _chosen(rng: Rng, x: Any, y: Any) -> Any:
    return np.where(x > (y if rng.integers(2) else 0), x, y)


def _reduced(*functions: Any) -> Callable[[Rng, Any, Any], Any]:
    def make(rng: Rng, x: Any, _: Any) -> Any:
        function = functions[rng.integers(len(functions))]
        return function(x, axis=_axis(rng, x), keepdims=bool(rng.integers(2)))

    return make


def _unary(function: Any, into: Callable[[Any], Any] = lambda x: x) -> Step:
    return Step(lambda _, x, y: function(into(x)), "f")


def _bounded(x: Any) -> Any:
    return np.clip(x, -8, 8)


def _places(rng: Rng, size: Any, count: int) -> Any:
    """Some of the numbers of so many, also counted from the back."""
    return tessella.arange(size) * int(rng.integers(1, 9)) % (2 * count) - count


def _segments(*functions: Any) -> Callable[[Rng, Any, Any], Any]:
    def make(rng: Rng, x: Any, _: Any) -> Any:
        count = int(rng.integers(1, 12))
        function = functions[rng.integers(len(functions))]
        return function(x, _places(rng, x.shape[0], count), count)

    return make


def _put(rng: Rng, x: Any, y: Any) -> Any:
    axis = _axis(rng, x) % x.ndim
    shape = [x.shape[d] if d == axis else 1 for d in range(x.ndim)]
    places = tessella.arange(x.shape[axis]) * int(rng.integers(1, 9)) % x.shape[axis]
    return tessella.put_along_axis(x, places.reshape(shape), int(rng.integers(2)), axis)


def _converted(rng: Rng, x: Any, _: Any) -> Any:
    dtype = np.dtype(str(rng.choice(DTYPES)))
    if x.dtype.kind == "f" and dtype.kind in "iu":
        x = np.clip(x, 0 if dtype.kind == "u" else -100, 100)
    return x.astype(dtype)


STEPS: Sequence[Step] = (
    Step(lambda _, x, y: x + y),
    Step(lambda _, x, y: x - y, "fiu"),
    Step(lambda _, x, y: x * y),
    Step(lambda _, x, y: x * 0.5 + 1),
    Step(lambda _, x, y: x / (1 + abs(y))),
    Step(lambda _, x, y: -x, "fi", exact=True),
    Step(lambda _, x, y: x // (abs(y) % 5 + 1), "i"),
    Step(lambda _, x, y: x % (abs(y) % 5 + 1), "i"),
    Step(lambda _, x, y: np.maximum(x, y), exact=True),
    Step(lambda _, x, y: np.minimum(x, y), exact=True),
    Step(_compared, exact=True),
    Step(_chosen, exact=True),
    Step(lambda _, x, y: ~x, "biu", exact=True),
    Step(lambda _, x, y: x & (y > 0), "b", exact=True),
    Step(lambda _, x, y: x ^ (y > 0), "b", exact=True),
    Step(_converted),
    Step(lambda _, x, y: np.clip(x, -2, 3), "fi", exact=True),
    *map(_unary, (np.tanh, np.sin, np.cos, np.arctan, np.square, np.floor, np.ceil, np.sign)),
    *map(_unary, (np.arcsinh, np.rint, np.trunc, tessella.relu, tessella.sigmoid, tessella.silu)),
    Step(lambda _, x, y: tessella.gelu(x), "f", cancels=True),
    _unary(tessella.erf),
    *(_unary(f, _bounded) for f in (np.exp, np.exp2, np.expm1, np.sinh, np.cosh)),
    *(_unary(f, np.abs) for f in (np.sqrt, np.log1p)),
    *(_unary(f, lambda x: abs(x) + 0.5) for f in (np.log, np.log2, np.log10, np.reciprocal)),
    *(_unary(f, lambda x: np.tanh(x) * 0.9) for f in (np.arcsin, np.arccos)),
    Step(_reduced(np.sum, np.mean)),
    Step(_reduced(np.var, np.std), "f"),
    Step(_reduced(np.max, np.min), exact=True),
    Step(_reduced(np.any, np.all, np.argmax, np.argmin), exact=True),
    Step(lambda r, x, y: np.cumsum(x, axis=_axis(r, x)), "fi"),
    Step(lambda r, x, y: np.maximum.accumulate(x, axis=_axis(r, x)), "fib"),
    Step(lambda r, x, y: tessella.softmax(x, axis=_axis(r, x)), "f"),
    Step(lambda r, x, y: tessella.layer_norm(x, axis=_axis(r, x)), "f"),
    Step(lambda r, x, y: np.transpose(x, _order(r, x)), exact=True),
    Step(lambda r, x, y: np.flip(x, _axis(r, x)), exact=True),
    Step(lambda r, x, y: np.tile(x, int(r.integers(1, 4))), exact=True),
    Step(lambda r, x, y: np.concatenate([x, y, x], _axis(r, x)), exact=True),
    Step(lambda r, x, y: np.concatenate([x, x * 2], _axis(r, x)), "fi"),
    Step(lambda r, x, y: np.stack([x, y], _axis(r, x)), exact=True),
    Step(lambda r, x, y: _sliced(r, x), exact=True),
    Step(lambda r, x, y: _reshaped(r, x), exact=True),
    Step(lambda r, x, y: _taken(r, x), exact=True),
    Step(_segments(tessella.segment_sum, tessella.segment_mean), "fiu"),
    Step(_segments(tessella.segment_max, tessella.segment_min), "iub", exact=True),
    Step(_put, exact=True),
    Step(lambda _, x, y: np.bincount(abs(np.ravel(x)) % 9, minlength=10), "i", exact=True),
    Step(lambda _, x, y: np.searchsorted(np.sort(y, axis=None), x), "fiu", exact=True),
    Step(lambda _, x, y: np.histogram(x, 5, (-3, 3))[0], "fi", exact=True),
    Step(lambda _, x, y: x[..., None], exact=True),
    Step(lambda _, x, y: np.ravel(x), exact=True),
    Step(lambda _, x, y: np.squeeze(x), exact=True),
    Step(lambda _, x, y: x @ np.swapaxes(x, -1, -2), "f"),
    Step(_product, "fi"),
    Step(_stencil, "fi"),
    Step(_distances, "fi"),
    Step(_column, "f"),
)  # fmt: skip


def _convolved(rng: Rng, x: Any, _: Any) -> Any:
    groups = x.shape[1] if rng.integers(2) else 1
    shape = (groups * int(rng.integers(1, 4)), x.shape[1] // groups, *rng.integers(1, 4, 2))
    w = np.asarray(rng.standard_normal(shape) / 3, np.float32)
    bias = np.asarray(rng.standard_normal(shape[0]), np.float32) if rng.integers(2) else None
    strides = int(rng.integers(1, 3))
    w, bias = w.astype(x.dtype), None if bias is None else bias.astype(x.dtype)
    return tessella.conv2d(x, w, bias, strides=strides, padding="same", groups=groups)


IMAGE_STEPS: Sequence[Step] = (
    Step(_convolved, "f"),
    Step(_convolved, "f"),
    Step(lambda _, x, y: tessella.max_pool2d(x, 2, 1, padding="same"), "f", exact=True),
    Step(lambda r, x, y: tessella.avg_pool2d(x, 3, int(r.integers(1, 3)), padding=1), "f"),
    Step(lambda _, x, y: tessella.relu(x), "f", exact=True),
    Step(lambda _, x, y: tessella.silu(x) + y * 0.5, "f"),
    Step(lambda r, x, y: tessella.concatenate([x, tessella.tanh(x)], axis=_axis(r, x)), "f"),
    Step(lambda r, x, y: tessella.mean(x, axis=(2, 3), keepdims=bool(r.integers(2))), "f"),
    Step(lambda r, x, y: tessella.transpose(x, _order(r, x)), exact=True),
    Step(lambda r, x, y: tessella.softmax(x, axis=_axis(r, x)), "f"),
    Step(lambda _, x, y: tessella.layer_norm(x, axis=1), "f"),
)


@dataclass(frozen=True)
class Taken:
    """A step of a function: the values that it reads, and what its settings are drawn from."""

    step: Step
    operands: tuple[int, int]
    seed: int
    dtype: np.dtype[Any]
    """Of its result."""

    def run(self, values: Sequence[Any]) -> Any:
        """The value that it makes."""
        x, y = (values[i] for i in self.operands)
        return self.step.make(np.random.default_rng(self.seed), x, y)


@dataclass(frozen=True)
class Function:
    """A function of arrays, and arrays that it is called with."""

    arrays: Sequence[Array]
    taken: Sequence[Taken]
    results: Sequence[int]

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        values = list(arrays)
        for taken in self.taken:
            values.append(taken.run(values))
        return tuple(values[i] for i in self.results)

    def resized(self, sizes: Mapping[int, int]) -> Function | None:
        """The function with arrays whose dimensions have other sizes, each by the one that it has;
        None where the steps do not suit them."""
        shapes = [tuple(sizes.get(n, n) for n in a.shape) for a in self.arrays]
        values = [np.resize(a, shape) for a, shape in zip(self.arrays, shapes, strict=True)]
        resized = Function(list(values), self.taken, self.results)
        for taken in self.taken:
            made = _try(taken.step, taken.operands, taken.seed, values)
            if made is None or made[0].dtype != taken.dtype:
                return None
            values.append(made[1])
        return resized

    def wide(self, spoil: Spoil) -> list[Array]:
        """The results in float64, with errors put in."""
        values = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in self.arrays]
        for taken in self.taken:
            result, step = np.asarray(taken.run(values)), taken.step
            beside = [values[taken.operands[0]]] if step.cancels else []
            values.append(result if step.exact else spoil(result, beside, taken.dtype))
        return [values[i] for i in self.results]


def function(random: Random, *, images: bool = False) -> Function:
    """A random function of up to 14 steps."""
    draw = Choices(random)
    arrays = [_array(draw, images=images) for _ in range(draw.one_of(1, 1, 2, 3))]
    values, taken = list(arrays), list[Taken]()
    count = draw.one_of(1, 2, 3, 4, 6, 8, 11, 14)
    for _ in range(6 * count):
        step = draw.one_of(*(IMAGE_STEPS if images else STEPS))
        x, y = (draw.one_of(*range(len(values)), len(values) - 1) for _ in "xy")
        made = _try(step, (x, y), random.getrandbits(30), values)
        if made is not None:
            taken.append(made[0])
            values.append(made[1])
        if len(taken) == count:
            break
    last, more = len(values) - 1, draw.one_of(0, 0, 2) if taken else 0
    return Function(arrays, taken, [last, *(draw.between(len(arrays), last) for _ in range(more))])


def _array(draw: Choices, *, images: bool) -> Array:
    rng = draw.generator()
    if images:
        shape: tuple[int, ...] = tuple(int(n) for n in rng.integers((1, 1, 3, 3), (3, 6, 10, 10)))
        return rng.standard_normal(shape).astype(np.float32)
    sizes = (*SIZES, 0) if draw.chance(5) else SIZES
    shape = tuple(draw.one_of(*sizes) for _ in range(draw.one_of(0, 1, 1, 2, 2, 3, 3, 4)))
    while math.prod(shape) > MOST_ELEMENTS // 2:
        shape = shape[1:]
    dtype = np.dtype(draw.one_of(*DTYPES))
    if dtype.kind == "f":
        return np.asarray(rng.standard_normal(shape) * 2, dtype)
    low = {"b": 0, "i": -9, "u": 0}[dtype.kind]
    return np.asarray(rng.integers(low, 2 if dtype.kind == "b" else 10, shape), dtype)


def _try(
    step: Step, operands: tuple[int, int], seed: int, values: Sequence[Array]
) -> tuple[Taken, Array] | None:
    """The step with its result, unless it does not suit its operands, or numbers get too large."""
    if values[operands[0]].dtype.kind not in step.kinds:
        return None
    taken = Taken(step, operands, seed, np.dtype(np.float32))
    try:
        with np.errstate(all="ignore"):
            result = np.asarray(taken.run(values))
    except (TypeError, ValueError, IndexError, tessella.TessellaError):
        return None
    if result.dtype.name not in DTYPES or result.size > MOST_ELEMENTS or result.ndim > 5:
        return None
    with np.errstate(all="ignore"):
        if result.dtype.kind == "f" and not np.all(np.abs(result) < LARGEST):
            return None
    return Taken(step, operands, seed, result.dtype), result
