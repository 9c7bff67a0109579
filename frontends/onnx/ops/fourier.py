"""Converters of discrete Fourier transforms, to matrix products with cosines and sines, and of the
weights of a mel scale."""

from __future__ import annotations

import functools
import math
import operator

import numpy as np

from tessella.frontends.emitter import Value, concat
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.model import DTYPES
from tessella.frontends.onnx.registry import converts, known_type
from tessella.frontends.onnx.tensors import element_name
from tessella.runtime.elements import converted
from tessella.support.conditions import decided
from tessella.support.decisions import decided_min, known
from tessella.support.errors import ShapeError


@converts("DFT", 17, 20, note="dft_length and axis known at import")
def dft(call: Call) -> Value:
    """Emit a discrete Fourier transform along an axis: forward or inverse, of all frequencies or of
    one half."""
    x, shape = call.x, call.x.shape
    if len(shape) < 2 or shape[-1] not in (1, 2):
        raise ShapeError(
            "the last dimension must hold real and imaginary parts",
            expected="[.., 1 or 2]",
            found=str(shape),
        )
    axis = -2 if call.optional(2) is None else call.static_int(2, "axis")
    axis = front_axis(axis, len(shape))
    if axis == len(shape) - 1:
        raise ShapeError(
            "axis must not be the dimension of real and imaginary parts", found=str(axis)
        )
    inverse, half = call.flag("inverse"), call.flag("onesided")
    if call.optional(1) is not None:
        length = call.static_int(1, "dft_length")
    else:
        length = known(2 * (shape[axis] - 1) if inverse and half else shape[axis])
    if length < 1:
        raise ShapeError("a transform of no elements", expected="a length >= 1", found=str(length))
    perm = [d for d in range(len(shape)) if d not in (axis, len(shape) - 1)]
    perm += [axis, len(shape) - 1]
    rows = x.transpose(perm)
    y = (
        _inverse_half(call, rows, length)
        if inverse and half
        else _transformed(call, rows, length, inverse=inverse, half=half)
    )
    return y.transpose([perm.index(d) for d in range(len(shape))])


def _parts(x: Value) -> list[Value]:
    """Return the real part and, if present, the imaginary part of [.., n, 1 or 2], as matrices [..,
    1, n]."""
    *batch, n, parts = x.shape
    return [x.part(x.rank - 1, i, 1).reshape((*batch, 1, n)) for i in range(known(parts))]


def _angles(call: Call, n: int, m: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the cosines and the sines [n, m] of 2 pi i j / ``length`` for all i < n and j < m."""
    call.build.limited(n, m)
    # The product of the indices is reduced modulo ``length`` first, as a large angle would lose
    # digits.
    angles = 2 * np.pi * (np.outer(np.arange(n), np.arange(m)) % length) / length
    return np.cos(angles), np.sin(angles)


def _transformed(
    call: Call, x: Value, length: int, *, inverse: bool = False, half: bool = False
) -> Value:
    """Emit the transform of [.., n, 1 or 2] over n, truncated or zero-padded to ``length``."""
    batch = x.shape[:-2]
    n = known(decided_min(x.shape[-2], length))
    x = x.part(x.rank - 2, 0, n)
    m = length // 2 + 1 if half else length
    cosines, sines = _angles(call, n, m, length)
    scale, sign = (1 / length, 1) if inverse else (1, -1)
    cos, sin = (x.like(t * scale) for t in (cosines, sign * sines))
    real, *imaginary = _parts(x)
    re, im = real @ cos, real @ sin
    if imaginary:
        re = re - imaginary[0] @ sin
        im = im + imaginary[0] @ cos
    return concat([v.reshape((*batch, m, 1)) for v in (re, im)], x.rank - 1)


def _inverse_half(call: Call, x: Value, length: int) -> Value:
    """Emit the inverse transform of half a spectrum [.., n, 2] to a real signal of ``length``
    elements."""
    batch = x.shape[:-2]
    n = known(decided_min(x.shape[-2], length // 2 + 1))
    x = x.part(x.rank - 2, 0, n)
    cosines, sines = _angles(call, n, length, length)
    # Each frequency also stands for its mirror image, except the first one, and the middle one if
    # ``length`` is even.
    twice = np.full((n, 1), 2.0)
    twice[0] = 1
    if length % 2 == 0 and n == length // 2 + 1:
        twice[-1] = 1
    matrices = [twice * cosines / length, -twice * sines / length]
    terms = [value @ x.like(m) for value, m in zip(_parts(x), matrices, strict=False)]
    return functools.reduce(operator.add, terms).reshape((*batch, length, 1))


@converts("STFT", 17, 17, note="frame_step and frame_length known at import")
def stft(call: Call) -> Value:
    """Emit the short-time Fourier transform: frames [B, frames, n] of the signal, windowed and
    transformed."""
    x, window = call.x, call.optional(2)
    if x.rank == 2:
        x = x.column()
    if x.rank != 3 or x.shape[2] not in (1, 2):
        raise ShapeError("a signal must be [batch, length, 1 or 2]", found=str(x.type))
    _, size, width = x.shape
    step = call.static_int(1, "frame_step")
    if call.optional(3) is not None:
        length = call.static_int(3, "frame_length")
    else:
        length = known(window.shape[0] if window is not None and window.rank else size)
    if step < 1 or length < 1 or decided(length > size):
        raise ShapeError(
            "frames do not fit the signal",
            expected=f"a frame_step >= 1, and a frame_length in [1, {size}]",
            found=f"frame_step {step}, frame_length {length}",
        )
    if window is not None and window.shape != (length,):
        raise ShapeError(
            "the window is not as long as a frame", expected=f"{length}", found=str(window.type)
        )
    count, _ = call.build.limited((size - length) // step + 1, length)
    indices = np.arange(count).reshape(-1, 1) * step + np.arange(length)
    frames = x.gather(call.constant(indices), 1)
    if window is not None:
        frames = frames * window.reshape((length, 1))
    return _transformed(call, frames, length, half=call.flag("onesided") and width == 1)


_EDGES = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")


@converts(
    "MelWeightMatrix",
    17,
    17,
    known_type("output_datatype"),
    note="operands known at import",
    runs="at import",
)
def mel_weight_matrix(call: Call) -> Value:
    """Emit the weights [frequencies, bins] that turn a spectrum into one on the mel scale: a
    triangle for each bin, between the centers of its neighbours."""
    bins, length, rate, low, high = (call.static_number(i, name) for i, name in enumerate(_EDGES))
    if bins < 1 or length < 1 or rate <= 0 or not -700 < low <= high < math.inf:
        raise ShapeError(
            "not a mel scale",
            expected="num_mel_bins, dft_length and sample_rate > 0, and edges in ascending order",
            found=f"{bins}, {length}, {rate}, {low} and {high}",
        )
    height, width = call.build.limited(int(length) // 2 + 1, int(bins), copies=4)
    mels = np.linspace(_mel(low), _mel(high), width + 2, endpoint=False)
    hertz = 700 * np.expm1(mels / 2595 * math.log(10))
    points = (length + 1) * hertz // rate
    left, center, right = points[:-2], points[1:-1], points[2:]
    places = np.arange(height).reshape(-1, 1)
    rising = (places - left) / np.maximum(center - left, 1)
    rising = np.where(center == left, places == center, rising)
    falling = (right - places) / np.maximum(right - center, 1)
    weights = np.select(
        [(places >= center) & (places < right), (places >= left) & (places <= center)],
        [falling, rising],
    )
    dtype = DTYPES[element_name(call.integer("output_datatype"))]
    return call.constant(converted(weights, dtype))


def _mel(hertz: float) -> float:
    return 2595 * math.log10(1 + hertz / 700)
