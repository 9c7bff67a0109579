"""Converters of searches in sorted rows, and of counts."""

from __future__ import annotations

import numpy as np

from tessella.dialects import nn
from tessella.frontends.emitter import Emitter, Value, where
from tessella.frontends.searching import found_places
from tessella.frontends.torch.ops.creation import filled
from tessella.frontends.torch.ops.reduction import amax, amin
from tessella.frontends.torch.promote import Operand, promoted
from tessella.frontends.torch.registry import aten
from tessella.support.sizes import product


@aten("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(
    emit: Emitter,
    ordered: Value,
    x: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    if sorter is not None:
        axis = ordered.rank - 1
        ordered = ordered.op(nn.GatherElementsOp, sorter.cast(np.int64), axis=axis)
    row, values = promoted(emit, ordered, x)
    found = found_places(row, values, side or ("right" if right else "left"))
    return found.cast(np.int32) if out_int32 else found


@aten("bucketize.Tensor", "bucketize.Scalar")
def bucketize(
    emit: Emitter, x: Operand, boundaries: Value, *, out_int32: bool = False, right: bool = False
) -> Value:
    return searchsorted(emit, boundaries, x, out_int32=out_int32, right=right)


@aten("histc")
def histc(emit: Emitter, x: Value, bins: int = 100, min: float = 0, max: float = 0) -> Value:
    values = x.flat()
    low, high = values.like(min), values.like(max)
    if min == max and product(x.shape) != 0:
        low, high = amin(emit, values), amax(emit, values)
        is_one = low.equals(high)
        low, high = where(is_one, low - 1, low), where(is_one, high + 1, high)
    place = ((values - low) * bins / (high - low)).cast(np.int64)
    place = place.op(nn.MinOp, place.like(bins - 1))
    # the elements outside the range have a bin of their own, which is dropped
    place = where((values >= low) & (values <= high), place, bins)
    counts = filled(emit, 0, (bins + 1,), x.dtype)
    ones = filled(emit, 1, values.shape, x.dtype)
    found = counts.op(nn.ScatterElementsOp, place, ones, axis=0, reduction="add")
    return found.part(0, 0, bins)
