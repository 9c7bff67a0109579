"""The code of `vector` ops: broadcasts, masks, fused multiply-adds, reductions."""

from __future__ import annotations

from xdsl.dialects import vector
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Operation

from tessella.codegen.lltypes import I64, LLType, LLValue, constant, type_of
from tessella.codegen.lltypes import vector as vector_type
from tessella.codegen.minmax import MINMAX, minmax, reduce_minmax
from tessella.codegen.writer import Handler, Writer
from tessella.support.errors import InternalError


def fused_multiply_add(w: Writer, a: LLValue, b: LLValue, c: LLValue) -> LLValue:
    """Return a * b + c, rounded once; rounded twice on targets without a fused multiply-add."""
    if w.target.fused_multiply_add:
        return w.intrinsic("fma", a, b, c)
    return w.binary("fadd", w.binary("fmul", a, b), c)


def _fma(w: Writer, op: Operation) -> None:
    w.set(op, fused_multiply_add(w, w.get(op, 0), w.get(op, 1), w.get(op, 2)))


def _broadcast(w: Writer, op: Operation) -> None:
    value = w.get(op, 0)
    lanes = type_of(op.results[0].type).lanes
    if value.type.lanes not in (0, lanes):
        raise InternalError("cannot broadcast a vector to more lanes", where=str(op))
    w.set(op, value if value.type.lanes else w.broadcast(value, lanes))


def iota(lltype: LLType) -> LLValue:
    """Return a constant vector of the lane numbers."""
    numbers = ", ".join(f"{lltype.scalar_text} {lane}" for lane in range(lltype.lanes))
    return LLValue(lltype, f"<{numbers}>")


def _create_mask(w: Writer, op: Operation) -> None:
    """Write a mask that is true in the lanes below the bound, which may be negative or more than
    the number of lanes."""
    lanes = type_of(op.results[0].type).lanes
    # Narrow lane numbers take fewer registers to compare; there are far fewer than 2^31 lanes.
    narrow = vector_type("i32" if lanes <= 16 or lanes > 64 else "i8", lanes)
    bound = w.intrinsic("smax", w.get(op, 0), constant(I64, 0))
    bound = w.intrinsic("smin", bound, constant(I64, lanes))
    limit = w.broadcast(w.cast("trunc", bound, narrow.scalar), lanes)
    w.set(op, w.compare("icmp ult", iota(narrow), limit))


def _shuffle(w: Writer, op: Operation) -> None:
    assert isinstance(op, vector.ShuffleOp)
    a, b = w.get(op, 0), w.get(op, 1)
    numbers = op.mask.get_values()
    lanes = ", ".join("i32 poison" if n < 0 else f"i32 {n}" for n in numbers)
    mask = f"<{len(numbers)} x i32> <{lanes}>"
    result = type_of(op.result.type)
    w.set(op, w.push(result, f"shufflevector {a.typed}, {b.typed}, {mask}"))


_REDUCTIONS = {
    "add": "add",
    "mul": "mul",
    "minsi": "smin",
    "maxsi": "smax",
    "minui": "umin",
    "maxui": "umax",
    "and": "and",
    "or": "or",
    "xor": "xor",
}
"""The NAME of `llvm.vector.reduce.NAME` for integers, by `vector.kind`. The instruction or
intrinsic that combines two values has the same name."""

_INSTRUCTIONS = frozenset(("add", "mul", "and", "or", "xor"))
"""The names of reductions for which an instruction, and not an intrinsic, combines two values."""


def _reduce_float_sum(w: Writer, kind: str, value: LLValue, start: LLValue | None) -> LLValue:
    """Write the sum or product of a vector's lanes. LLVM may reorder the operations (`reassoc`), so
    that they form a tree; a chain of dependent operations would be slow."""
    neutral = constant(value.type.scalar, -0.0 if kind == "add" else 1.0)
    name = f"llvm.vector.reduce.f{kind}.{value.type.mangled}"
    return w.call(value.type.scalar, name, start or neutral, value, flags="reassoc ")


def _reduce_extreme(
    w: Writer, kind: str, value: LLValue, start: LLValue | None, flags: str
) -> LLValue:
    result = reduce_minmax(w, kind, value, flags)
    return minmax(w, kind, start, result, flags) if start else result


def _reduce_integers(w: Writer, kind: str, value: LLValue, start: LLValue | None) -> LLValue:
    name = _REDUCTIONS[kind]
    result = w.call(value.type.scalar, f"llvm.vector.reduce.{name}.{value.type.mangled}", value)
    if start is None:
        return result
    join = w.binary if name in _INSTRUCTIONS else w.intrinsic
    return join(name, start, result)


def _reduction(w: Writer, op: Operation) -> None:
    attribute = op.properties["kind"]
    assert isinstance(attribute, vector.CombiningKindAttr)
    kind = attribute.data.value
    value = w.get(op, 0)
    start = w.get(op, 1) if len(op.operands) > 1 else None
    if value.type.is_float and kind in MINMAX:
        w.set(op, _reduce_extreme(w, kind, value, start, _no_nans(op)))
        return
    reduce = _reduce_float_sum if value.type.is_float else _reduce_integers
    w.set(op, reduce(w, kind, value, start))


def _no_nans(op: Operation) -> str:
    """Return LLVM's `nnan` flag if the op says that no operand is NaN, otherwise an empty text."""
    return "nnan " if has_flag(op, FastMathFlag.NO_NANS) else ""


def has_flag(op: Operation, flag: FastMathFlag) -> bool:
    """Return whether an op carries a flag of `fastmath`."""
    flags = op.properties.get("fastmath")
    return isinstance(flags, FastMathFlagsAttr) and flag in flags.data


VECTOR: dict[type[Operation], Handler] = {
    vector.FMAOp: _fma,
    vector.BroadcastOp: _broadcast,
    vector.CreateMaskOp: _create_mask,
    vector.ReductionOp: _reduction,
    vector.ShuffleOp: _shuffle,
}
