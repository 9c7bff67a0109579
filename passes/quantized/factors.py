"""Factors of products: bytes, minus a zero point, times a scale.

    %i = nn.cast %x to i32
    %z = nn.cast %zero to i32
    %f = nn.sub %i, %z               the factor x - zero
    %f = nn.dequantize %x, %s, %zero     the factor (x - zero) * s

Instructions multiply bytes of certain sign types. ``Bytes.first`` and ``Bytes.second`` return a
factor with bytes of these types: a conversion adds 128 to the bytes and the zero point, or
subtracts it.
"""

from __future__ import annotations

from collections.abc import Sequence
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
from tessella.passes.writer import OpWriter
from tessella.targets.instructions import Elements

BYTES = ("u8", "i8")
SHIFT = 128
"""The difference between a signed byte and the unsigned byte with the highest bit flipped."""


@dataclass(frozen=True)
class Factor:
    """An operand of a product, as bytes with a zero point and a scale: (x - zero) * scale."""

    x: SSAValue
    """The bytes."""
    zero: SSAValue | None
    """An integer that broadcasts to x; None for 0."""
    scale: SSAValue | None = None
    """A float that broadcasts to x; None for 1."""

    @property
    def element(self) -> str:
        return element_of(self.x.type).name


def factor_of(value: SSAValue) -> Factor | None:
    """Return an operand of a product as bytes with a zero point and a scale; None if it is not
    computed from bytes."""
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
    """Return the bytes that a 32-bit value was converted from; None if it is not a conversion of
    bytes."""
    op = value.owner
    if not isinstance(op, ew.CastOp) or element_of(value.type).name != "i32":
        return None
    return op.x if element_of(op.x.type).name in BYTES else None


def flipped(w: OpWriter, value: SSAValue) -> SSAValue:
    """Flip the highest bit of bytes, which changes their sign type and adds or subtracts 128."""
    if element_of(value.type).name == "i8":
        return w.add(w.cast(value, "u8"), w.splat(SHIFT, "u8"))
    return w.cast(w.add(value, w.splat(SHIFT, "u8")), "i8")


class Bytes:
    """Conversions of factors to the byte types that products take, for one function. Converted
    bytes are cached."""

    def __init__(self, constants: Constants) -> None:
        self.constants = constants
        self.turned: dict[SSAValue, SSAValue] = {}
        """The converted bytes of the other sign type, by the original bytes."""

    def pair(self, a: Factor, b: Factor, pairs: Sequence[Elements]) -> Elements:
        """Return the pair of byte types for which a product takes the least additional work.

        The fewest zero points of second factors come first, as these require sums of activations;
        then the fewest conversions of bytes.
        """

        without_zero = {"i8"} if self._fits(b) else set[str]()
        without_zero |= {b.element} if self.is_zero(b) else set[str]()
        is_known = self.constants.value(b.x) is not None

        def beside(pair: Elements) -> tuple[bool, bool, bool]:
            first, second = pair
            turns = second != b.element and not is_known
            return second not in without_zero, first != a.element, turns

        return min(pairs, key=beside)

    def is_zero(self, factor: Factor) -> bool:
        """Return whether the zero point is known to be 0."""
        known = None if factor.zero is None else self.constants.value(factor.zero)
        return factor.zero is None or (known is not None and not known.any())

    def zero(self, w: OpWriter, factor: Factor) -> SSAValue | None:
        """Return the zero point in 32 bits; None if it is known to be 0."""
        if factor.zero is None or self.is_zero(factor):
            return None
        return w.cast(factor.zero, "i32")

    def first(self, w: OpWriter, factor: Factor, element: str) -> Factor:
        """Return the first factor of a product with bytes of the type ``element``, and its zero
        point in 32 bits.

        Bytes of the other sign type are produced by their quantization, where that is possible.
        """
        if factor.element == element:
            return replace(factor, zero=self.zero(w, factor))
        return replace(factor, x=self.other(factor.x), zero=self._moved(w, factor, element))

    def second(self, w: OpWriter, factor: Factor, element: str) -> Factor:
        """Return the second factor of a product with bytes of the type ``element``, and its zero
        point in 32 bits.

        If ``element`` is i8 and all differences from the zero point are known to fit into it, the
        differences become the bytes, and there is no zero point.
        """
        if element == "i8" and self._fits(factor):
            point = self.zero(w, factor)
            wide = w.cast(factor.x, "i32")
            whole = wide if point is None else w.sub(wide, point)
            return replace(factor, x=w.cast(whole, "i8"), zero=None)
        if factor.element == element:
            return replace(factor, zero=self.zero(w, factor))
        return replace(factor, x=flipped(w, factor.x), zero=self._moved(w, factor, element))

    def _moved(self, w: OpWriter, factor: Factor, element: str) -> SSAValue:
        """Return the factor's zero point in 32 bits, shifted by 128 if the conversion of the bytes
        to the sign type ``element`` shifts them."""
        point, distance = self.zero(w, factor), SHIFT if element == "u8" else -SHIFT
        return w.splat(distance, "i32") if point is None else w.add(point, distance)

    def other(self, value: SSAValue) -> SSAValue:
        """Return the bytes of a value with the other sign type. If only ops that move elements lie
        between the value and its quantization, that quantization produces them."""
        known = self.turned.get(value)
        if known is not None:
            return known
        op = value.owner
        found = self._other_by(op) if isinstance(op, NnOp) else None
        if found is None:
            here = OpWriter.behind(value, op if isinstance(op, NnOp) else None)
            found = flipped(here, value)
        self.turned[value] = found
        return found

    def _other_by(self, op: NnOp) -> SSAValue | None:
        """Return the result of an op on bytes of the other sign type; None if the op neither
        quantizes nor only moves elements."""
        w = OpWriter(op)
        if isinstance(op, ew.QuantizeOp):
            x, scale, zero = op.operands
            return w.op(ew.QuantizeOp, x, scale, flipped(w, zero))
        moves = op.get_trait(MovesElements)
        if isinstance(op, MaxPoolOp):
            moved = op.operands[:1]
        elif moves is None or moves.fills:
            return None
        else:
            moved = op.operands if isinstance(op, ConcatOp) else op.operands[:1]
        others = [self.other(x) for x in moved]
        rest = op.operands[len(others) :]
        return w.op(type(op), *others, *rest, **op.setting_properties)

    def _fits(self, factor: Factor) -> bool:
        """Return whether all differences of the bytes from the zero point are known and fit into
        signed bytes."""
        x = self.constants.value(factor.x)
        zero = np.int32(0) if factor.zero is None else self.constants.value(factor.zero)
        if x is None or zero is None:
            return False
        wide = x.astype(np.int32) - zero.astype(np.int32)
        return not wide.size or bool(wide.min() >= -SHIFT and wide.max() < SHIFT)
