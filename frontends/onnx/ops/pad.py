"""Padding, which crops where it is negative."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.nn.core import dtype_of, shape_of
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.registry import converts
from tessella.support.errors import ShapeError


@converts("Pad", 1, 25, note="pads, constant_value and axes known at import")
def pad(call: Call) -> SSAValue:
    """With a constant, the edge, a mirror image or copies."""
    low, high = _amounts(call)
    mode = call.text("mode", "constant")
    x = _cropped(call, call.x, low, high)
    low, high = [max(n, 0) for n in low], [max(n, 0) for n in high]
    if not any((*low, *high)):
        return x
    value = _value(call, mode)
    if isinstance(value, float):
        return _padded(call, x, low, high, mode, value)
    # `nn.pad` has its value as a float64
    dtype = dtype_of(x.type)
    inside = call.build.splat(True, shape_of(x), np.bool)
    return call.emit(
        nn.WhereOp,
        _padded(call, inside, low, high),
        _padded(call, x, low, high),
        call.build.splat(value, (), dtype),
    )


def _padded(
    call: Call,
    x: SSAValue,
    low: Sequence[int],
    high: Sequence[int],
    mode: str = "constant",
    value: float = 0.0,
) -> SSAValue:
    return call.emit(nn.PadOp, x, low=tuple(low), high=tuple(high), mode=mode, value=value)


def _amounts(call: Call) -> tuple[list[int], list[int]]:
    """What to add before and after every dimension."""
    rank = len(shape_of(call.x))
    pads = call.integers("paddings") if call.version < 2 else call.listed("pads", 1)
    axes = call.static_ints(3, "axes") if call.optional(3) is not None else range(rank)
    axes = [front_axis(axis, rank) for axis in axes]
    if pads is None or len(pads) != 2 * len(axes) or len(set(axes)) != len(axes):
        raise ShapeError(
            "pads must be two numbers for each axis",
            expected=f"{2 * len(axes)} integers",
            found=str(list(pads or ())),
        )
    low, high = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        low[axis], high[axis] = pads[i], pads[len(axes) + i]
    return low, high


def _cropped(call: Call, x: SSAValue, low: list[int], high: list[int]) -> SSAValue:
    shape = shape_of(x)
    starts = tuple(max(-n, 0) for n in low)
    cuts = (start + max(-n, 0) for start, n in zip(starts, high, strict=True))
    sizes = tuple(size - cut for size, cut in zip(shape, cuts, strict=True))
    if sizes == shape:
        return x
    if min(sizes) < 0:
        raise ShapeError("negative pads remove more than there is", found=f"{low}, {high}")
    return call.emit(nn.SliceOp, x, starts=starts, sizes=sizes, steps=(1,) * len(shape))


def _value(call: Call, mode: str) -> float | int:
    """The number that is added; an int only where a float64 cannot hold it."""
    if mode != "constant":
        return 0.0
    if call.version < 11:
        return call.number("value")
    if call.optional(2) is None:
        return 0.0
    number = call.static_number(2, "constant_value")
    is_exact = number != number or float(number) == number
    return float(number) if is_exact else number
