"""Discrete Fourier transforms, as matrix products with cosines and sines."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.nn.core import shape_of
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.ops.movement import part
from tessella.frontends.onnx.registry import converts
from tessella.support.errors import ShapeError


@converts("DFT", 17, 20, note="dft_length and axis known at import")
def dft(call: Call) -> SSAValue:
    """Forward or inverse, of all frequencies or half of them."""
    x, shape = call.x, shape_of(call.x)
    if len(shape) < 2 or shape[-1] not in (1, 2):
        raise ShapeError("the last dimension must hold real and imaginary parts", found=str(shape))
    axis = call.static_int(2, "axis") if call.optional(2) is not None else call.attribute("axis")
    axis = front_axis(-2 if axis is None else axis, len(shape))
    if axis == len(shape) - 1:
        raise ShapeError(
            "axis must not be the dimension of real and imaginary parts", found=str(axis)
        )
    inverse, half = call.flag("inverse"), call.flag("onesided")
    length = 2 * (shape[axis] - 1) if inverse and half else shape[axis]
    if call.optional(1) is not None:
        length = call.static_int(1, "dft_length")
    if length < 1:
        raise ShapeError("a transform of no elements", found=str(length))
    perm = [d for d in range(len(shape)) if d not in (axis, len(shape) - 1)]
    perm += [axis, len(shape) - 1]
    rows = call.transpose(x, perm)
    y = (
        _inverse_half(call, rows, length)
        if inverse and half
        else _transformed(call, rows, length, inverse=inverse, half=half)
    )
    return call.transpose(y, [perm.index(d) for d in range(len(shape))])


def _parts(call: Call, x: SSAValue) -> list[SSAValue]:
    """Real and, where there is one, imaginary part of [.., n, 1 or 2], as matrices [.., 1, n]."""
    axis, shape = len(shape_of(x)) - 1, shape_of(x)
    return [
        call.reshape(part(call, x, axis, i, 1), (*shape[:-2], 1, shape[-2]))
        for i in range(shape[-1])
    ]


def _angles(call: Call, n: int, m: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines [n, m] of all products of indices."""
    call.build.check_made(n, m)
    # the product is reduced first, as a large angle would lose digits
    angles = 2 * np.pi * (np.outer(np.arange(n), np.arange(m)) % length) / length
    return np.cos(angles), np.sin(angles)


def _transformed(
    call: Call, x: SSAValue, length: int, *, inverse: bool = False, half: bool = False
) -> SSAValue:
    """The transform of [.., n, 1 or 2] over n, cut or filled up with zeros to ``length``."""
    shape = shape_of(x)
    n = min(shape[-2], length)
    x = part(call, x, len(shape) - 2, 0, n)
    m = length // 2 + 1 if half else length
    cosines, sines = _angles(call, n, m, length)
    scale, sign = (1 / length, 1) if inverse else (1, -1)
    cos, sin = (call.constant_like(t * scale, x) for t in (cosines, sign * sines))

    def times(value: SSAValue, matrix: SSAValue) -> SSAValue:
        return call.emit(nn.MatmulOp, value, matrix, transpose_b=False)

    real, *imaginary = _parts(call, x)
    re, im = times(real, cos), times(real, sin)
    if imaginary:
        re = call.sub(re, times(imaginary[0], sin))
        im = call.add(im, times(imaginary[0], cos))
    both = [call.reshape(v, (*shape[:-2], m, 1)) for v in (re, im)]
    return call.emit(nn.ConcatOp, *both, axis=len(shape) - 1)


def _inverse_half(call: Call, x: SSAValue, length: int) -> SSAValue:
    """The real signal of ``length`` elements that half of a spectrum [.., n, 2] stands for."""
    shape = shape_of(x)
    n = min(shape[-2], length // 2 + 1)
    x = part(call, x, len(shape) - 2, 0, n)
    cosines, sines = _angles(call, n, length, length)
    # each frequency stands for its mirror image too, but for the first, and the middle if even
    twice = np.full((n, 1), 2.0)
    twice[0] = 1
    if length % 2 == 0 and n == length // 2 + 1:
        twice[-1] = 1
    real, *imaginary = _parts(call, x)
    matrices = [twice * cosines / length, -twice * sines / length]
    terms = [
        call.emit(nn.MatmulOp, value, call.constant_like(m, x), transpose_b=False)
        for value, m in zip([real, *imaginary], matrices, strict=False)
    ]
    total = terms[0] if len(terms) == 1 else call.add(*terms)
    return call.reshape(total, (*shape[:-2], length, 1))


@converts("STFT", 17, 17, note="frame_step and frame_length known at import")
def stft(call: Call) -> SSAValue:
    """Frames [B, frames, n] of the signal, times the window, transformed."""
    x, window = call.x, call.optional(2)
    if len(shape_of(x)) == 2:
        x = call.reshape(x, (*shape_of(x), 1))
    if len(shape_of(x)) != 3 or shape_of(x)[2] not in (1, 2):
        raise ShapeError("a signal must be [batch, length, 1 or 2]", found=str(x.type))
    _, size, width = shape_of(x)
    step = call.static_int(1, "frame_step")
    length = shape_of(window)[0] if window is not None and shape_of(window) else size
    if call.optional(3) is not None:
        length = call.static_int(3, "frame_length")
    if step < 1 or not 1 <= length <= size:
        raise ShapeError("frames do not fit the signal", found=f"{size}, {length} by {step}")
    if window is not None and shape_of(window) != (length,):
        raise ShapeError("the window is not as long as a frame", found=str(window.type))
    count = (size - length) // step + 1
    call.build.check_made(count, length)
    indices = np.arange(count).reshape(-1, 1) * step + np.arange(length)
    frames = call.emit(nn.GatherOp, x, call.constant(indices), axis=1)
    if window is not None:
        frames = call.mul(frames, call.reshape(window, (length, 1)))
    return _transformed(call, frames, length, half=call.flag("onesided") and width == 1)
