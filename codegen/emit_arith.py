"""The code of `arith` ops: constants, integer and float arithmetic, comparisons, selects."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr
from xdsl.ir import Operation

from tessella.codegen import division
from tessella.codegen.lltypes import (
    LLType,
    LLValue,
    constant,
    float_constant,
    int_constant,
    splat,
    type_of,
)
from tessella.codegen.minmax import minmax
from tessella.codegen.writer import Handler, Writer
from tessella.support.errors import InternalError

Binary = Callable[[Writer, LLValue, LLValue], LLValue]


def _constant(w: Writer, op: Operation) -> None:
    value = op.properties["value"]
    lltype = type_of(op.results[0].type)
    if isinstance(value, (IntegerAttr, FloatAttr)):
        w.set(op, constant(lltype, value.value.data))
    elif isinstance(value, DenseIntOrFPElementsAttr):
        w.set(op, _dense(lltype, cast("tuple[float, ...]", value.get_values())))
    else:
        raise InternalError(f"constant {value} is neither a number nor a dense vector")


def _dense(lltype: LLType, numbers: tuple[float, ...]) -> LLValue:
    if lltype.is_float:
        texts = [float_constant(lltype.element, number) for number in numbers]
    else:
        texts = [int_constant(lltype, int(number)) for number in numbers]
    if all(text == texts[0] for text in texts):
        return splat(lltype, texts[0])
    return LLValue(lltype, f"<{', '.join(f'{lltype.scalar_text} {t}' for t in texts)}>")


def _instruction(opcode: str) -> Handler:
    """Return a handler for an op that is one LLVM instruction on two operands of one type."""

    def emit(w: Writer, op: Operation) -> None:
        a, b = w.get(op, 0), w.get(op, 1)
        w.set(op, w.push(a.type, f"{opcode} {a.type.text} {a.text}, {b.text}"))

    return emit


def _wrapping(opcode: str) -> Handler:
    """Return a handler for an integer instruction that keeps the op's overflow flags."""

    def emit(w: Writer, op: Operation) -> None:
        a, b = w.get(op, 0), w.get(op, 1)
        flags = op.properties.get("overflowFlags")
        chosen = flags.data if isinstance(flags, arith.IntegerOverflowAttr) else ()
        text = "".join(f"{flag.value} " for flag in chosen)
        w.set(op, w.push(a.type, f"{opcode} {text}{a.type.text} {a.text}, {b.text}"))

    return emit


def _intrinsic(name: str) -> Handler:
    return lambda w, op: w.set(op, w.intrinsic(name, w.get(op, 0), w.get(op, 1)))


def _binary(function: Binary) -> Handler:
    return lambda w, op: w.set(op, function(w, w.get(op, 0), w.get(op, 1)))


def _extreme(kind: str) -> Handler:
    return lambda w, op: w.set(op, minmax(w, kind, w.get(op, 0), w.get(op, 1)))


def _shift_out(opcode: str) -> Binary:
    """Return a function that writes a shift. The shift gives 0 if the amount is at least the type's
    width."""

    def emit(w: Writer, a: LLValue, b: LLValue) -> LLValue:
        shifted = w.binary(opcode, a, b)
        inside = w.compare("icmp ult", b, constant(b.type, b.type.bits))
        return w.select(inside, shifted, constant(a.type, 0))

    return emit


def _shift_arithmetic(w: Writer, a: LLValue, b: LLValue) -> LLValue:
    """Write an arithmetic right shift that gives the sign if the amount is at least the type's
    width."""
    return w.binary("ashr", a, w.intrinsic("umin", b, constant(b.type, b.type.bits - 1)))


def _compare(instruction: str, predicates: list[str]) -> Handler:
    def emit(w: Writer, op: Operation) -> None:
        predicate = op.properties["predicate"]
        assert isinstance(predicate, IntegerAttr)
        name = predicates[predicate.value.data]
        w.set(op, w.compare(f"{instruction} {name}", w.get(op, 0), w.get(op, 1)))

    return emit


def _select(w: Writer, op: Operation) -> None:
    condition, a, b = w.get(op, 0), w.get(op, 1), w.get(op, 2)
    w.set(op, w.select(condition, a, b))


def _negate(w: Writer, op: Operation) -> None:
    value = w.get(op, 0)
    w.set(op, w.push(value.type, f"fneg {value.typed}"))


ARITH: dict[type[Operation], Handler] = {
    arith.ConstantOp: _constant,
    arith.AddfOp: _instruction("fadd"),
    arith.SubfOp: _instruction("fsub"),
    arith.MulfOp: _instruction("fmul"),
    arith.DivfOp: _instruction("fdiv"),
    arith.NegfOp: _negate,
    arith.MaximumfOp: _extreme("maximumf"),
    arith.MinimumfOp: _extreme("minimumf"),
    arith.MaxnumfOp: _extreme("maxnumf"),
    arith.MinnumfOp: _extreme("minnumf"),
    arith.AddiOp: _wrapping("add"),
    arith.SubiOp: _wrapping("sub"),
    arith.MuliOp: _wrapping("mul"),
    arith.DivSIOp: _binary(division.divide_signed),
    arith.DivUIOp: _binary(division.divide_unsigned),
    arith.RemSIOp: _binary(division.remainder_signed),
    arith.RemUIOp: _binary(division.remainder_unsigned),
    arith.FloorDivSIOp: _binary(division.floor_divide),
    arith.CeilDivSIOp: _binary(division.ceil_divide_signed),
    arith.CeilDivUIOp: _binary(division.ceil_divide_unsigned),
    arith.MinSIOp: _intrinsic("smin"),
    arith.MaxSIOp: _intrinsic("smax"),
    arith.MinUIOp: _intrinsic("umin"),
    arith.MaxUIOp: _intrinsic("umax"),
    arith.AndIOp: _instruction("and"),
    arith.OrIOp: _instruction("or"),
    arith.XOrIOp: _instruction("xor"),
    arith.ShLIOp: _binary(_shift_out("shl")),
    arith.ShRUIOp: _binary(_shift_out("lshr")),
    arith.ShRSIOp: _binary(_shift_arithmetic),
    arith.CmpiOp: _compare("icmp", arith.CMPI_COMPARISON_OPERATIONS),
    arith.CmpfOp: _compare("fcmp", arith.CMPF_COMPARISON_OPERATIONS),
    arith.SelectOp: _select,
}
