"""`vector`: broadcast, masks, fused multiply-add, reductions."""

from __future__ import annotations

from xdsl.dialects import vector
from xdsl.ir import Operation

from tessella.codegen.lltypes import I64, LLType, Value, constant, type_of
from tessella.codegen.lltypes import vector as vector_type
from tessella.codegen.minmax import MINMAX
from tessella.codegen.writer import Handler, Writer
from tessella.support.errors import InternalError


def fused_multiply_add(w: Writer, a: Value, b: Value, c: Value) -> Value:
    """a * b + c with one rounding; with two where the machine has no such instruction."""
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


def iota(lltype: LLType) -> Value:
    """The lane numbers as a constant."""
    numbers = ", ".join(f"{lltype.scalar_text} {lane}" for lane in range(lltype.lanes))
    return Value(lltype, f"<{numbers}>")


def _create_mask(w: Writer, op: Operation) -> None:
    """Lanes below the bound, which may be negative or more than the lanes."""
    lanes = type_of(op.results[0].type).lanes
    # The comparison takes fewer registers with narrow lane numbers; lanes are far fewer than 2^31.
    narrow = vector_type("i32" if lanes <= 16 or lanes > 64 else "i8", lanes)
    bound = w.intrinsic("smax", w.get(op, 0), constant(I64, 0))
    bound = w.intrinsic("smin", bound, constant(I64, lanes))
    limit = w.broadcast(w.cast("trunc", bound, narrow.scalar), lanes)
    w.set(op, w.compare("icmp ult", iota(narrow), limit))


_INTRINSICS = {
    "add": "add",
    "mul": "mul",
    "minsi": "smin",
    "maxsi": "smax",
    "minui": "umin",
    "maxui": "umax",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "maximumf": "fmaximum",
    "minimumf": "fminimum",
    "maxnumf": "fmax",
    "minnumf": "fmin",
}
"""`llvm.vector.reduce.NAME` by `vector.kind`, for integers, and for floats on Arm."""

_COMBINE = {
    "add": "add",
    "mul": "mul",
    "and": "and",
    "or": "or",
    "xor": "xor",
}
"""The instruction that joins the accumulator to an integer reduction; others are intrinsics."""


def _reduce_float_sum(w: Writer, kind: str, value: Value, start: Value | None) -> Value:
    """A tree, which LLVM may order as it likes (`reassoc`); a chain of additions would be slow."""
    neutral = constant(value.type.scalar, -0.0 if kind == "add" else 1.0)
    return w.call(
        value.type.scalar,
        f"llvm.vector.reduce.f{kind}.{value.type.mangled}",
        start or neutral,
        value,
        flags="reassoc ",
    )


def _halves(w: Writer, value: Value) -> tuple[Value, Value]:
    half = value.type.lanes // 2
    to = vector_type(value.type.element, half)
    low = ", ".join(f"i32 {i}" for i in range(half))
    high = ", ".join(f"i32 {i + half}" for i in range(half))
    poison = f"{value.type.text} poison"
    return (
        w.push(to, f"shufflevector {value.typed}, {poison}, <{half} x i32> <{low}>"),
        w.push(to, f"shufflevector {value.typed}, {poison}, <{half} x i32> <{high}>"),
    )


def _lane(w: Writer, value: Value, lane: int) -> Value:
    return w.push(value.type.scalar, f"extractelement {value.typed}, i64 {lane}")


def _reduce_float_extreme(w: Writer, kind: str, value: Value) -> Value:
    combine = MINMAX[kind]
    while value.type.lanes > 1 and value.type.lanes % 2 == 0:
        value = combine(w, *_halves(w, value))
    result = _lane(w, value, 0)
    for lane in range(1, value.type.lanes):
        result = combine(w, result, _lane(w, value, lane))
    return result


def _reduce_plain(w: Writer, kind: str, value: Value) -> Value:
    name = f"llvm.vector.reduce.{_INTRINSICS[kind]}.{value.type.mangled}"
    return w.call(value.type.scalar, name, value)


def _join(w: Writer, kind: str, start: Value, value: Value) -> Value:
    if kind in MINMAX:
        return MINMAX[kind](w, start, value)
    if kind in _COMBINE:
        return w.binary(_COMBINE[kind], start, value)
    return w.intrinsic(_INTRINSICS[kind], start, value)


def _reduction(w: Writer, op: Operation) -> None:
    attribute = op.properties["kind"]
    assert isinstance(attribute, vector.CombiningKindAttr)
    kind = attribute.data.value
    value = w.get(op, 0)
    start = w.get(op, 1) if len(op.operands) > 1 else None
    if value.type.is_float and kind in ("add", "mul"):
        w.set(op, _reduce_float_sum(w, kind, value, start))
        return
    if kind in MINMAX and w.target.arch != "arm":
        result = _reduce_float_extreme(w, kind, value)
    else:
        result = _reduce_plain(w, kind, value)
    w.set(op, _join(w, kind, start, result) if start else result)


VECTOR: dict[type[Operation], Handler] = {
    vector.FMAOp: _fma,
    vector.BroadcastOp: _broadcast,
    vector.CreateMaskOp: _create_mask,
    vector.ReductionOp: _reduction,
}
