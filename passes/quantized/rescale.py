"""Division of a value by a scale without an extra op: an existing scale absorbs it.

quantize(relu(x * a + dequantize(y, b, z)), s, q)
->
quantize(relu(x * (a / s) + dequantize(y, b / s, z)), 1, q)
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn.core import Array
from tessella.dialects.nn.evaluate import Constants
from tessella.passes.quantized.scales import divides, is_normal
from tessella.passes.writer import OpWriter

Make = Callable[[OpWriter, SSAValue], SSAValue]
"""A function that emits a certain value divided by a scale, and returns the quotient."""


class Rescaler:
    """The rewriter that divides values of one function by constant scales."""

    def __init__(self, constants: Constants) -> None:
        self.constants = constants

    def rescale(self, op: ew.QuantizingOp) -> None:
        """Set a quantization's scale to 1, if its operand can absorb the scale."""
        scale = self.constants.value(op.scale)
        if scale is None or not is_normal(scale):
            return
        if isinstance(op.x.owner, ew.DequantizeOp) or scale.size != 1 or (scale == 1).all():
            return
        make = self._divided(op.x, scale)
        if make is not None:
            w = OpWriter(op)
            op.operands[0] = make(w, op.scale)
            op.operands[1] = w.op(ew.DivOp, op.scale, op.scale)

    def _divided(self, value: SSAValue, scale: Array) -> Make | None:
        """Return a function that emits a value divided by a scale; None if no constant can absorb
        the scale."""
        op = value.owner
        if self._absorbs(value, scale):
            return lambda w, by: w.op(ew.DivOp, value, by)
        if isinstance(op, ew.DequantizeOp) and self._absorbs(op.scale, scale):
            x, factor, zero = op.operands
            return lambda w, by: w.op(ew.DequantizeOp, x, w.op(ew.DivOp, factor, by), zero)
        if not value.has_one_use():
            return None
        if isinstance(op, ew.MulOp):
            return self._product(op, scale)
        if isinstance(op, ew.AddOp | ew.SubOp):
            kind, parts = type(op), [self._divided(x, scale) for x in op.operands]
            first, second = parts
            if first is None or second is None:
                return None
            return lambda w, by: w.op(kind, first(w, by), second(w, by))
        if isinstance(op, ew.ReluOp | ew.LeakyReluOp):
            kind, settings = type(op), op.setting_properties
            inner = self._divided(op.operands[0], scale)
            return None if inner is None else lambda w, by: w.op(kind, inner(w, by), **settings)
        return None

    def _product(self, op: ew.BinaryOp, scale: Array) -> Make | None:
        for x, factor in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if self._absorbs(factor, scale):
                return lambda w, by, x=x, f=factor: w.op(ew.MulOp, x, w.op(ew.DivOp, f, by))
        return None

    def _absorbs(self, value: SSAValue, scale: Array) -> bool:
        return divides(self.constants.value(value), scale)
