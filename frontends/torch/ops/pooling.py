"""Converters of pooling over windows, and of its gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tessella.dialects import nn
from tessella.frontends.emitter import Array, Emitter, Value
from tessella.frontends.pool_places import MOST_POINTS, largest_places
from tessella.frontends.torch.ops.creation import filled
from tessella.frontends.torch.registry import Converter, aten, refuse
from tessella.support.decisions import known_all
from tessella.support.sizes import product

Ints = Sequence[int] | int


def _each(values: Ints, rank: int) -> tuple[int, ...]:
    given = [values] if isinstance(values, int) else [*values]
    return tuple(given * (rank if len(given) == 1 else 1))


def _batched(x: Value, rank: int) -> Value:
    """Emit images [N, C, spatial..], also of a single image [C, spatial..]."""
    return x if x.rank == rank + 2 else x.reshape((1, *x.shape))


def _as_given(x: Value, y: Value) -> Value:
    """Emit the result in the rank of the operand."""
    return y if x.rank == y.rank else y.reshape(y.shape[1:])


def _max_pool(
    rank: int,
    x: Value,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    ceil_mode: bool,
) -> tuple[Value, Value | None]:
    sizes, pads, spread = (_each(v, rank) for v in (kernel, padding, dilation))
    steps = sizes if stride == [] or stride == () else _each(stride, rank)
    images = _batched(x, rank)
    window = {"strides": steps, "pads": pads * 2, "dilations": spread}
    largest = images.op(nn.MaxPoolOp, kernel_shape=sizes, ceil_mode=ceil_mode, **window)
    if math.prod(sizes) > MOST_POINTS or not all(isinstance(n, int) for n in x.shape[-rank:]):
        return _as_given(x, largest), None
    places = largest_places(images, largest, sizes, steps, pads * 2, spread).cast(np.int64)
    return _as_given(x, largest), _as_given(x, places)


@aten("max_pool2d_with_indices", note=f"indices of windows of at most {MOST_POINTS} elements")
def max_pool2d(
    emit: Emitter,
    x: Value,
    kernel: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
) -> tuple[Value, Value | None]:
    return _max_pool(2, x, kernel, stride, padding, dilation, ceil_mode)


@aten("max_pool3d_with_indices", note=f"indices of windows of at most {MOST_POINTS} elements")
def max_pool3d(
    emit: Emitter,
    x: Value,
    kernel: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
) -> tuple[Value, Value | None]:
    return _max_pool(3, x, kernel, stride, padding, dilation, ceil_mode)


def _placed(rank: int, grad: Value, x: Value, indices: Value) -> Value:
    """Emit zeros in the shape of ``x``, to which a gradient is added at positions of each image."""
    planes, size = product(x.shape[:-rank]), product(x.shape[-rank:])
    count = product(grad.shape[-rank:])
    zeros = filled(x.emitter, 0, (planes, size), grad.dtype)
    at, given = (v.reshape((planes, count)) for v in (indices, grad))
    return zeros.op(nn.ScatterElementsOp, at, given, axis=1, reduction="add").reshape(x.shape)


@aten("max_pool2d_with_indices_backward", "adaptive_max_pool2d_backward")
def max_pool2d_backward(emit: Emitter, grad: Value, x: Value, *others: object) -> Value:
    indices = others[-1]
    assert isinstance(indices, Value)
    return _placed(2, grad, x, indices)


@aten("max_pool3d_with_indices_backward", "adaptive_max_pool3d_backward")
def max_pool3d_backward(emit: Emitter, grad: Value, x: Value, *others: object) -> Value:
    indices = others[-1]
    assert isinstance(indices, Value)
    return _placed(3, grad, x, indices)


def _avg_pool(
    rank: int,
    x: Value,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Value:
    sizes, pads = _each(kernel, rank), _each(padding, rank)
    steps = sizes if stride == [] or stride == () else _each(stride, rank)
    images = _batched(x, rank)
    y = images.op(
        nn.AvgPoolOp,
        kernel_shape=sizes,
        strides=steps,
        pads=pads * 2,
        dilations=(1,) * rank,
        ceil_mode=ceil_mode,
        count_include_pad=count_include_pad or divisor is not None,
    )
    if divisor is not None:
        y = y * y.like(_totals(images, y, sizes, steps, pads, ceil_mode) / divisor)
    return _as_given(x, y)


def _totals(
    x: Value,
    y: Value,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    ceil_mode: bool,
) -> Array:
    """Return the number of elements, with padding, that each window averages."""
    if not ceil_mode:
        return np.array(math.prod(kernel), np.float64)
    sizes, windows = known_all(x.shape[2:]), known_all(y.shape[2:])
    return _counts(sizes, windows, kernel, strides, pads, True)


@aten("avg_pool1d")
def avg_pool1d(
    emit: Emitter,
    x: Value,
    kernel: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Value:
    return _avg_pool(1, x, kernel, stride, padding, ceil_mode, count_include_pad, None)


@aten("avg_pool2d")
def avg_pool2d(
    emit: Emitter,
    x: Value,
    kernel: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Value:
    return _avg_pool(2, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor)


@aten("avg_pool3d")
def avg_pool3d(
    emit: Emitter,
    x: Value,
    kernel: Ints,
    stride: Ints = (),
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Value:
    return _avg_pool(3, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor)


def _counts(
    sizes: Sequence[int],
    windows: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    count_include_pad: bool,
) -> Array:
    """Return the number of elements that each window averages."""
    found = np.ones((), np.float64)
    for size, count, k, stride, pad in zip(sizes, windows, kernel, strides, pads, strict=True):
        first = np.arange(count) * stride - pad
        last = np.minimum(first + k, size + pad)
        if not count_include_pad:
            first, last = np.maximum(first, 0), np.minimum(last, size)
        found = found[..., None] * (last - first)
    return found


@aten("avg_pool2d_backward")
def avg_pool2d_backward(
    emit: Emitter,
    grad: Value,
    x: Value,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Value:
    kernels, pads = _each(kernel, 2), _each(padding, 2)
    strides = _each(stride, 2) if stride else kernels
    sizes, windows = known_all(x.shape[-2:]), known_all(grad.shape[-2:])
    counts = _counts(sizes, windows, kernels, strides, pads, count_include_pad)
    share = grad / grad.like(counts if divisor is None else float(divisor))
    images = _batched(share, 2)
    batch = images.shape[:2]
    spread = images.reshape((*batch, 1, 1, *windows)).expand((*batch, *kernels, *windows))
    window = {"strides": strides, "dilations": (1, 1), "starts": pads}
    return _as_given(x, spread.op(nn.Col2imOp, image=sizes, **window))


# ** to a given number of windows **


def _weights(size: int, count: int, dtype: np.dtype[np.generic]) -> Array:
    """Return the matrix [count, size] that averages ``count`` windows that cover ``size``
    elements."""
    matrix = np.zeros((count, size), np.float64)
    for i in range(count):
        start, end = i * size // count, -(-(i + 1) * size // count)
        matrix[i, start:end] = 1 / (end - start)
    return matrix.astype(dtype)


def _along(x: Value, axis: int, matrix: Array) -> Value:
    """Emit the products of a matrix with the rows along an axis."""
    weights = x.emitter.constant(matrix)
    if axis == x.rank - 1:
        return x.op(nn.MatmulOp, weights, transpose_b=True)
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    found = weights @ x.reshape((*before, x.shape[axis], product(after)))
    return found.reshape((*before, matrix.shape[0], *after))


def _adaptive(rank: int) -> Converter:
    def convert(emit: Emitter, x: Value, sizes: Sequence[int]) -> Value:
        axes = [*range(x.rank - rank, x.rank)]
        if all(n == 1 for n in sizes):
            return x.mean(axes, keepdims=True)
        extents = known_all(x.shape[-rank:])
        if 0 in sizes:
            return filled(emit, 0, (*x.shape[:-rank], *sizes), x.dtype)
        if not any(n % k for n, k in zip(extents, sizes, strict=True)):
            kernel = [n // k for n, k in zip(extents, sizes, strict=True)]
            return _avg_pool(rank, x, kernel, (), 0, False, True, None)
        _check_type(x)
        for axis, n, k in [*zip(axes, extents, sizes, strict=True)][::-1]:
            x = _along(x, axis, _weights(n, k, x.dtype))
        return x

    return convert


def _adaptive_backward(rank: int) -> Converter:
    def convert(emit: Emitter, grad: Value, x: Value) -> Value:
        sizes = known_all(grad.shape[-rank:])
        if all(n == 1 for n in sizes):
            count = emit.scalar(product(x.shape[-rank:]), np.int64).cast(grad.dtype)
            return (grad / count).expand(x.shape)
        _check_type(grad)
        axes = range(x.rank - rank, x.rank)
        for axis, n, k in [*zip(axes, known_all(x.shape[-rank:]), sizes, strict=True)][::-1]:
            grad = _along(grad, axis, np.ascontiguousarray(_weights(n, k, grad.dtype).T))
        return grad

    return convert


def _check_type(x: Value) -> None:
    if x.dtype.kind != "f":
        raise refuse("adaptive pooling of this type", x.dtype)


for _rank in (2, 3):
    aten(f"_adaptive_avg_pool{_rank}d")(_adaptive(_rank))
    aten(f"_adaptive_avg_pool{_rank}d_backward")(_adaptive_backward(_rank))
