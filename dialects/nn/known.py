"""Values that are known to be numbers or matrices."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from tessella.dialects.nn.constants import SplatOp, WeightOp, weight_array
from tessella.dialects.nn.core import Array, shape_of
from tessella.dialects.place import place_of
from tessella.runtime.elements import element_of, widened
from tessella.runtime.weights import WeightStore

_COMPARED = 64 << 10  # bytes: larger arrays are not searched for differing elements


def splat_number(value: SSAValue) -> float | int | None:
    """Return the number that all elements of an `nn.splat` equal; None if the value is not the
    result of an `nn.splat`."""
    return value.owner.number if isinstance(value.owner, SplatOp) else None


def bits_of(array: Array) -> Array:
    """Return the bit patterns of the elements as unsigned integers, for comparisons: 0 and -0
    differ, and a NaN equals itself."""
    return array.reshape(-1).view(f"u{array.itemsize}")


def common_number(array: Array) -> float | int | None:
    """Return the number that all elements of an array equal; None if elements differ, if they are
    strings or complex, or if the array is empty or too large to check."""
    element = element_of(array.dtype)
    if not 0 < array.nbytes <= _COMPARED or element is None or not element.is_real:
        return None
    bits = bits_of(array)
    if bits[0] != bits[-1] or (bits != bits[0]).any():
        return None
    return widened(array.reshape(-1)[:1]).item()


def known_number(value: SSAValue, weights: WeightStore) -> float | int | None:
    """Return the number that all elements of a splat or of a small weight equal; None if there is
    none."""
    if (number := splat_number(value)) is not None:
        return number
    array = _weight(value, weights)
    return None if array is None else common_number(array)


def known_matrix(value: SSAValue, weights: WeightStore) -> Array | None:
    """Return the matrix [M, N] of a weight of the shape [.., M, N] with leading dimensions of 1;
    None for any other value."""
    array, shape = _weight(value, weights), shape_of(value)
    if array is None or len(shape) < 2 or 0 in shape or math.prod(shape[:-2]) != 1:
        return None
    return widened(array).reshape(shape[-2:])


def _weight(value: SSAValue, weights: WeightStore) -> Array | None:
    """Return the elements of a weight that has no place yet, if the store holds them."""
    owner = value.owner
    if not isinstance(owner, WeightOp) or place_of(value.type) is not None:
        return None
    is_there = owner.symbol.root_reference.data in weights
    return weight_array(owner, weights) if is_there else None
