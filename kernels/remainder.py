"""Scalar code of remainders and integer powers."""

from __future__ import annotations

from xdsl.dialects import arith, math
from xdsl.ir import SSAValue

from tessella.dialects.arith import RemFOp
from tessella.dialects.elements import element_of, is_float, is_unsigned
from tessella.kernels.builder import Scalars
from tessella.kernels.elements import FLOATS, INTEGERS, Table, rows

REMAINDERS: Table = rows((*FLOATS, *INTEGERS))


def truncated(s: Scalars, x: SSAValue, y: SSAValue) -> SSAValue:
    """Return the remainder of a division that is rounded towards zero, as C's ``fmod`` and ``%``
    do: it has the dividend's sign."""
    if not is_float(x.type):
        return s.op((arith.RemUIOp if is_unsigned(x.type) else arith.RemSIOp)(x, y))
    return s.op(RemFOp(x, y))


def floored(s: Scalars, x: SSAValue, y: SSAValue) -> SSAValue:
    """Return the remainder of a division that is rounded down, as NumPy's ``mod`` does: it has the
    divisor's sign."""
    rest = truncated(s, x, y)
    if is_unsigned(y.type):
        return rest
    add = arith.AddfOp if is_float(y.type) else arith.AddiOp
    differ = s.op(arith.XOrIOp(_is(s, rest, "lt"), _is(s, y, "lt")))
    corrected = s.op(arith.AndIOp(differ, _is(s, rest, "ne")))
    found = s.op(arith.SelectOp(corrected, s.op(add(rest, y)), rest))
    if not is_float(y.type):
        return found
    return s.op(arith.SelectOp(_is(s, found, "eq"), s.op(math.CopySignOp(found, y)), found))


def _is(s: Scalars, x: SSAValue, kind: str) -> SSAValue:
    """Return whether a number is below 0 (``kind`` is "lt"), equal to 0 ("eq") or not equal to 0
    ("ne")."""
    zero = s.like(0, x)
    if is_float(x.type):
        return s.op(arith.CmpfOp(x, zero, f"o{kind}"))
    return s.op(arith.CmpiOp(x, zero, "slt" if kind == "lt" else kind))


def integer_power(s: Scalars, x: SSAValue, y: SSAValue) -> SSAValue:
    """Return x to the power of y, by squaring, modulo the range of the element type.

    A negative exponent gives the reciprocal, rounded towards zero.
    """
    result, factor, one = s.like(1, x), x, s.like(1, x)
    for i in range(element_of(x.type).bits):
        digit = s.op(arith.AndIOp(s.op(arith.ShRUIOp(y, s.like(i, y))), one))
        product = s.op(arith.MuliOp(result, factor))
        result = s.op(arith.SelectOp(_is(s, digit, "ne"), product, result))
        factor = s.op(arith.MuliOp(factor, factor))
    if is_unsigned(y.type):
        return result
    ones = s.op(
        arith.CmpiOp(s.op(math.AbsIOp(x)), one, "eq")
    )  # the powers of 1 and -1 above are right for negative exponents too
    kept = s.op(arith.SelectOp(ones, result, s.like(0, x)))
    return s.op(arith.SelectOp(_is(s, y, "lt"), kept, result))
