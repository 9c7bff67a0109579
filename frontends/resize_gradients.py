"""Gradients of resizes: products with the matrices of the weights that elements have in the
result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tessella.dialects import nn
from tessella.frontends.emitter import Array, Value
from tessella.runtime.host.movement import (
    linear_weights,
    nearest_indices,
    resize_positions,
    resized_axes,
)
from tessella.support.decisions import known_all
from tessella.support.sizes import Size, product

MOST_WEIGHTS = 1 << 20
"""The largest product of the sizes of a resized dimension for which a gradient is computed."""


def has_gradient(op: nn.NnOp, shape: Sequence[Size]) -> bool:
    """Return whether the gradient of `nn.resize` of a tensor of this shape is computed."""
    pairs = zip(known_all(shape), op.settings["sizes"], strict=True)
    return all(old == new or old * new <= MOST_WEIGHTS for old, new in pairs)


def of_resized(op: nn.NnOp, shape: Sequence[Size], gradient: Value) -> Value:
    """Emit the gradient of the operand of `nn.resize`, which has this shape."""
    settings, sizes = op.settings, known_all(shape)
    axes = resized_axes(sizes, settings["sizes"], settings["scales"])
    for axis in reversed(axes):  # those that shrink most come first
        gradient = collected(gradient, axis, _weights(settings, sizes[axis], axis))
    return gradient


def _weights(settings: Mapping[str, Any], old: int, axis: int) -> Array:
    """Return the weight [new, old] of each element of a resized dimension in each of the result."""
    new: int = settings["sizes"][axis]
    places = resize_positions(old, new, settings["scales"][axis], settings["coordinates"])
    found, rows = np.zeros((new, old)), np.arange(new)
    if settings["mode"] == "nearest":
        found[rows, nearest_indices(places, old, settings["nearest_mode"])] = 1
        return found
    low, high, above = linear_weights(places, old)
    np.add.at(found, (rows, low), 1 - above.astype(np.float64))
    np.add.at(found, (rows, high), above)
    return found


def collected(gradient: Value, axis: int, weights: Array) -> Value:
    """Emit the product of a gradient, along an axis, and the matrix weights[new, old]."""
    before, after = gradient.shape[:axis], gradient.shape[axis + 1 :]
    new, old = weights.shape
    if axis == gradient.rank - 1:
        return gradient @ gradient.like(weights)
    rows = gradient.reshape((product(before), new, product(after)))
    return (gradient.like(weights.T) @ rows).reshape((*before, old, *after))
