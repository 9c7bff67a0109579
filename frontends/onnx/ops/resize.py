"""Converters of Resize and Upsample: to `nn.resize` if possible, otherwise to a gather or a
weighted sum for each axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tessella.dialects import nn
from tessella.dialects.nn.movement import COORDINATES
from tessella.dialects.sizes import is_static
from tessella.frontends.emitter import Value, where
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.ops.sampling import Samples, nearest, positions, reach_of, samples
from tessella.frontends.onnx.registry import converts
from tessella.support.conditions import decided
from tessella.support.decisions import differs, known
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size

CROPS = "tf_crop_and_resize"
"""The coordinate transformation that reads the operand ``roi``."""

_OF_SOME_MODES = (
    "antialias",
    "cubic_coeff_a",
    "exclude_outside",
    "extrapolation_value",
    "keep_aspect_ratio_policy",
)
"""Attributes that have no effect in some modes, or if scales are given."""

_COPIES = 8
"""The number of arrays, each as large as the resized axis, that computing its positions and weights
takes."""


@dataclass(frozen=True)
class _ResizePlan:
    """The new size and the scale of each dimension, and the modes. ``regions`` are the start and
    end of a crop as fractions of each dimension."""

    sizes: tuple[Size, ...]
    scales: tuple[float, ...]
    regions: tuple[tuple[float, float], ...]
    coordinates: str
    mode: str
    nearest: str

    def touches(self, axis: int, size: Size) -> bool:
        """Return whether the axis ``axis``, of size ``size``, changes."""
        same = self.sizes[axis] == size and self.scales[axis] == 1
        region = self.coordinates == CROPS and self.regions[axis] != (0, 1)
        return region or not same


@converts("Upsample", 1, 9, note="scales known at import")
@converts("Resize", 10, 19, note="scales, sizes and roi known at import")
def resize(call: Call) -> Value:
    """Emit a resize, in all modes."""
    call.meaningless(*_OF_SOME_MODES)
    x, plan = call.x, _plan(call)
    if not any(plan.touches(axis, size) for axis, size in enumerate(x.shape)):
        return x
    if plan.mode == "nearest":
        if call.flag("exclude_outside"):
            call.unsupported("exclude_outside is not supported with mode 'nearest'")
        return _resized(call, plan, x)
    y = _resized(call, plan, x if x.is_float else x.cast(np.float32))
    return y if x.is_float else y.op(nn.RoundOp).cast(x.dtype)


def _scaled(size: Size, scale: float) -> Size:
    """Return a size multiplied by ``scale``, rounded down."""
    return size * int(scale) if scale == int(scale) else int(known(size) * scale)


def _is_rounded(old: Size, scale: float, new: Size) -> bool:
    """Return whether the new size of an axis differs from the exact product of the old size and the
    scale."""
    if scale == int(scale):
        return differs(old * int(scale), new)
    return known(old) * scale != known(new)


def _factor(old: Size, new: Size) -> float:
    return 1.0 if new == old else known(new) / known(old)


def _check_scales(scales: Sequence[float], count: int) -> None:
    if len(scales) != count or not all(0 < scale < float("inf") for scale in scales):
        raise ShapeError(
            "scales are one positive number for each axis",
            expected=f"{count} numbers",
            found=str(list(scales)),
        )


def _numbers(call: Call, index: int, what: str) -> tuple[float, ...]:
    if call.optional(index) is None:
        return ()
    return tuple(float(x) for x in call.static(index, what).reshape(-1))


def _plan(call: Call) -> _ResizePlan:
    shape = call.x.shape
    axes = [front_axis(axis, len(shape)) for axis in call.integers("axes") or range(len(shape))]
    if len(set(axes)) != len(axes):
        raise ShapeError("an axis is given twice", expected="distinct axes", found=str(axes))
    told = _numbers(call, 2, "scales")
    sizes, scales, regions = [*shape], [1.0] * len(shape), [(0.0, 1.0)] * len(shape)
    if told:
        _check_scales(told, len(axes))
        for axis, scale in zip(axes, told, strict=True):
            sizes[axis], scales[axis] = _scaled(shape[axis], scale), scale
    else:
        _apply_sizes(call, axes, sizes, scales)
    mode = call.text("coordinate_transformation_mode")
    if mode == CROPS:
        roi = _numbers(call, 1, "roi")
        if len(roi) != 2 * len(axes):
            raise ShapeError(
                "roi has a start and an end for each axis",
                expected=f"{2 * len(axes)} numbers",
                found=str(list(roi)),
            )
        for i, axis in enumerate(axes):
            regions[axis] = (roi[i], roi[len(axes) + i])
    return _ResizePlan(
        tuple(sizes),
        tuple(scales),
        tuple(regions),
        mode,
        call.text("mode"),
        call.text("nearest_mode"),
    )


def _apply_sizes(call: Call, axes: Sequence[int], sizes: list[Size], scales: list[float]) -> None:
    shape, wanted = call.x.shape, call.static_sizes(3, "sizes")
    if len(wanted) != len(axes) or any(decided(size < 0) for size in wanted):
        raise ShapeError(
            "sizes are one number >= 0 for each axis",
            expected=f"{len(axes)} numbers",
            found=str(list(wanted)),
        )
    resized = [axis for axis, size in zip(axes, wanted, strict=True) if shape[axis] != size]
    if not all(differs(shape[axis], 0) for axis in resized):
        raise ShapeError(
            "an empty dimension cannot be resized", expected="elements", found=str(call.x.type)
        )
    factors = [_factor(shape[axis], size) for axis, size in zip(axes, wanted, strict=True)]
    policy = call.choice("keep_aspect_ratio_policy", "stretch", "not_larger", "not_smaller")
    if policy != "stretch":
        factor = min(factors) if policy == "not_larger" else max(factors)
        factors = [factor] * len(axes)
        wanted = tuple(int(known(shape[axis]) * factor + 0.5) for axis in axes)
    for axis, size, factor in zip(axes, wanted, factors, strict=True):
        sizes[axis], scales[axis] = size, factor


def _resized(call: Call, plan: _ResizePlan, x: Value) -> Value:
    if _is_plain(call, plan, x.shape):
        for axis, size in enumerate(x.shape):
            if plan.touches(axis, size) and is_static((size, plan.sizes[axis])):
                call.build.limited(plan.sizes[axis])
        return x.op(
            nn.ResizeOp,
            sizes=plan.sizes,
            scales=plan.scales,
            mode=plan.mode,
            coordinates=plan.coordinates,
            nearest_mode=plan.nearest,
        )
    for axis, size in enumerate(x.shape):
        if plan.touches(axis, size):
            x = _resized_axis(call, plan, x, axis)
    return x


def _is_plain(call: Call, plan: _ResizePlan, shape: Sequence[Size]) -> bool:
    """Return whether `nn.resize` supports this plan and the node's attributes."""
    if call.flag("antialias") or call.flag("exclude_outside"):
        return False
    # ONNX aligns the corners of the unrounded size, `nn.resize` those of the rounded one.
    scaled = zip(shape, plan.scales, plan.sizes, strict=True)
    if plan.coordinates == "align_corners" and any(_is_rounded(*column) for column in scaled):
        return False
    return plan.mode != "cubic" and plan.coordinates in COORDINATES


def _resized_axis(call: Call, plan: _ResizePlan, x: Value, axis: int) -> Value:
    old, scale = known(x.shape[axis]), plan.scales[axis]
    [new] = call.build.limited(plan.sizes[axis], copies=_COPIES)
    places = positions(plan.coordinates, old, new, scale, plan.regions[axis])
    if not np.isfinite(places).all():
        raise ShapeError(
            "roi and scales give no positions",
            expected="finite numbers",
            found=f"{plan.regions[axis]}, {scale}",
        )
    if plan.mode == "nearest":
        if call.flag("exclude_outside"):
            call.unsupported("exclude_outside is not supported with mode 'nearest'")
        y = x.gather(call.constant(nearest(places, old, plan.nearest)), axis)
    else:
        width = scale if call.flag("antialias") else 1.0
        reach = reach_of(places, mode=plan.mode, scale=width)
        call.build.limited(new, 2 * reach + 1, copies=_COPIES)
        taken = samples(
            places,
            old,
            reach,
            mode=plan.mode,
            scale=width,
            cubic=call.number("cubic_coeff_a"),
            inside=call.flag("exclude_outside"),
        )
        y = _sampled(call, x, axis, taken)
    if plan.coordinates != CROPS:
        return y
    outside = (places < 0) | (places > old - 1)
    mask = outside.reshape(-1, *[1] * (x.rank - 1 - axis))
    value = call.number("extrapolation_value")
    return where(call.constant(mask), value, y) if outside.any() else y


def _sampled(call: Call, x: Value, axis: int, taken: Samples) -> Value:
    """Emit the weighted sums of elements along one axis that ``taken`` selects.

    A matrix product would spread elements that are not finite over the whole axis.
    """
    after = (1,) * (x.rank - 1 - axis)
    weights = taken.weights.reshape(*taken.weights.shape, *after)
    parts = x.gather(call.constant(taken.indices), axis) * weights
    if not weights.all():
        parts = where(call.constant(weights != 0), parts, 0)
    return parts.sum([axis])
