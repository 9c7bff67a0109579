"""Move dequantizations down and quantizations up, past ops that only move elements, until they
meet.

    %1 = nn.dequantize %a, %s, %z : f32
    %2 = nn.transpose %1 : f32
    %3 = nn.max_pool %2 : f32
    %4 = nn.quantize %3, %s, %z : u8
    ->
    %2 = nn.transpose %a : u8
    %4 = nn.max_pool %2 : u8

A dequantization moves behind an op that only moves elements, and behind a maximum or a padding with
0 if its scale is positive and finite. Dequantizations move behind a concat if they are all of its
operands and have equal parameters.

A quantization moves before a reshape, a transpose, a channel shuffle or a max pool, if no other op
reads the operand or the result of that op. It moves before a concat whose result has no other use;
then each operand is quantized.

A quantization directly after a dequantization with equal parameters cancels it. A clip that the
range of the quantized numbers implies is dropped:

    quantize(relu(x), s, 0) : u8  ->  quantize(x, s, 0)

All of these rules are exact, except that a max pool of quantized numbers has no NaN: it takes the
least number in its place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from tessella.dialects.elements import element_of
from tessella.dialects.graph import weights_of
from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn.core import Array, NnOp, PyValue, shape_of
from tessella.dialects.nn.evaluate import Constants
from tessella.dialects.nn.movement import (
    ChannelShuffleOp,
    ConcatOp,
    PadOp,
    ReshapeOp,
    ResizeOp,
    TransposeOp,
)
from tessella.dialects.nn.pooling import MaxPoolOp
from tessella.dialects.nn.reduction import ReduceMaxOp, ReduceMinOp
from tessella.dialects.nn.traits import MovesElements
from tessella.passes.base import functions
from tessella.passes.kinds import ProgramPass
from tessella.passes.quantized.scales import is_normal
from tessella.passes.writer import OpWriter, drop, replace
from tessella.runtime.host.values import limits_of
from tessella.runtime.weights import WeightStore

MAX_ROUNDS = 64
"""The maximum number of rounds, a safety limit: each round moves a conversion past at least
one op."""

_MAXIMA = (MaxPoolOp, ReduceMaxOp, ReduceMinOp)
"""Ops whose results are elements of their operand, selected by order."""
_WHOLE = (ReshapeOp, TransposeOp, ChannelShuffleOp, MaxPoolOp)
"""Ops that quantizations may move before: they drop no computed element and add none."""


@dataclass(frozen=True)
class MoveQuantizationPass(ProgramPass):
    """Move conversions to and from quantized numbers until they meet."""

    name = "move-quantization"
    stages = ("nn", "placed")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            mover = _Mover(weights_of(ctx))
            for _ in range(MAX_ROUNDS):
                ops = [inner for inner in function.body.block.ops if isinstance(inner, NnOp)]
                moved = [mover.visit(inner) for inner in ops if not inner.is_fixed]
                if not any(moved):
                    break


class _Mover:
    """Moves the conversions of one function."""

    def __init__(self, weights: WeightStore) -> None:
        self.constants = Constants(weights)

    def visit(self, op: NnOp) -> bool:
        """Apply the rules for an op. Returns whether one of them changed the program."""
        if not op.results or all(result.first_use is None for result in op.results):
            return False
        if isinstance(op, ew.QuantizeOp):
            return self._meet(op) or self._unclip(op) or self._up(op)
        return self._down(op)

    # ** dequantizations **

    def _down(self, op: NnOp) -> bool:
        """Rewrite op(dequantize(x)) to dequantize(op(x))."""
        if isinstance(op, ConcatOp):
            return self._concat_down(op)
        source = op.operands[0].owner if op.operands else None
        if not isinstance(source, ew.DequantizeOp) or element_of(source.x.type).bits > 8:
            return False
        settings = self._settings(op, source)
        if settings is None:
            return False
        w = OpWriter(op)
        scale, zero = source.scale, source.zero
        if isinstance(op, TransposeOp):
            scale, zero = (_transposed(w, op, v) for v in (scale, zero))
        elif not _is_scalar(scale, zero):
            return False
        moved = w.op(type(op), source.x, *op.operands[1:], **settings)
        replace(op, w.op(ew.DequantizeOp, moved, scale, zero))
        return True

    def _settings(self, op: NnOp, source: ew.DequantizingOp) -> Mapping[str, PyValue] | None:
        """Return the settings with which an op does the same on the integers as on the dequantized
        numbers; None if it cannot run on integers."""
        if isinstance(op, PadOp) and op.settings["mode"] == "constant":
            zero = self.constants.value(source.zero)
            if op.settings["value"] != 0 or zero is None or zero.size != 1:
                return None
            if not self._is_normal(source.scale):
                return None
            return {**op.settings, "value": float(zero.reshape(-1)[0])}
        is_pad = isinstance(op, PadOp)
        return op.settings if is_pad or self._keeps_order(op, source.scale) else None

    def _keeps_order(self, op: NnOp, scale: SSAValue) -> bool:
        """Return whether an op only selects or moves elements, and selects the same ones if all are
        multiplied by the scale."""
        if isinstance(op, _MAXIMA):
            return _is_scalar(scale) and self._is_normal(scale)
        if isinstance(op, ResizeOp):
            return op.settings["mode"] == "nearest"
        moves = op.get_trait(MovesElements)
        return moves is not None and not moves.fills

    def _concat_down(self, op: ConcatOp) -> bool:
        sources = [x.owner for x in op.operands]
        first = sources[0]
        if not isinstance(first, ew.DequantizeOp) or not _is_scalar(first.scale, first.zero):
            return False
        parts: list[SSAValue] = []
        for source in sources:
            if not isinstance(source, ew.DequantizeOp) or not self._equal(source, first):
                return False
            parts.append(source.x)
        w = OpWriter(op)
        moved = w.op(ConcatOp, *parts, **op.setting_properties)
        replace(op, w.op(ew.DequantizeOp, moved, first.scale, first.zero))
        return True

    # ** quantizations **

    def _meet(self, op: ew.QuantizingOp) -> bool:
        """Rewrite quantize(dequantize(x, s, z), s, z) to x."""
        source = op.x.owner
        if not isinstance(source, ew.DequantizeOp) or source.x.type != op.res.type:
            return False
        if not self._equal(source, op) or not self._is_normal(op.scale):
            return False
        replace(op, source.x)
        return True

    def _up(self, op: ew.QuantizingOp) -> bool:
        """Rewrite quantize(op(x)) to op(quantize(x))."""
        source = op.x.owner
        if not isinstance(source, NnOp) or not op.x.has_one_use():
            return False
        if not _is_scalar(op.scale, op.zero):
            return False
        if not isinstance(source, (*_WHOLE, ConcatOp)):
            return False
        if not isinstance(source, ConcatOp) and not source.operands[0].has_one_use():
            return False
        if isinstance(source, MaxPoolOp) and not self._is_normal(op.scale):
            return False
        w = OpWriter(op)
        parts = [w.op(ew.QuantizeOp, x, op.scale, op.zero) for x in source.operands]
        replace(op, w.op(type(source), *parts, **source.setting_properties))
        return True

    def _unclip(self, op: ew.QuantizingOp) -> bool:
        """Rewrite quantize(clip(x)) to quantize(x), if the clip's bounds are quantized to the ends
        of the range."""
        source = op.x.owner
        if not isinstance(source, ew.ReluOp | ew.ClipOp):
            return False
        low, high = source.settings.get("low", 0.0), source.settings.get("high", math.inf)
        scale, zero = (self.constants.value(x) for x in (op.scale, op.zero))
        if scale is None or zero is None or not self._is_normal(op.scale):
            return False
        least, most = limits_of(element_of(op.zero.type))
        ends = [_quantized(np.full(1, x, scale.dtype), scale, zero) for x in (low, high)]
        if not ((ends[0] == least).all() and (ends[1] == most).all()):
            return False
        op.operands[0] = source.x
        if source.res.first_use is None:
            drop(source)
        return True

    # ** parameters **

    def _is_normal(self, scale: SSAValue) -> bool:
        return is_normal(self.constants.value(scale))

    def _equal(self, a: NnOp, b: NnOp) -> bool:
        """Return whether the scales and zero points of two conversions are equal."""
        return all(self._same(x, y) for x, y in zip(a.operands[1:], b.operands[1:], strict=True))

    def _same(self, x: SSAValue, y: SSAValue) -> bool:
        if x is y:
            return True
        known = [self.constants.value(v) for v in (x, y)]
        return (
            known[0] is not None
            and known[1] is not None
            and known[0].dtype == known[1].dtype
            and known[0].shape == known[1].shape
            and bool((known[0] == known[1]).all())
        )


def _quantized(x: Array, scale: Array, zero: Array) -> Array:
    with np.errstate(all="ignore"):
        return ew.ROWS["quantize"].function(x, scale, zero)


def _is_scalar(*values: SSAValue) -> bool:
    return all(not shape_of(value) for value in values)


def _transposed(w: OpWriter, op: TransposeOp, value: SSAValue) -> SSAValue:
    """Return a scale or zero point of a transpose's result, reordered so that it broadcasts to the
    transpose's operand in the same way."""
    shape, perm = shape_of(value), op.settings["perm"]
    if not shape:
        return value
    whole = w.shaped(value, (*[1] * (len(perm) - len(shape)), *shape))
    return w.op(TransposeOp, whole, perm=perm)
