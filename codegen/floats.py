"""Conversions between floats. f16 and bf16 use integer code where LLVM would call library
functions.

A float is rounded to the nearest bf16, ties to even. Targets with an instruction for that flush
denormals to a zero of the same sign, as their bf16 products do; other targets round denormals like
all numbers.
"""

from __future__ import annotations

from tessella.codegen.lltypes import LLType, LLValue, constant
from tessella.codegen.writer import Writer
from tessella.support.elements import ELEMENTS


def widen(w: Writer, value: LLValue, to: LLType) -> LLValue:
    """Convert a float to a wider one."""
    match value.type.element:
        case "bf16":
            single = _from_bf16(w, value)
        case "f16" if not w.target.converts_half:
            single = _from_f16(w, value)
        case "f16" if to.element != "f32":
            single = w.cast("fpext", value, value.type.of("f32"))
        case _:
            single = value
    return single if single.type is to else w.cast("fpext", single, to)


def narrow(w: Writer, value: LLValue, to: LLType) -> LLValue:
    """Convert a float to a narrower one: round to nearest, ties to even; NaN stays NaN."""
    if to.element not in ("f16", "bf16"):
        return w.cast("fptrunc", value, to)
    if value.type.element == "f64":
        value = _round_to_odd(w, value)
    if to.element == "bf16":
        return _to_bf16(w, value, to)
    return w.cast("fptrunc", value, to) if w.target.converts_half else _to_f16(w, value, to)


def _round_to_odd(w: Writer, value: LLValue) -> LLValue:
    """Convert f64 to f32 by rounding to odd, so that a later rounding to fewer bits is the only
    one.

    If digits are lost, the last remaining digit is set.
    """
    single = w.cast("fptrunc", value, value.type.of("f32"))
    back = w.cast("fpext", single, value.type)
    bits = w.cast("bitcast", single, single.type.integer)
    magnitudes = [w.intrinsic("fabs", x) for x in (back, value)]
    away = w.cast("zext", w.compare("fcmp ogt", *magnitudes), bits.type)
    inexact = w.cast("zext", w.compare("fcmp one", back, value), bits.type)
    odd = w.binary("or", w.binary("sub", bits, away), inexact)
    is_finite = w.compare("fcmp one", magnitudes[1], constant(value.type, float("inf")))
    return w.cast("bitcast", w.select(is_finite, odd, bits), single.type)


def _from_bf16(w: Writer, value: LLValue) -> LLValue:
    bits = w.cast("bitcast", value, value.type.integer)
    wide = w.cast("zext", bits, bits.type.of("i32"))
    return w.cast("bitcast", w.binary("shl", wide, constant(wide.type, 16)), value.type.of("f32"))


def _to_bf16(w: Writer, value: LLValue, to: LLType) -> LLValue:
    narrows = w.target.narrows_bf16 if w.target.converts("bf16") else None
    bits = value.type.lanes * value.type.bits
    if narrows is not None and bits in narrows.bits:
        halves, callee = f"<{value.type.lanes} x bfloat>", f"@{narrows.name.format(bits=bits)}"
        made = w.push(to, f"call {halves} {callee}({value.typed})")
        return w.push(to, f"bitcast {halves} {made.text} to {to.text}")
    half = _rounded(w, value)
    if narrows is not None:
        magnitude = w.intrinsic("fabs", value)
        tiny = w.compare("fcmp olt", magnitude, constant(value.type, ELEMENTS["f32"].least_normal))
        half = w.select(tiny, w.binary("and", half, constant(half.type, 0x8000)), half)
    return w.cast("bitcast", half, to)


def _rounded(w: Writer, value: LLValue) -> LLValue:
    """Return the bits of the nearest bf16; for NaN, the bits of a quiet NaN."""
    bits = w.cast("bitcast", value, value.type.integer)
    wide = bits.type
    odd = w.binary("and", w.binary("lshr", bits, constant(wide, 16)), constant(wide, 1))
    rounded = w.binary("add", bits, w.binary("add", odd, constant(wide, 0x7FFF)))
    quiet = w.binary("or", bits, constant(wide, 0x400000))
    kept = w.select(w.compare("fcmp uno", value, value), quiet, rounded)
    return w.cast("trunc", w.binary("lshr", kept, constant(wide, 16)), wide.of("i16"))


def _from_f16(w: Writer, value: LLValue) -> LLValue:
    """Convert f16 to f32: move the bits to their positions in f32, and multiply.

    The product corrects the exponent and normalises f16's denormals.
    """
    half = w.cast("bitcast", value, value.type.integer)
    bits = w.cast("zext", half, half.type.of("i32"))
    i32, f32 = bits.type, value.type.of("f32")
    sign = w.binary("shl", w.binary("and", bits, constant(i32, 0x8000)), constant(i32, 16))
    rest = w.binary("shl", w.binary("and", bits, constant(i32, 0x7FFF)), constant(i32, 13))
    scaled = w.binary("fmul", w.cast("bitcast", rest, f32), constant(f32, 2.0**112))
    number = w.cast("bitcast", scaled, i32)
    special = w.compare("icmp uge", rest, constant(i32, 0x7C00 << 13))
    filled = w.select(special, w.binary("or", rest, constant(i32, 0x7F800000)), number)
    return w.cast("bitcast", w.binary("or", filled, sign), f32)


def _to_f16(w: Writer, value: LLValue, to: LLType) -> LLValue:
    """Convert f32 to f16 by arithmetic, after M. Dukhan's FP16 library.

    Two products take numbers beyond the range to infinity. Adding a power of two whose last digit
    is the last digit of the f16 result rounds in hardware.
    """
    f32, bits = value.type, w.cast("bitcast", value, value.type.integer)
    i32 = bits.type
    large = w.binary("fmul", w.intrinsic("fabs", value), constant(f32, 2.0**112))
    base = w.binary("fmul", large, constant(f32, 2.0**-110))
    doubled = w.binary("add", bits, bits)
    exponent = w.binary("and", doubled, constant(i32, 0xFF000000))
    bias = w.intrinsic("umax", exponent, constant(i32, 0x71000000))
    shifted = w.binary("lshr", bias, constant(i32, 1))
    power = w.cast("bitcast", w.binary("add", shifted, constant(i32, 0x07800000)), f32)
    total = w.cast("bitcast", w.binary("fadd", power, base), i32)
    high = w.binary("and", w.binary("lshr", total, constant(i32, 13)), constant(i32, 0x7C00))
    number = w.binary("add", high, w.binary("and", total, constant(i32, 0x0FFF)))
    is_nan = w.compare("icmp ugt", doubled, constant(i32, 0xFF000000))
    kept = w.select(is_nan, constant(i32, 0x7E00), number)
    sign = w.binary("and", w.binary("lshr", bits, constant(i32, 16)), constant(i32, 0x8000))
    half = w.cast("trunc", w.binary("or", kept, sign), to.integer)
    return w.cast("bitcast", half, to)
