"""NumPy semantics of the ops that move elements, and of `resize`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tessella.runtime.host.registry import Array, kernel
from tessella.runtime.host.values import saturate
from tessella.support.errors import ExecutionError

Ints = Sequence[int]


@kernel("reshape", of_bits=True)
def reshape(x: Array, *, shape: Ints) -> Array:
    """Return the elements in another shape, as NumPy's reshape does."""
    return np.reshape(x, tuple(shape))


@kernel("transpose", of_bits=True)
def transpose(x: Array, *, perm: Ints) -> Array:
    """Permute the dimensions, as NumPy's transpose does."""
    return np.transpose(x, tuple(perm))


@kernel("channel_shuffle", of_bits=True)
def channel_shuffle(x: Array, *, groups: int) -> Array:
    """Reorder the channels of x[N, C, spatial..]: view them as [groups, C / groups], transpose
    these two dimensions, and flatten them."""
    batch, channels, *sizes = x.shape
    grouped = x.reshape(batch, groups, channels // groups, *sizes)
    return np.swapaxes(grouped, 1, 2).reshape(x.shape)


@kernel("slice", of_bits=True)
def slice_(x: Array, *, starts: Ints, sizes: Ints, steps: Ints) -> Array:
    """Return a slice: along each dimension, ``sizes`` elements from ``starts`` with the strides
    ``steps``."""
    window: list[slice] = []
    for start, size, step in zip(starts, sizes, steps, strict=True):
        end = start + size * step
        # a negative end would count from the back
        window.append(slice(start, end if end >= 0 else None, step) if size else slice(0))
    return x[tuple(window)]


@kernel("pad")
def pad(x: Array, *, low: Ints, high: Ints, mode: str, value: float) -> Array:
    """Pad each dimension by ``low`` elements before and ``high`` elements after it, as NumPy's pad
    does."""
    widths = list(zip(low, high, strict=True))
    if not widths:
        return x
    if mode == "constant":
        return np.pad(x, widths, constant_values=saturate(value, x.dtype))
    if mode == "edge":
        return np.pad(x, widths, mode="edge")
    return np.pad(x, widths, mode="reflect" if mode == "reflect" else "wrap")


@kernel("concat", of_bits=True)
def concat(*inputs: Array, axis: int) -> Array:
    """Concatenate the inputs along an axis, as NumPy does."""
    return np.concatenate(inputs, axis)


@kernel("expand", of_bits=True)
def expand(x: Array, *, shape: Ints) -> Array:
    """Broadcast an array to a shape, as NumPy's broadcast_to does."""
    return np.broadcast_to(x, tuple(shape))


@kernel("tile", of_bits=True)
def tile(x: Array, *, repeats: Ints) -> Array:
    """Repeat an array along each dimension, as NumPy's tile does."""
    return np.tile(x, tuple(repeats))


@kernel("sizes")
def sizes(*, values: Ints) -> Array:
    """Return the sizes ``values`` as a vector of int64."""
    return np.array(values, np.int64)


@kernel("iota")
def iota(*, count: int) -> Array:
    """Return the integers from 0 to ``count`` - 1, as NumPy's arange does."""
    return np.arange(count, dtype=np.int64)


@kernel("trim", of_bits=True)
def trim(x: Array, count: Array, *, sizes: object) -> Array:
    """Return the first ``count`` slices of ``x``. Raises ExecutionError if there are fewer."""
    return first_slices(x, int(count))


def first_slices(x: Array, count: int) -> Array:
    """Return the first ``count`` slices of ``x``. Raises ExecutionError if there are fewer."""
    if not 0 <= count <= len(x):
        raise ExecutionError(
            "a count is out of range", expected=f"in [0, {len(x)}]", found=str(count)
        )
    part = x[:count]
    # a small part does not keep the memory of the whole
    return part if 4 * count > len(x) else part.copy()


Float = np.float32


def _half_pixel(i: Array, scale: Float, old: int, new: int) -> Array:
    return (i + Float(0.5)) / scale - Float(0.5)


def _half_pixel_symmetric(i: Array, scale: Float, old: int, new: int) -> Array:
    adjustment = Float(new) / (scale * Float(old))
    offset = Float(old) / Float(2) * (Float(1) - adjustment)
    return offset + _half_pixel(i, scale, old, new)


def _pytorch_half_pixel(i: Array, scale: Float, old: int, new: int) -> Array:
    return _half_pixel(i, scale, old, new) if new > 1 else np.zeros_like(i)


def _align_corners(i: Array, scale: Float, old: int, new: int) -> Array:
    return i * Float(old - 1) / Float(max(new - 1, 1))


def _asymmetric(i: Array, scale: Float, old: int, new: int) -> Array:
    return i / scale


_COORDINATES: dict[str, Callable[[Array, Float, int, int], Array]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
}

_NEAREST: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - Float(0.5)),
    "round_prefer_ceil": lambda x: np.floor(x + Float(0.5)),
    "floor": np.floor,
    "ceil": np.ceil,
}


def resize_positions(old: int, new: int, scale: float, coordinates: str) -> Array:
    """Return the positions of a resized dimension's elements among the ``old`` elements (ONNX's
    Resize).

    The positions are computed in single precision, as in ONNX Runtime and ONNX's reference
    evaluator: the choice of the nearest element depends on the precision.
    """
    return _COORDINATES[coordinates](np.arange(new, dtype=Float), Float(scale), old, new)


def nearest_indices(positions: Array, old: int, nearest_mode: str) -> Array:
    """Return the element nearest to each position by ``nearest_mode``, clamped to the dimension."""
    return np.clip(_NEAREST[nearest_mode](positions), 0, old - 1).astype(np.int64)


def linear_weights(positions: Array, old: int) -> tuple[Array, Array, Array]:
    """Return the indices of the elements below and above each position, clamped to the dimension,
    and the weight of the element above."""
    below = np.floor(positions)
    low, high = (np.clip(i, 0, old - 1).astype(np.int64) for i in (below, below + 1))
    return low, high, positions - below


def resized_axes(shape: Ints, sizes: Ints, scales: Sequence[float]) -> list[int]:
    """Return the dimensions that a resize changes.

    Dimensions that shrink come first, so that no intermediate is larger than both operand and
    result.
    """
    changed = (d for d in range(len(shape)) if (sizes[d], scales[d]) != (shape[d], 1))
    return sorted(changed, key=lambda d: sizes[d] / max(shape[d], 1))


@kernel("resize")
def resize(
    x: Array,
    *,
    sizes: Ints,
    scales: Sequence[float],
    mode: str,
    coordinates: str,
    nearest_mode: str,
) -> Array:
    """Resize one dimension after the other (ONNX's Resize-19). The mode `linear` interpolates in
    float64, and rounds once."""
    result = x.astype(np.float64) if mode == "linear" else x
    for axis in resized_axes(x.shape, sizes, scales):
        old = x.shape[axis]
        positions = resize_positions(old, sizes[axis], scales[axis], coordinates)
        if mode == "nearest":
            result = np.take(result, nearest_indices(positions, old, nearest_mode), axis=axis)
        else:
            low, high, weight = linear_weights(positions, old)
            above = weight.astype(np.float64).reshape(-1, *[1] * (x.ndim - 1 - axis))
            below = 1 - above
            result = np.take(result, low, axis) * below + np.take(result, high, axis) * above
    return result.astype(x.dtype)
