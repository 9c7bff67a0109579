"""The converter of Pad; negative amounts crop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessella.dialects import nn
from tessella.frontends.emitter import Operand, Value, where
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.registry import converts
from tessella.runtime.texts import STRING
from tessella.support.conditions import decided
from tessella.support.decisions import decided_max, decided_zero
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size


@converts("Pad", 1, 25, note="pads, constant_value and axes known at import")
def pad(call: Call) -> Value:
    """Emit padding with a constant, the edge, a mirror image or copies of the operand."""
    low, high = _amounts(call)
    mode = call.text("mode", "constant")
    x = _cropped(call.x, low, high)
    low, high = ([decided_max(n, 0) for n in side] for side in (low, high))
    if all(map(decided_zero, (*low, *high))):
        return x
    if mode != "constant":
        return x.op(nn.PadOp, low=tuple(low), high=tuple(high), mode=mode, value=0.0)
    if x.dtype == STRING and call.optional(2) is not None:
        call.unsupported("strings are padded with empty strings alone")
    if x.is_complex and call.optional(2) is not None:
        return _filled(call, x, low, high, call.operand(2).reshape(()))
    value = 0.0 if call.optional(2) is None else call.static_number(2, "constant_value")
    if value != value or float(value) == value:
        return x.pad(low, high, float(value))
    return _filled(call, x, low, high, value)


def _filled(
    call: Call, x: Value, low: Sequence[Size], high: Sequence[Size], value: Operand
) -> Value:
    """Emit padding with a value that a float64, in which `nn.pad` stores it, does not represent."""
    inside = call.build.splat(True, x.shape, np.bool)
    return where(inside.pad(low, high), x.pad(low, high), value)


def _amounts(call: Call) -> tuple[list[Size], list[Size]]:
    """Return the amounts of padding before every dimension, and after every dimension."""
    rank, pads, axes = call.x.rank, call.listed_sizes(1, "pads"), call.listed_ints(3, "axes")
    axes = [front_axis(axis, rank) for axis in (range(rank) if axes is None else axes)]
    if pads is None or len(pads) != 2 * len(axes) or len(set(axes)) != len(axes):
        raise ShapeError(
            "pads must be two numbers for each axis",
            expected=f"{2 * len(axes)} integers",
            found=str(list(pads or ())),
        )
    low: list[Size] = [0] * rank
    high: list[Size] = [0] * rank
    for i, axis in enumerate(axes):
        low[axis], high[axis] = pads[i], pads[len(axes) + i]
    return low, high


def _cropped(x: Value, low: Sequence[Size], high: Sequence[Size]) -> Value:
    starts = [decided_max(-n, 0) for n in low]
    columns = zip(x.shape, starts, high, strict=True)
    sizes = [size - start - decided_max(-n, 0) for size, start, n in columns]
    if tuple(sizes) != x.shape and any(decided(size < 0) for size in sizes):
        raise ShapeError(
            "negative pads remove more than there is",
            expected=f"at most {list(x.shape)} elements",
            found=f"{low}, {high}",
        )
    return x.slice(starts, sizes)
