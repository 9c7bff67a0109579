"""Sizes of tensors and statements as numbers, for cost estimates. Symbolic sizes have the values
that `estimated` returns."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from tessella.dialects.elements import bytes_of
from tessella.dialects.nn.core import shape_of, tensor_type
from tessella.dialects.tile import Index
from tessella.support.sizes import estimated, product


def bytes_in(value: SSAValue | TensorType) -> int:
    """Return the bytes of a tensor."""
    return estimated(bytes_of(tensor_type(value)))


def count_of(value: SSAValue) -> int:
    """Return the number of elements of a tensor."""
    return estimated(product(shape_of(value)))


def shape_in(value: SSAValue) -> tuple[int, ...]:
    """Return the shape of a tensor."""
    return tuple(map(estimated, shape_of(value)))


def points(indices: Iterable[Index]) -> int:
    """Return the number of points of an index space."""
    return prod(estimated(index.range) for index in indices if not index.scattered)
