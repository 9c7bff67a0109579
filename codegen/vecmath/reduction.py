"""Exact reduction of large angles, after Payne and Hanek: only the relevant bits of 2/pi are used.

The fast reduction loses accuracy if the quadrant has many bits. Such angles are rare: one branch
tests for them, and a function that is not inlined handles them lane by lane.
"""

from __future__ import annotations

from tessella.codegen.lltypes import I1, LLValue, constant
from tessella.codegen.vecmath.lanes import Lanes, where

LIMIT_FUSED = 2.0**20
"""The largest |x| for which three parts of pi/2, and multiply-adds that round once, keep the
remainder exact."""

LIMIT = 12000.0
"""The largest |x| for which products of the quadrant and parts of pi/2 with 11 bits are exact."""

_TWO_OVER_PI = 0x28BE60DB9391054A7F09D5F47D4D377036D8A5664F10E4107F9458EAF7
"""2/pi times 2^230: as many bits as the largest f32 needs."""

_TWO_OVER_PI_64 = int(
    "145F306DC9C882A53F84EAFA3EA69BB81B6C52B3278872083FCA2C757BD778AC36E48D"
    "C74849BA5C00C925DD413A32439FC3BD63962534E7DD1046BEA5D768909D338E04D68B"
    "EFC827323AC7306A673E93908BF177BF250763FF12FFFBC0B301FDE5E2316B414DA3ED"
    "A6CFD9E4F96136E9E8C7ECD3CBFD45AEA4F758FD7CBE2F67A0E73EF14A525D4D7F6BF6"
    "23F1ABA10AC",
    16,
)
"""2/pi times 2^1161: as many bits as the largest f64 needs."""
_HALF_PI_64 = 0xC90FDAA22168C235
"""pi/2 times 2^63."""

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
"""LLVM function that reduces one f32 x = mantissa 2^(exponent - 150). It computes x 2/pi modulo 4
with 126 fractional bits, and returns the quadrant and the remainder."""

_SCALAR_64 = """\
define internal {{ i64, double }} @ts.angle.f64(double %x, i64 %quadrant, double %rest) #2 {{
  %bits = bitcast double %x to i64
  %shifted = lshr i64 %bits, 52
  %exponent = and i64 %shifted, 2047
  %fraction = and i64 %bits, 4503599627370495
  %mantissa = or i64 %fraction, 4503599627370496
  %by = sub i64 2046, %exponent
  %by.wide = zext i64 %by to i1280
  %window = lshr i1280 {two_over_pi}, %by.wide
  %factor = trunc i1280 %window to i192
  %mantissa.wide = zext i64 %mantissa to i192
  %turns = mul i192 %factor, %mantissa.wide
  %rounded = add i192 %turns, {half}
  %nearest = lshr i192 %rounded, 190
  %q = trunc i192 %nearest to i64
  %signed = shl i192 %turns, 2
  %below = icmp slt i192 %signed, 0
  %negated = sub i192 0, %signed
  %magnitude = select i1 %below, i192 %negated, i192 %signed
  %zeros.wide = call i192 @llvm.ctlz.i192(i192 %magnitude, i1 false)
  %normal = shl i192 %magnitude, %zeros.wide
  %top = lshr i192 %normal, 64
  %top.narrow = trunc i192 %top to i128
  %digits = lshr i128 %top.narrow, 64
  %angle.wide = mul i128 %digits, {half_pi}
  %angle.high = lshr i128 %angle.wide, 64
  %angle = trunc i128 %angle.high to i64
  %angle.float = uitofp i64 %angle to double
  %zeros = trunc i192 %zeros.wide to i64
  %power = sub i64 960, %zeros
  %power.bits = shl i64 %power, 52
  %scale = bitcast i64 %power.bits to double
  %r.size = fmul double %angle.float, %scale
  %r.flipped = fneg double %r.size
  %r = select i1 %below, double %r.flipped, double %r.size
  %r.negative = fneg double %r
  %q.negative = sub i64 0, %q
  %negative = icmp slt i64 %bits, 0
  %r.signed = select i1 %negative, double %r.negative, double %r
  %q.signed = select i1 %negative, i64 %q.negative, i64 %q
  %infinite = icmp eq i64 %exponent, 2047
  %r.known = select i1 %infinite, double 0x7FF8000000000000, double %r.signed
  %size = call double @llvm.fabs.f64(double %x)
  %small = fcmp ole double %size, {limit}
  %r.done = select i1 %small, double %rest, double %r.known
  %q.done = select i1 %small, i64 %quadrant, i64 %q.signed
  %pair = insertvalue {{ i64, double }} poison, i64 %q.done, 0
  %both = insertvalue {{ i64, double }} %pair, double %r.done, 1
  ret {{ i64, double }} %both
}}"""
"""LLVM function that reduces one f64 x = mantissa 2^(exponent - 1075). It computes x 2/pi modulo 4
with 190 fractional bits, and returns the quadrant and the remainder.

At least 64 of the bits are right after the leading zeros of the fraction; they are multiplied by
pi/2 and rounded once.
"""

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
  %both = call {{ {int}, {float} }} @{callee}({float} %x.lane, {int} %q.lane, {float} %r.lane)
  %q.new = extractvalue {{ {int}, {float} }} %both, 0
  %r.new = extractvalue {{ {int}, {float} }} %both, 1
  %qs.next = insertelement {ints} %qs, {int} %q.new, i64 %lane
  %rs.next = insertelement {floats} %rs, {float} %r.new, i64 %lane
  %next = add i64 %lane, 1
  %more = icmp ult i64 %next, {lanes}
  br i1 %more, label %head, label %done
done:
  %pair = insertvalue {{ {ints}, {floats} }} poison, {ints} %qs.next, 0
  %result = insertvalue {{ {ints}, {floats} }} %pair, {floats} %rs.next, 1
  ret {{ {ints}, {floats} }} %result
}}"""


def reduce_large(
    x: Lanes, quadrant: Lanes, r: Lanes, rest: Lanes | None = None
) -> tuple[Lanes, Lanes, Lanes | None]:
    """Return the quadrant (modulo 4) and the remainder of each lane, exact for large |x|, and the
    second part of the remainder if there is one.

    For large |x| the second part of the remainder is 0.
    """
    w = x.w
    limit = LIMIT
    if x.type.bits == 64 or w.target.fused_multiply_add:
        limit = LIMIT_FUSED
    callee = _define(x, limit)
    # A comparison with NaN is false; NaN stays NaN on the fast path.
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
    return first, second, rest if rest is None else where(large, 0.0, rest)


def _phi(new: LLValue, old: LLValue, slow: str, before: str) -> str:
    return f"phi {new.type.text} [ {old.text}, %{before} ], [ {new.text}, %{slow} ]"


def _define(x: Lanes, limit: float) -> str:
    """Add the functions of the slow path to the module, unless it has them. Returns the name of the
    function to call."""
    helpers, scalar = x.w.helpers, x.type.scalar
    number = constant(scalar, limit).text
    if scalar.bits == 64:
        callee = "ts.angle.f64"
        helpers[callee] = _SCALAR_64.format(
            two_over_pi=_TWO_OVER_PI_64, half=1 << 189, half_pi=_HALF_PI_64, limit=number
        )
    else:
        callee = "ts.angle"
        half_pi_scaled = constant(x.type.of("f64").scalar, 1.5707963267948966 * 2.0**-64).text
        helpers[callee] = _SCALAR.format(
            two_over_pi=_TWO_OVER_PI, half=1 << 125, half_pi_scaled=half_pi_scaled, limit=number
        )
    if not x.type.lanes:
        return callee
    name = f"ts.angles.{x.type.mangled}"
    helpers[name] = _VECTOR.format(
        ints=x.type.integer.text,
        floats=x.type.text,
        int=scalar.integer.text,
        float=scalar.text,
        callee=callee,
        name=name,
        lanes=x.type.lanes,
    )
    return name
