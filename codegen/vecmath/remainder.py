"""C's `fmod`, exact: the remainder of a division rounded toward zero.

If the quotient has no more bits than a float, one multiply-add computes the remainder without
rounding. Larger quotients are rare: one branch tests for them, and a function that is not inlined
divides these lanes one by one, as integers.
"""

from __future__ import annotations

import math

from tessella.codegen.lltypes import I1, LLType, constant
from tessella.codegen.vecmath.lanes import Lanes, fma, where
from tessella.codegen.vecmath.power import product

_FRACTION = {32: 23, 64: 52}
"""The number of bits of a float's fraction, by the float's width."""

HALF = 26
"""The maximum number of bits of a quotient that fits into one half of a float, so that products of
halves are exact."""

SMALL = 2.0**-900
"""The least divisor for which products of halves are exact."""

_SCALAR = """\
define internal {float} @{name}({float} %a, {float} %b, {float} %r) #2 {{
entry:
  %finite = fcmp olt {float} %a, {infinity}
  %positive = fcmp ogt {float} %b, {zero}
  %larger = fcmp oge {float} %a, %b
  %numbers = and i1 %finite, %positive
  %divides = and i1 %numbers, %larger
  br i1 %divides, label %split, label %known
known:
  ret {float} %r
split:
  %a.bits = bitcast {float} %a to {int}
  %b.bits = bitcast {float} %b to {int}
  %a.exponent = lshr {int} %a.bits, {fraction}
  %b.exponent = lshr {int} %b.bits, {fraction}
  %a.fraction = and {int} %a.bits, {mask}
  %b.fraction = and {int} %b.bits, {mask}
  %a.denormal = icmp eq {int} %a.exponent, 0
  %b.denormal = icmp eq {int} %b.exponent, 0
  %a.leading = select i1 %a.denormal, {int} 0, {int} {one}
  %b.leading = select i1 %b.denormal, {int} 0, {int} {one}
  %a.narrow = or {int} %a.fraction, %a.leading
  %b.narrow = or {int} %b.fraction, %b.leading
  %a.digits = zext {int} %a.narrow to i128
  %b.digits = zext {int} %b.narrow to i128
  %a.from = trunc i128 %a.digits to i64
  %b.from = trunc i128 %b.digits to i64
  %a.power = call {int} @llvm.umax.{int}({int} %a.exponent, {int} 1)
  %b.power = call {int} @llvm.umax.{int}({int} %b.exponent, {int} 1)
  %apart = sub {int} %a.power, %b.power
  %first = urem i64 %a.from, %b.from
  br label %head
head:
  %rest = phi i64 [ %first, %split ], [ %rest.next, %step ]
  %left = phi {int} [ %apart, %split ], [ %left.next, %step ]
  %done = icmp eq {int} %left, 0
  br i1 %done, label %join, label %step
step:
  %by = call {int} @llvm.umin.{int}({int} %left, {int} {room})
  %by.from = zext {int} %by to i128
  %by.wide = trunc i128 %by.from to i64
  %shifted = shl i64 %rest, %by.wide
  %rest.next = urem i64 %shifted, %b.from
  %left.next = sub {int} %left, %by
  br label %head
join:
  %whole = uitofp i64 %rest to {float}
  %is.normal = icmp ugt {int} %b.power, {fraction}
  %normal.power = sub {int} %b.power, {fraction}
  %normal = shl {int} %normal.power, {fraction}
  %denormal.power = sub {int} %b.power, 1
  %denormal = shl {int} 1, %denormal.power
  %unit.bits = select i1 %is.normal, {int} %normal, {int} %denormal
  %unit = bitcast {int} %unit.bits to {float}
  %result = fmul {float} %whole, %unit
  ret {float} %result
}}"""
"""LLVM function that computes the remainder of one lane. Both arguments are represented as integers
times powers of two (i128 for both float sizes).

The remainder of a's integer is shifted left by as many bits as there is room for and divided again,
until the exponents are equal. The last product is exact.
"""

_VECTOR = """\
define internal {floats} @{name}({floats} %a, {floats} %b, {floats} %r) #2 {{
entry:
  br label %head
head:
  %lane = phi i64 [ 0, %entry ], [ %next, %head ]
  %rs = phi {floats} [ %r, %entry ], [ %rs.next, %head ]
  %a.lane = extractelement {floats} %a, i64 %lane
  %b.lane = extractelement {floats} %b, i64 %lane
  %r.lane = extractelement {floats} %rs, i64 %lane
  %exact = call {float} @{callee}({float} %a.lane, {float} %b.lane, {float} %r.lane)
  %rs.next = insertelement {floats} %rs, {float} %exact, i64 %lane
  %next = add i64 %lane, 1
  %more = icmp ult i64 %next, {lanes}
  br i1 %more, label %head, label %done
done:
  ret {floats} %rs.next
}}"""


def remf(x: Lanes, y: Lanes) -> Lanes:
    """Return x - y * (x / y rounded towards zero), with the sign of x."""
    a, b = x.abs(), y.abs()
    quotient = (a / b).intrinsic("trunc")
    rest = _rest(quotient, b, a)
    # If a / b is just below an integer, it was rounded up to that integer.
    rest = where(rest.is_("olt", 0.0), rest + b, rest)
    rest = where(a.is_("olt", b), a, rest)
    bits = HALF if _has_halves(x) else _FRACTION[x.type.bits] + 1
    large = quotient.is_("oge", 2.0**bits)
    if _has_halves(x):
        large = large | b.is_("olt", SMALL)
    return _exact_where(large, a, b, rest).with_sign_of(x)


def _has_halves(x: Lanes) -> bool:
    """Return whether products are computed from halves of their factors."""
    return x.type.bits == 64 and not x.w.target.fused_multiply_add


def _rest(quotient: Lanes, b: Lanes, a: Lanes) -> Lanes:
    """Return a - quotient * b, without rounding."""
    if a.w.target.fused_multiply_add:
        return fma(-quotient, b, a)
    if a.type.bits == 32:
        q, divisor, dividend = (v.cast("fpext", "f64") for v in (quotient, b, a))
        return (dividend - q * divisor).cast("fptrunc", "f32")
    high, low = product(quotient, b)
    return (a - high) - low


def _exact_where(large: Lanes, a: Lanes, b: Lanes, rest: Lanes) -> Lanes:
    """Replace the remainder by the exact one in lanes with large quotients."""
    w, lltype = a.w, a.type
    # Infinite dividends and zero divisors also have large quotients, but need no slow path.
    finite, positive = a.is_("olt", math.inf), b.is_("ogt", 0.0)
    asked = (large & finite & positive).value
    if lltype.lanes:
        asked = w.call(I1, f"llvm.vector.reduce.or.{asked.type.mangled}", asked)
    slow, done, before = w.label("slow"), w.label("done"), w.block
    w.line(f"br {asked.typed}, label %{slow}, label %{done}, !prof !1")
    w.start(slow)
    exact = w.call(lltype, _define(a), a.value, b.value, rest.value)
    w.line(f"br label %{done}")
    w.start(done)
    found = f"[ {rest.value.text}, %{before} ], [ {exact.text}, %{slow} ]"
    return Lanes(w, w.push(lltype, f"phi {lltype.text} {found}"))


def _define(x: Lanes) -> str:
    """Add the functions of the slow path to the module, unless it has them. Returns the name of the
    function to call."""
    helpers, scalar = x.w.helpers, x.type.scalar
    callee = f"ts.remainder.{scalar.mangled}"
    helpers[callee] = _scalar(callee, scalar)
    if not x.type.lanes:
        return callee
    name = f"ts.remainders.{x.type.mangled}"
    helpers[name] = _VECTOR.format(
        floats=x.type.text, float=scalar.text, callee=callee, name=name, lanes=x.type.lanes
    )
    return name


def _scalar(name: str, scalar: LLType) -> str:
    fraction = _FRACTION[scalar.bits]
    return _SCALAR.format(
        name=name,
        float=scalar.text,
        int=scalar.integer.text,
        infinity=constant(scalar, math.inf).text,
        zero=constant(scalar, 0.0).text,
        fraction=fraction,
        mask=(1 << fraction) - 1,
        one=1 << fraction,
        room=63 - fraction,
    )
