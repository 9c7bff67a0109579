"""Converters of random draws."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessella.dialects import nn
from tessella.dialects.nn.core import element_type
from tessella.frontends.emitter import DType, Value, where
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.model import DTYPES
from tessella.frontends.onnx.registry import converts, known_type
from tessella.frontends.onnx.tensors import element_name
from tessella.support.errors import InvalidModelError, ShapeError
from tessella.support.sizes import Size

_NOTE = "in NumPy; with a seed, all calls draw the same numbers"
_TYPE = known_type("dtype")
_EXACT = np.dtype(np.float64)
"""The element of draws that are compared with probabilities."""


def _drawn(
    call: Call, op: type[nn.DrawingOp], shape: Sequence[Size], dtype: DType, **settings: float
) -> Value:
    """Emit an op that draws numbers, with the node's seed, which is a float in ONNX."""
    seed = call.attribute("seed")
    if seed is not None and not np.isfinite(seed):
        raise InvalidModelError("a seed is not a number", expected="a finite seed", found=str(seed))
    return call.build.emit(
        op,
        shape=tuple(shape),
        to=element_type(dtype),
        seed=None if seed is None else int(seed) % (1 << 32),
        **settings,
    )[0]


def _shares(call: Call, shape: Sequence[Size]) -> Value:
    """Emit draws from 0 to 1, to be compared with probabilities."""
    return _drawn(call, nn.RandomUniformOp, shape, _EXACT, low=0.0, high=1.0)


def _dtype(call: Call) -> DType:
    """Return the type of the draws, by default that of the operand."""
    code = call.attribute("dtype")
    return call.x.dtype if code is None else DTYPES[element_name(code)]


def _listed_shape(call: Call) -> tuple[int, ...]:
    """Return the attribute ``shape``. Raises InvalidModelError if it is missing or negative."""
    shape = call.integers("shape")
    if shape is None or any(size < 0 for size in shape):
        raise InvalidModelError(
            "a draw without a shape",
            expected="an attribute 'shape' of sizes >= 0",
            found=str(shape),
        )
    return call.build.limited(*shape)


def _uniform(call: Call, shape: Sequence[Size]) -> Value:
    bounds = {name: call.number(name) for name in ("low", "high")}
    return _drawn(call, nn.RandomUniformOp, shape, _dtype(call), **bounds)


def _normal(call: Call, shape: Sequence[Size]) -> Value:
    moments = {name: call.number(name) for name in ("mean", "scale")}
    return _drawn(call, nn.RandomNormalOp, shape, _dtype(call), **moments)


@converts("RandomUniform", 1, 22, _TYPE, note=_NOTE, runs="NumPy")
def random_uniform(call: Call) -> Value:
    """Draw numbers between two bounds, in a listed shape."""
    return _uniform(call, _listed_shape(call))


@converts("RandomUniformLike", 1, 22, _TYPE, note=_NOTE, runs="NumPy")
def random_uniform_like(call: Call) -> Value:
    """Draw numbers between two bounds, in the shape of the operand."""
    return _uniform(call, call.x.shape)


@converts("RandomNormal", 1, 22, _TYPE, note=_NOTE, runs="NumPy")
def random_normal(call: Call) -> Value:
    """Draw numbers of a normal distribution, in a listed shape."""
    return _normal(call, _listed_shape(call))


@converts("RandomNormalLike", 1, 22, _TYPE, note=_NOTE, runs="NumPy")
def random_normal_like(call: Call) -> Value:
    """Draw numbers of a normal distribution, in the shape of the operand."""
    return _normal(call, call.x.shape)


@converts("Bernoulli", 15, 22, _TYPE, note=_NOTE, runs="NumPy")
def bernoulli(call: Call) -> Value:
    """Draw 0 or 1, with the probability of 1 that an operand gives for each element."""
    return (_shares(call, call.x.shape) < call.x.cast(_EXACT)).cast(_dtype(call))


@converts("Multinomial", 7, 22, _TYPE, note=_NOTE, runs="NumPy")
def multinomial(call: Call) -> Value:
    """Draw classes for each row of logarithms of probabilities."""
    count, dtype = call.integer("sample_size", 1), DTYPES[element_name(call.integer("dtype"))]
    call.check_ranks(2)
    if count < 1 or call.x.shape[1] == 0:
        raise ShapeError(
            "no classes to draw",
            expected="a positive sample_size, and at least one class",
            found=f"sample_size {count}, {call.x.type}",
        )
    draws = _shares(call, (call.x.shape[0], *call.build.limited(count)))
    return call.x.op(nn.ChooseClassesOp, draws).cast(dtype)


@converts("Dropout", 1, 22, note=f"in training mode {_NOTE}", runs="native or NumPy")
def dropout(call: Call) -> tuple[Value, Value]:
    """Emit Dropout, with its mask: the operand itself for inference; for training, elements that
    are drawn, divided by their share."""
    x, ratio = call.x, _dropped(call)
    if ratio == 0:
        call.meaningless("seed")
        return x, call.build.splat(True, x.shape, np.bool_)
    mask = _shares(call, x.shape) >= ratio
    return where(mask, x / (1 - ratio) if ratio < 1 else x, 0), mask


def _dropped(call: Call) -> float:
    """Return the share of elements that Dropout drops, which is 0 for inference."""
    if call.optional(2) is None or not call.static(2, "training_mode").any():
        return 0.0
    ratio = 0.5 if call.optional(1) is None else float(call.static_number(1, "ratio"))
    if not 0 <= ratio <= 1:
        raise ShapeError("the ratio is not a share", expected="0 to 1", found=str(ratio))
    return ratio
