"""Integer division that never traps: a zero divisor gives 0, and the least value over -1 wraps.

The divisor that LLVM sees is never 0, nor -1 if it is signed; selects then replace the results for
these divisors. A constant divisor that is safe needs no selects.

Vectors of integers up to 32 bits are divided as floats, as no CPU divides vectors of integers. The
quotient of two n-bit integers has a relative distance of at least 2^-n from the next integer. A
float with 2n bits or more rounds by less than that, so truncating its quotient is exact. 64-bit
integers are divided as floats if all lanes fit into 32 bits, and lane by lane otherwise.
"""

from __future__ import annotations

from tessella.codegen.lltypes import LLValue, constant
from tessella.codegen.shortened import if_all, shortened
from tessella.codegen.writer import Writer


def divide_signed(w: Writer, a: LLValue, b: LLValue) -> LLValue:
    """Return a / b rounded toward zero; 0 where b is 0."""
    safe, zero, minus = _signed_divisor(w, a, b)
    quotient = _quotient(w, a, safe, signed=True)
    if zero is None or minus is None:
        return quotient
    nothing = constant(a.type, 0)
    quotient = w.select(minus, w.binary("sub", nothing, a), quotient)
    return w.select(zero, nothing, quotient)


def divide_unsigned(w: Writer, a: LLValue, b: LLValue) -> LLValue:
    """Return a / b rounded down, unsigned; 0 where b is 0."""
    if _harmless(b):
        return w.binary("udiv", a, b)
    nothing = constant(a.type, 0)
    zero = w.compare("icmp eq", b, nothing)
    quotient = _quotient(w, a, w.select(zero, constant(a.type, 1), b), signed=False)
    return w.select(zero, nothing, quotient)


def remainder_signed(w: Writer, a: LLValue, b: LLValue) -> LLValue:
    """Return a - b * (a / b rounded toward zero); 0 where b is 0."""
    safe, _, _ = _signed_divisor(w, a, b)
    return _remainder(w, a, safe, signed=True)


def remainder_unsigned(w: Writer, a: LLValue, b: LLValue) -> LLValue:
    """Return a modulo b, unsigned; 0 where b is 0."""
    if _harmless(b):
        return w.binary("urem", a, b)
    zero = w.compare("icmp eq", b, constant(a.type, 0))
    return _remainder(w, a, w.select(zero, constant(a.type, 1), b), signed=False)


def floor_divide(w: Writer, a: LLValue, b: LLValue) -> LLValue:
    """Return a / b rounded down; 0 where b is 0."""
    quotient, remainder = _both(w, a, b)
    down = w.binary("and", _inexact(w, remainder), _negative(w, w.binary("xor", a, b)))
    return w.binary("sub", quotient, _one_where(w, down, a))


def ceil_divide_signed(w: Writer, a: LLValue, b: LLValue) -> LLValue:
    """Return a / b rounded up; 0 where b is 0."""
    quotient, remainder = _both(w, a, b)
    sign = w.binary("xor", a, b)
    same = w.compare("icmp sge", sign, constant(sign.type, 0))
    up = w.binary("and", _inexact(w, remainder), same)
    return w.binary("add", quotient, _one_where(w, up, a))


def ceil_divide_unsigned(w: Writer, a: LLValue, b: LLValue) -> LLValue:
    """Return a / b rounded up, unsigned; 0 where b is 0."""
    quotient = divide_unsigned(w, a, b)
    remainder = remainder_unsigned(w, a, b)
    return w.binary("add", quotient, _one_where(w, _inexact(w, remainder), a))


def _quotient(w: Writer, a: LLValue, b: LLValue, *, signed: bool) -> LLValue:
    """Return a / b rounded toward zero; b must not be 0, nor -1 if signed."""
    kind = "s" if signed else "u"
    if not a.type.lanes or _harmless(b):
        return w.binary(f"{kind}div", a, b)
    if a.type.bits > 32:
        (x, fits), (y, fits_too) = (shortened(w, value, signed=signed) for value in (a, b))
        return if_all(
            w,
            w.binary("and", fits, fits_too),
            lambda: w.cast("sext", _quotient(w, x, y, signed=True), a.type),
            lambda: w.binary(f"{kind}div", a, b),
        )
    to = a.type.of("f32" if a.type.bits <= 16 else "f64")
    x, y = (w.cast(f"{kind}itofp", value, to) for value in (a, b))
    return w.cast(f"fpto{kind}i", w.binary("fdiv", x, y), a.type)


def _remainder(w: Writer, a: LLValue, b: LLValue, *, signed: bool) -> LLValue:
    """Return the remainder of a / b rounded toward zero; b must not be 0, nor -1 if signed."""
    if not a.type.lanes or _harmless(b):
        return w.binary("srem" if signed else "urem", a, b)
    return w.binary("sub", a, w.binary("mul", _quotient(w, a, b, signed=signed), b))


def _both(w: Writer, a: LLValue, b: LLValue) -> tuple[LLValue, LLValue]:
    return divide_signed(w, a, b), remainder_signed(w, a, b)


def _inexact(w: Writer, remainder: LLValue) -> LLValue:
    return w.compare("icmp ne", remainder, constant(remainder.type, 0))


def _negative(w: Writer, value: LLValue) -> LLValue:
    return w.compare("icmp slt", value, constant(value.type, 0))


def _one_where(w: Writer, condition: LLValue, like: LLValue) -> LLValue:
    return w.cast("zext", condition, like.type)


def _harmless(divisor: LLValue) -> bool:
    """Return whether the divisor is a constant other than 0 and -1, equal in all lanes."""
    text = divisor.text
    if text.startswith("splat ("):
        text = text[:-1].rpartition(" ")[2]
    return text.lstrip("-").isdigit() and int(text) not in (0, -1)


def _signed_divisor(
    w: Writer, a: LLValue, b: LLValue
) -> tuple[LLValue, LLValue | None, LLValue | None]:
    """Return a divisor that cannot trap, and masks of the lanes in which ``b`` is 0 and in which it
    is -1; no masks if ``b`` is a safe constant."""
    if _harmless(b):
        return b, None, None
    zero = w.compare("icmp eq", b, constant(a.type, 0))
    minus = w.compare("icmp eq", b, constant(a.type, -1))
    unsafe = w.binary("or", zero, minus)
    return w.select(unsafe, constant(a.type, 1), b), zero, minus
