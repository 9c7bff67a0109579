"""Scalar code of remainders, and of powers of integers."""

from __future__ import annotations

from xdsl.dialects import arith, math
from xdsl.ir import SSAValue

from tessella.dialects.elements import element_of, is_float, is_unsigned
from tessella.kernels.builder import Scalars
from tessella.kernels.elements import INTEGERS, T, Table, rows

DIGITS = 28
"""Binary digits of the quotient in each step: times a divisor of f32 it has at most 53."""
REMAINDERS: Table = (
    *rows(("f32", "f16", "bf16"), reads=(T,), writes=(T,), computes="f64"),
    *rows(INTEGERS),
)
"""Floats are computed in f64, which holds each partial remainder."""


def truncated(s: Scalars, x: SSAValue, y: SSAValue) -> SSAValue:
    """C's ``fmod``, and ``%`` of integers: the sign is the dividend's."""
    if not is_float(x.type):
        return s.op((arith.RemUIOp if is_unsigned(x.type) else arith.RemSIOp)(x, y))
    rest, divisor = s.op(math.AbsFOp(x)), s.op(math.AbsFOp(y))
    # the largest f32 has 277 binary digits more than the least
    for shift in range(9 * DIGITS, -1, -DIGITS):
        scale = s.like(2.0**shift, y)
        rest = _reduced(s, rest, s.op(arith.MulfOp(divisor, scale)))
    is_nan = s.op(arith.CmpfOp(y, y, "uno"))
    return s.op(math.CopySignOp(s.op(arith.SelectOp(is_nan, y, rest)), x))


def _reduced(s: Scalars, rest: SSAValue, divisor: SSAValue) -> SSAValue:
    """The exact remainder of a number by a divisor, without rounding."""
    quotient = s.op(math.TruncOp(s.op(arith.DivfOp(rest, divisor))))
    left = s.op(arith.SubfOp(rest, s.op(arith.MulfOp(quotient, divisor))))
    # a quotient just below an integer was rounded to it
    below = s.op(arith.CmpfOp(left, s.like(0, left), "olt"))
    left = s.op(arith.SelectOp(below, s.op(arith.AddfOp(left, divisor)), left))
    return s.op(arith.SelectOp(s.op(arith.CmpfOp(rest, divisor, "oge")), left, rest))


def floored(s: Scalars, x: SSAValue, y: SSAValue) -> SSAValue:
    """NumPy's ``mod``: the sign is the divisor's."""
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
    """Whether a number is less than 0, equal to it or not."""
    zero = s.like(0, x)
    if is_float(x.type):
        return s.op(arith.CmpfOp(x, zero, f"o{kind}"))
    return s.op(arith.CmpiOp(x, zero, "slt" if kind == "lt" else kind))


def integer_power(s: Scalars, x: SSAValue, y: SSAValue) -> SSAValue:
    """x to the power of y, modulo the element's range, by squaring; a negative exponent gives the
    reciprocal, rounded towards zero."""
    result, factor, one = s.like(1, x), x, s.like(1, x)
    for i in range(element_of(x.type).bits):
        digit = s.op(arith.AndIOp(s.op(arith.ShRUIOp(y, s.like(i, y))), one))
        product = s.op(arith.MuliOp(result, factor))
        result = s.op(arith.SelectOp(_is(s, digit, "ne"), product, result))
        factor = s.op(arith.MuliOp(factor, factor))
    if is_unsigned(y.type):
        return result
    ones = s.op(arith.CmpiOp(s.op(math.AbsIOp(x)), one, "eq"))  # as the lowest digit says
    kept = s.op(arith.SelectOp(ones, result, s.like(0, x)))
    return s.op(arith.SelectOp(_is(s, y, "lt"), kept, result))
