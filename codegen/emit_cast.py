"""The code of `arith` and `vector` casts. The result has as many lanes as the operand, and the
element type of the op's declared result."""

from __future__ import annotations

from xdsl.dialects import arith, vector
from xdsl.ir import Operation

from tessella.codegen.floats import narrow, widen
from tessella.codegen.lltypes import LLType, LLValue, constant, type_of
from tessella.codegen.shortened import if_all, shortened
from tessella.codegen.writer import Handler, Writer
from tessella.dialects.arith import NearestOp
from tessella.support.elements import ELEMENTS
from tessella.targets.table import family_of


def _result_type(op: Operation, value: LLValue) -> LLType:
    return value.type.of(type_of(op.results[0].type).element)


def _cast(opcode: str) -> Handler:
    def emit(w: Writer, op: Operation) -> None:
        value = w.get(op, 0)
        w.set(op, w.cast(opcode, value, _result_type(op, value)))

    return emit


def _resize(widen: str) -> Handler:
    """Return a handler for `index_cast`, which truncates, keeps or widens as the types require."""

    def emit(w: Writer, op: Operation) -> None:
        value = w.get(op, 0)
        to = _result_type(op, value)
        if to is value.type:
            w.set(op, value)
        else:
            w.set(op, w.cast("trunc" if to.bits < value.type.bits else widen, value, to))

    return emit


def _saturated(w: Writer, value: LLValue, to: LLType, *, signed: bool) -> LLValue:
    """Convert a vector of floats to integers; values out of range give the nearest integer, and NaN
    gives 0.

    LLVM's own saturating conversions are scalar on x86. The floats are clamped and converted as a
    vector; a select then gives the largest integer where no float equals it, and 0 for NaN.
    """
    if to.bits < 32:
        return _packed(w, value, to, signed=signed)
    if to.bits == 64 and not w.target.converts_long:
        return _long(w, value, to, signed=signed)
    return _clamped(w, value, to, signed=signed)


def _clamped(w: Writer, value: LLValue, to: LLType, *, signed: bool) -> LLValue:
    """Convert to integers of 32 bits or more, by clamping."""
    low = -(1 << (to.bits - 1)) if signed else 0
    most = low + (1 << to.bits) - 1
    # ``high`` is the greatest integer in range that is a float of the operand's type
    digits = ELEMENTS[value.type.element].fraction + 1
    high = most if most.bit_length() <= digits else most >> (to.bits - digits) << (to.bits - digits)
    result = value
    for kind, bound in (("ogt", low), ("olt", high)):
        limit = constant(value.type, bound)
        # a comparison with NaN is false and selects the limit
        result = w.select(w.compare(f"fcmp {kind}", result, limit), result, limit)
    whole = w.cast("fptosi" if signed else "fptoui", result, to)
    if high != most:
        beyond = w.compare("fcmp ogt", value, constant(value.type, high))
        whole = w.select(beyond, constant(to, most), whole)
    if signed:
        nan = w.compare("fcmp uno", value, value)
        whole = w.select(nan, constant(to, 0), whole)
    return whole


def _long(w: Writer, value: LLValue, to: LLType, *, signed: bool) -> LLValue:
    """Convert floats to i64 on targets without a vector instruction for that: as i32 if all lanes
    fit, otherwise by the slower ``_clamped``."""
    low = -(2.0**31) if signed else -1.0
    fits = [
        w.compare(f"fcmp {kind}", value, constant(value.type, bound))
        for kind, bound in (("ogt", low), ("olt", 2.0**31))
    ]
    return if_all(
        w,
        w.binary("and", *fits),
        lambda: w.cast("sext", w.cast("fptosi", value, to.of("i32")), to),
        lambda: _clamped(w, value, to, signed=signed),
    )


def _from_long(opcode: str) -> Handler:
    """Return a handler that converts integers to floats. On targets without a vector instruction
    for i64, vectors of i64 are converted as i32 if all lanes fit."""

    def emit(w: Writer, op: Operation) -> None:
        value = w.get(op, 0)
        to = _result_type(op, value)
        if not value.type.lanes or value.type.bits < 64 or w.target.converts_long:
            w.set(op, w.cast(opcode, value, to))
            return
        short, fits = shortened(w, value, signed=opcode == "sitofp")
        made = if_all(
            w, fits, lambda: w.cast("sitofp", short, to), lambda: w.cast(opcode, value, to)
        )
        w.set(op, made)

    return emit


def _packed(w: Writer, value: LLValue, to: LLType, *, signed: bool) -> LLValue:
    """Convert floats to integers narrower than 32 bits.

    Floats are clamped to twice the range and integers to the range itself, so that LLVM narrows
    them by saturating instructions.
    """
    low = -(1 << (to.bits - 1)) if signed else 0
    high = low + (1 << to.bits) - 1
    result = value
    if signed:  # for unsigned integers, NaN becomes the lower bound, which is 0
        number = w.compare("fcmp ord", value, value)
        result = w.select(number, value, constant(value.type, 0))
    for kind, bound in (("ogt", -(2**30)), ("olt", 2**30)):
        limit = constant(value.type, bound)
        result = w.select(w.compare(f"fcmp {kind}", result, limit), result, limit)
    whole = w.cast("fptosi", result, to.of("i32"))
    for kind, bound in (("smax", low), ("smin", high)):
        whole = w.intrinsic(kind, whole, constant(whole.type, bound))
    return w.cast("trunc", whole, to)


def _saturating(intrinsic: str) -> Handler:
    """Return a handler that converts a float to the nearest integer in range, and NaN to 0.

    LLVM's plain casts return poison for values out of range.
    """

    def emit(w: Writer, op: Operation) -> None:
        value = w.get(op, 0)
        to = _result_type(op, value)
        if to.lanes and not family_of(w.target).saturates:
            w.set(op, _saturated(w, value, to, signed=intrinsic == "fptosi"))
            return
        w.set(op, w.call(to, f"llvm.{intrinsic}.sat.{to.mangled}.{value.type.mangled}", value))

    return emit


def _nearest(w: Writer, op: Operation) -> None:
    value = w.get(op, 0)
    to = _result_type(op, value)
    w.set(op, w.call(to, f"llvm.lrint.{to.mangled}.{value.type.mangled}", value))


def _extend(w: Writer, op: Operation) -> None:
    value = w.get(op, 0)
    w.set(op, widen(w, value, _result_type(op, value)))


def _narrow(w: Writer, op: Operation) -> None:
    value = w.get(op, 0)
    w.set(op, narrow(w, value, _result_type(op, value)))


def _bitcast(w: Writer, op: Operation) -> None:
    value = w.get(op, 0)
    to = _result_type(op, value)
    w.set(op, value if to is value.type else w.cast("bitcast", value, to))


def _vector_bitcast(w: Writer, op: Operation) -> None:
    w.set(op, w.cast("bitcast", w.get(op, 0), type_of(op.results[0].type)))


CASTS: dict[type[Operation], Handler] = {
    arith.ExtFOp: _extend,
    arith.TruncFOp: _narrow,
    arith.SIToFPOp: _from_long("sitofp"),
    arith.UIToFPOp: _from_long("uitofp"),
    arith.FPToSIOp: _saturating("fptosi"),
    arith.FPToUIOp: _saturating("fptoui"),
    NearestOp: _nearest,
    arith.ExtSIOp: _cast("sext"),
    arith.ExtUIOp: _cast("zext"),
    arith.TruncIOp: _cast("trunc"),
    arith.IndexCastOp: _resize("sext"),
    arith.BitcastOp: _bitcast,
    vector.BitcastOp: _vector_bitcast,
}
