"""Conversion of keys to signed integers that have the same order.

Floats: the bits of a negative number except its sign are flipped. NaN becomes the greatest integer,
and -0 becomes 0. Unsigned integers: the highest bit is flipped.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import Attribute

from tessella.dialects.arith import CASTS, CmpfOp, SelectOp
from tessella.dialects.elements import element_of, is_unsigned
from tessella.dialects.nn.core import is_float, number
from tessella.lowering.values import BlockEmitter, Val


def key_type(element: Attribute) -> IntegerType:
    """Return the integer type that represents keys of an element type."""
    return IntegerType(element_of(element).bits)


def comparable(e: BlockEmitter, key: Val, element: Attribute, *, descending: bool) -> Val:
    """Return the integer that represents a key, complemented for descending order."""
    made = _Keys(e, element, key.varying).of(key)
    if not descending:
        return made
    ones = _constant(e, -1, key_type(element), made.varying)
    return Val(e.op(arith.XOrIOp(made.ssa, ones.ssa)), made.varying)


def _constant(e: BlockEmitter, value: float, type: Attribute, varying: bool) -> Val:
    scalar = Val(e.constant(number(value, type), type))
    return Val(e.spread(scalar), True) if varying else scalar


class _Keys:
    """Emits the integers of a key or of a vector of keys."""

    def __init__(self, e: BlockEmitter, element: Attribute, varying: bool) -> None:
        self.e = e
        self.element = element
        self.varying = varying
        self.to = key_type(element)
        self.type = e.vector_type(self.to) if varying else self.to

    def of(self, key: Val) -> Val:
        if is_float(self.element):
            return self._float(key)
        if self.element == i1:
            return self._cast("arith.extui", key)
        if not is_unsigned(self.element):
            return key
        lowest = self._number(-(1 << (self.to.width.data - 1)))
        bits = self._cast("arith.bitcast", key)
        return Val(self.e.op(arith.XOrIOp(bits.ssa, lowest.ssa)), self.varying)

    def _float(self, key: Val) -> Val:
        e, width = self.e, self.to.width.data
        zero = _constant(e, 0.0, self.element, self.varying)
        positive = Val(e.op(arith.AddfOp(key.ssa, zero.ssa)), self.varying)
        bits = self._cast("arith.bitcast", positive)
        sign = e.op(arith.ShRSIOp(bits.ssa, self._number(width - 1).ssa))
        greatest = self._number((1 << (width - 1)) - 1)
        flipped = e.op(arith.AndIOp(sign, greatest.ssa))
        ordered = e.op(arith.XOrIOp(bits.ssa, flipped))
        is_nan = e.op(CmpfOp(key.ssa, key.ssa, "uno"))
        return Val(e.op(SelectOp(is_nan, greatest.ssa, ordered)), self.varying)

    def _cast(self, name: str, value: Val) -> Val:
        return Val(self.e.op(CASTS[name](value.ssa, self.type)), self.varying)

    def _number(self, value: int) -> Val:
        return _constant(self.e, value, self.to, self.varying)
