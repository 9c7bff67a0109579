"""Exact reduction of large angles, after Payne and Hanek: only the bits of 2/pi that matter.

The fast reduction loses its accuracy where the quadrant has many bits. Such angles are rare: one
branch asks whether any lane has one, and a function that is not inlined treats them one by one.
"""

from __future__ import annotations

from tessella.codegen.lltypes import I1, Value, constant
from tessella.codegen.vecmath.lanes import Lanes

LIMIT_FUSED = 2.0**20
"""Up to here, three parts of pi/2 and multiply-adds that round once keep the remainder exact."""

LIMIT = 12000.0
"""Up to here, products of the quadrant and parts of pi/2 with 11 bits are exact."""

_TWO_OVER_PI = 0x28BE60DB9391054A7F09D5F47D4D377036D8A5664F10E4107F9458EAF7
"""2/pi times 2^230: as many bits as the largest f32 needs."""

_SCALAR = """\
define internal {{ i32, float }} @ts.angle(float %x, i32 %quadrant, float %rest) #2 {{
  %bits = bitcast float %x to i32
  %shifted = lshr i32 %bits, 23
  %exponent = and i32 %shifted, 255
  %fraction = and i32 %bits, 8388607
  %mantissa = or i32 %fraction, 8388608
  %by = sub i32 254, %exponent
  %by.wide = zext i32 %by to i256
  %window = lshr i256 {two_over_pi}, %by.wide
  %factor = trunc i256 %window to i128
  %mantissa.wide = zext i32 %mantissa to i128
  %turns = mul i128 %factor, %mantissa.wide
  %rounded = add i128 %turns, {half}
  %nearest = lshr i128 %rounded, 126
  %q = trunc i128 %nearest to i32
  %signed = shl i128 %turns, 2
  %top = ashr i128 %signed, 64
  %part = trunc i128 %top to i64
  %part.float = sitofp i64 %part to double
  %angle = fmul double %part.float, {half_pi_scaled}
  %r = fptrunc double %angle to float
  %r.negative = fneg float %r
  %q.negative = sub i32 0, %q
  %negative = icmp slt i32 %bits, 0
  %r.signed = select i1 %negative, float %r.negative, float %r
  %q.signed = select i1 %negative, i32 %q.negative, i32 %q
  %infinite = icmp eq i32 %exponent, 255
  %r.known = select i1 %infinite, float 0x7FF8000000000000, float %r.signed
  %size = call float @llvm.fabs.f32(float %x)
  %small = fcmp ole float %size, {limit}
  %r.done = select i1 %small, float %rest, float %r.known
  %q.done = select i1 %small, i32 %quadrant, i32 %q.signed
  %pair = insertvalue {{ i32, float }} poison, i32 %q.done, 0
  %both = insertvalue {{ i32, float }} %pair, float %r.done, 1
  ret {{ i32, float }} %both
}}"""
"""x = mantissa 2^(exponent - 150): x 2/pi modulo 4 with 126 bits after the point; its fraction."""

_VECTOR = """\
define internal {{ {ints}, {floats} }} @{name}({floats} %x, {ints} %q, {floats} %r) #2 {{
entry:
  br label %head
head:
  %lane = phi i64 [ 0, %entry ], [ %next, %head ]
  %qs = phi {ints} [ %q, %entry ], [ %qs.next, %head ]
  %rs = phi {floats} [ %r, %entry ], [ %rs.next, %head ]
  %x.lane = extractelement {floats} %x, i64 %lane
  %q.lane = extractelement {ints} %qs, i64 %lane
  %r.lane = extractelement {floats} %rs, i64 %lane
  %both = call {{ i32, float }} @ts.angle(float %x.lane, i32 %q.lane, float %r.lane)
  %q.new = extractvalue {{ i32, float }} %both, 0
  %r.new = extractvalue {{ i32, float }} %both, 1
  %qs.next = insertelement {ints} %qs, i32 %q.new, i64 %lane
  %rs.next = insertelement {floats} %rs, float %r.new, i64 %lane
  %next = add i64 %lane, 1
  %more = icmp ult i64 %next, {lanes}
  br i1 %more, label %head, label %done
done:
  %pair = insertvalue {{ {ints}, {floats} }} poison, {ints} %qs.next, 0
  %result = insertvalue {{ {ints}, {floats} }} %pair, {floats} %rs.next, 1
  ret {{ {ints}, {floats} }} %result
}}"""


def reduce_large(x: Lanes, quadrant: Lanes, r: Lanes) -> tuple[Lanes, Lanes]:
    """The quadrant (modulo 4) and the remainder of each lane, made exact where |x| is large."""
    w = x.w
    limit = LIMIT_FUSED if w.target.fused_multiply_add else LIMIT
    callee = _define(x, limit)
    # A NaN compares false, and stays NaN on the fast way.
    large = x.abs().is_("ogt", limit)
    any_large = large.value
    if x.type.lanes:
        any_large = w.call(I1, f"llvm.vector.reduce.or.{any_large.type.mangled}", any_large)
    slow, done, before = w.label("slow"), w.label("done"), w.block
    w.line(f"br {any_large.typed}, label %{slow}, label %{done}, !prof !1")
    w.start(slow)
    pair = f"{{ {quadrant.type.text}, {r.type.text} }}"
    both = w.push(
        r.type,
        f"call {pair} @{callee}({x.value.typed}, {quadrant.value.typed}, {r.value.typed})",
    )
    exact = [
        w.push(part.type, f"extractvalue {pair} {both.text}, {index}")
        for index, part in enumerate((quadrant, r))
    ]
    w.line(f"br label %{done}")
    w.start(done)
    first, second = (
        Lanes(w, w.push(new.type, _phi(new, old.value, slow, before)))
        for new, old in zip(exact, (quadrant, r), strict=True)
    )
    return first, second


def _phi(new: Value, old: Value, slow: str, before: str) -> str:
    return f"phi {new.type.text} [ {old.text}, %{before} ], [ {new.text}, %{slow} ]"


def _define(x: Lanes, limit: float) -> str:
    """Write the functions of the slow way once in a module; the name of the one to call."""
    helpers = x.w.helpers
    helpers["ts.angle"] = _SCALAR.format(
        two_over_pi=_TWO_OVER_PI,
        half=1 << 125,
        half_pi_scaled=constant(x.type.of("f64").scalar, 1.5707963267948966 * 2.0**-64).text,
        limit=constant(x.type.scalar, limit).text,
    )
    if not x.type.lanes:
        return "ts.angle"
    name = f"ts.angles.{x.type.mangled}"
    helpers[name] = _VECTOR.format(
        ints=x.type.integer.text,
        floats=x.type.text,
        name=name,
        lanes=x.type.lanes,
    )
    return name
