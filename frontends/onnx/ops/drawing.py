"""Converters of random draws: graph breaks, as each call of a model draws anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.cut import CutError, Find
from tessella.frontends.onnx.model import DTYPES
from tessella.frontends.onnx.registry import converts, known_type
from tessella.frontends.onnx.tensors import element_name
from tessella.runtime.elements import dtype_name
from tessella.support.errors import InvalidModelError, ShapeError
from tessella.support.sizes import Size

_NOTE = "in NumPy; with a seed, all calls draw the same numbers"
_TYPE = known_type("dtype")


def _seed(call: Call) -> int | None:
    """Return the seed, which is a float in ONNX; None without one."""
    seed = call.attribute("seed")
    return None if seed is None else int(seed)


def _cut(
    call: Call, function: str, type: tuple[np.dtype[Any], Sequence[Size]], **settings: Any
) -> NoReturn:
    """Make a graph break at a node that draws numbers of this type and shape."""
    settings |= {"seed": _seed(call), "element": dtype_name(type[0])}
    raise CutError(call.node, Find(function, settings, [type]))


def _dtype(call: Call) -> np.dtype[Any]:
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


@converts("RandomUniform", 1, 22, _TYPE, note=_NOTE, runs="NumPy")
def random_uniform(call: Call) -> Value:
    """Draw numbers between two bounds, in a listed shape."""
    shape, bounds = _listed_shape(call), {name: call.number(name) for name in ("low", "high")}
    _cut(call, "uniform", (_dtype(call), shape), shape=shape, **bounds)


@converts("RandomUniformLike", 1, 22, _TYPE, note=_NOTE, runs="NumPy")
def random_uniform_like(call: Call) -> Value:
    """Draw numbers between two bounds, in the shape of the operand."""
    bounds = {name: call.number(name) for name in ("low", "high")}
    _cut(call, "uniform", (_dtype(call), call.x.shape), shape=None, **bounds)


@converts("RandomNormal", 1, 22, _TYPE, note=_NOTE, runs="NumPy")
def random_normal(call: Call) -> Value:
    """Draw numbers of a normal distribution, in a listed shape."""
    shape, moments = _listed_shape(call), {name: call.number(name) for name in ("mean", "scale")}
    _cut(call, "normal", (_dtype(call), shape), shape=shape, **moments)


@converts("RandomNormalLike", 1, 22, _TYPE, note=_NOTE, runs="NumPy")
def random_normal_like(call: Call) -> Value:
    """Draw numbers of a normal distribution, in the shape of the operand."""
    moments = {name: call.number(name) for name in ("mean", "scale")}
    _cut(call, "normal", (_dtype(call), call.x.shape), shape=None, **moments)


@converts("Bernoulli", 15, 22, _TYPE, note=_NOTE, runs="NumPy")
def bernoulli(call: Call) -> Value:
    """Draw 0 or 1, with the probability of 1 that an operand gives for each element."""
    _cut(call, "bernoulli", (_dtype(call), call.x.shape))


@converts("Multinomial", 7, 22, _TYPE, note=_NOTE, runs="NumPy")
def multinomial(call: Call) -> Value:
    """Make a graph break at random draws of classes for each row of logarithms of
    probabilities."""
    count, dtype = call.integer("sample_size", 1), DTYPES[element_name(call.integer("dtype"))]
    call.check_ranks(2)
    if count < 1 or call.x.shape[1] == 0:
        raise ShapeError(
            "no classes to draw",
            expected="a positive sample_size, and at least one class",
            found=f"sample_size {count}, {call.x.type}",
        )
    call.build.limited(count)
    _cut(call, "multinomial", (dtype, (call.x.shape[0], count)), count=count)


@converts("Dropout", 1, 22, note=f"in training mode {_NOTE}", runs="native or NumPy")
def dropout(call: Call) -> tuple[Value, Value]:
    """Emit Dropout, with its mask: the operand itself for inference; for training, elements that
    are drawn, divided by their share."""
    x, seed, ratio = call.x, _seed(call), _dropped(call)
    if ratio == 0:
        return x, call.build.splat(True, x.shape, np.bool_)
    types = [(x.dtype, x.shape), (np.dtype(np.bool_), x.shape)]
    raise CutError(call.node, Find("dropout", {"ratio": ratio, "seed": seed}, types, computed=(x,)))


def _dropped(call: Call) -> float:
    """Return the share of elements that Dropout drops, which is 0 for inference."""
    if call.optional(2) is None or not call.static(2, "training_mode").any():
        return 0.0
    ratio = 0.5 if call.optional(1) is None else float(call.static_number(1, "ratio"))
    if not 0 <= ratio <= 1:
        raise ShapeError("the ratio is not a share", expected="0 to 1", found=str(ratio))
    return ratio
