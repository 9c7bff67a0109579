"""Attributes that convolutions and poolings share: kernel, strides, dilations and padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call
from tessella.frontends.shapes import same_padding, split_padding
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size


@dataclass(frozen=True)
class SpatialWindow:
    """A window that moves over spatial dimensions. ``pads`` lists the padding before each
    dimension, then after each."""

    kernel: tuple[Size, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[Size, ...]


def window(call: Call, kernel: Sequence[Size], sizes: Sequence[Size]) -> SpatialWindow:
    """Return the window of a node over spatial dimensions of these sizes, with the padding that its
    attributes select."""
    rank = len(sizes)
    check_length("kernel_shape", kernel, rank)
    strides, dilations = (_per_axis(call, name, rank) for name in ("strides", "dilations"))
    mode = call.choice("auto_pad", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
    if mode != "NOTSET":
        call.meaningless("pads")
    if mode.startswith("SAME"):
        columns = zip(sizes, kernel, strides, dilations, strict=True)
        totals = [same_padding(*column) for column in columns]
        pads = split_padding(totals, more_before=mode == "SAME_LOWER")
    else:
        pads = call.integers("pads") if mode == "NOTSET" else None
        pads = pads or (0,) * (2 * rank)
    check_length("pads", pads, 2 * rank)
    return SpatialWindow(tuple(kernel), strides, dilations, pads)


def kernel_of(call: Call, w: Value) -> tuple[Size, ...]:
    """Return the spatial sizes of a weight. Raises ShapeError if the attribute ``kernel_shape``
    differs."""
    kernel, told = w.shape[2:], call.integers("kernel_shape")
    if told and told != kernel:
        raise ShapeError(
            "attribute 'kernel_shape' does not fit the weight",
            expected=str(list(kernel)),
            found=str(list(told)),
        )
    return kernel


def check_length(name: str, values: Sequence[Size], length: int) -> None:
    """Raise ShapeError unless an attribute has this many values."""
    if len(values) != length:
        raise ShapeError(
            f"attribute {name!r} has the wrong length",
            expected=f"{length} integers",
            found=str(list(values)),
        )


def _per_axis(call: Call, name: str, rank: int) -> tuple[int, ...]:
    values = call.integers(name) or (1,) * rank
    check_length(name, values, rank)
    if min(values, default=1) < 1:
        raise ShapeError(
            f"attribute {name!r} is not positive", expected=">= 1", found=str(list(values))
        )
    return values
