"""Factors of products: bytes, less a zero point, times a scale.

    %i = nn.cast %x to i32
    %z = nn.cast %zero to i32
    %f = nn.sub %i, %z               the factor x - zero
    %f = nn.dequantize %x, %s, %zero     the factor (x - zero) * s

The instructions that multiply bytes take unsigned numbers on one side and signed ones on the other:
``unsigned`` and ``signed`` give a factor in these, with 128 more or less in its zero point.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from xdsl.ir import SSAValue

from tessella.dialects.elements import element_of
from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn.core import NnOp, shape_of
from tessella.dialects.nn.evaluate import Constants
from tessella.dialects.nn.movement import ConcatOp
from tessella.dialects.nn.pooling import MaxPoolOp
from tessella.dialects.nn.traits import MovesElements
from tessella.passes.writer import Writer

BYTES = ("u8", "i8")
SHIFT = 128
"""The distance between a signed byte and the unsigned one of the same bits, the highest flipped."""


@dataclass(frozen=True)
class Factor:
    """(x - zero) * scale."""

    x: SSAValue
    """Bytes."""
    zero: SSAValue | None
    """An integer that broadcasts to x; None is 0."""
    scale: SSAValue | None = None
    """A float that broadcasts to x; None is 1."""

    @property
    def element(self) -> str:
        return element_of(self.x.type).name


def factor_of(value: SSAValue) -> Factor | None:
    """The factor that a value is; None for any other value."""
    op = value.owner
    if isinstance(op, ew.DequantizeOp):
        x, scale, zero = op.operands
        found = Factor(x, zero, scale)
    elif isinstance(op, ew.SubOp) and (shifted := _narrow(op.lhs)) is not None:
        found = Factor(shifted, op.rhs)
    elif (narrow := _narrow(value)) is not None:
        found = Factor(narrow, None)
    else:
        return None
    is_whole = shape_of(found.x) == shape_of(value)
    return found if is_whole and found.element in BYTES else None


def _narrow(value: SSAValue) -> SSAValue | None:
    """The bytes that a value in 32 bits was converted from."""
    op = value.owner
    if not isinstance(op, ew.CastOp) or element_of(value.type).name != "i32":
        return None
    return op.x if element_of(op.x.type).name in BYTES else None


class Bytes:
    """Factors of one function in the bytes that products take. It remembers what it has turned."""

    def __init__(self, constants: Constants) -> None:
        self.constants = constants
        self.turned: dict[SSAValue, SSAValue] = {}
        """Unsigned bytes by the signed ones that they are, plus 128."""

    def zero(self, w: Writer, factor: Factor) -> SSAValue | None:
        """The zero point in 32 bits; None if it is known to be 0."""
        if factor.zero is None:
            return None
        known = self.constants.value(factor.zero)
        return None if known is not None and not known.any() else w.cast(factor.zero, "i32")

    def unsigned(self, w: Writer, factor: Factor) -> Factor:
        """The factor with bytes of u8, and its zero point in 32 bits."""
        zero = self.zero(w, factor)
        if factor.element == "u8":
            return replace(factor, zero=zero)
        moved = w.splat(SHIFT, "i32") if zero is None else w.add(zero, SHIFT)
        return replace(factor, x=self.raised(factor.x), zero=moved)

    def signed(self, w: Writer, factor: Factor) -> Factor:
        """The factor with bytes of i8, and its zero point in 32 bits: none, if all differences are
        known and fit."""
        point = self.zero(w, factor)
        if self._fits(factor):
            wide = w.cast(factor.x, "i32")
            whole = wide if point is None else w.sub(wide, point)
            return replace(factor, x=w.cast(whole, "i8"), zero=None)
        if factor.element == "i8":
            return replace(factor, zero=point)
        lowered = w.cast(w.add(factor.x, w.splat(SHIFT, "u8")), "i8")
        moved = w.splat(-SHIFT, "i32") if point is None else w.sub(point, SHIFT)
        return replace(factor, x=lowered, zero=moved)

    def raised(self, value: SSAValue) -> SSAValue:
        """Signed bytes plus 128, as unsigned ones: made unsigned where they are quantized, if they
        only move between there and here."""
        known = self.turned.get(value)
        if known is not None:
            return known
        op = value.owner
        found = self._raised_by(op) if isinstance(op, NnOp) else None
        if found is None:
            here = Writer.behind(value, op if isinstance(op, NnOp) else None)
            found = here.add(here.cast(value, "u8"), here.splat(SHIFT, "u8"))
        self.turned[value] = found
        return found

    def _raised_by(self, op: NnOp) -> SSAValue | None:
        """The op on unsigned bytes; None where it computes with them."""
        w = Writer(op)
        if isinstance(op, ew.QuantizeOp):
            x, scale, zero = op.operands
            return w.op(ew.QuantizeOp, x, scale, w.add(w.cast(zero, "u8"), w.splat(SHIFT, "u8")))
        moves = op.get_trait(MovesElements)
        if isinstance(op, MaxPoolOp):
            moved = op.operands[:1]
        elif moves is None or moves.fills:
            return None
        else:
            moved = op.operands if isinstance(op, ConcatOp) else op.operands[:1]
        raised = [self.raised(x) for x in moved]
        others = op.operands[len(raised) :]
        return w.op(type(op), *raised, *others, **op.setting_properties)

    def _fits(self, factor: Factor) -> bool:
        """Whether all differences are known and signed bytes."""
        x = self.constants.value(factor.x)
        zero = np.int32(0) if factor.zero is None else self.constants.value(factor.zero)
        if x is None or zero is None:
            return False
        wide = x.astype(np.int32) - zero.astype(np.int32)
        return not wide.size or bool(wide.min() >= -SHIFT and wide.max() < SHIFT)
