"""The code of `rt.dot`: a call of the intrinsic that the op's row in the instruction table
names."""

from __future__ import annotations

from functools import cache

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue

from tessella.codegen.lltypes import LLType, LLValue, vector
from tessella.codegen.writer import Handler, Writer
from tessella.dialects import rt
from tessella.dialects.elements import element_of
from tessella.support.elements import ELEMENTS
from tessella.support.errors import InvalidModelError
from tessella.targets.instructions import Instruction


def _dot(w: Writer, op: Operation) -> None:
    assert isinstance(op, rt.DotOp)
    row, acc = op.row, w.get(op, 0)
    bits = acc.type.lanes * acc.type.bits
    if not row.runs_on(w.target) or bits != w.target.vector_bits:
        needed = [form.feature or row.arch for form in row.forms.values()]
        raise InvalidModelError(
            f"the target {w.target.name} has no {row.name} of {bits} bits",
            expected=f"a target with {' or '.join(dict.fromkeys(needed))}",
            where=str(op),
        )
    pairs = zip((1, 2), (op.a, op.b), strict=True)
    a, b = (_groups(w, row, w.get(op, i), value, acc.type.lanes) for i, value in pairs)
    callee = row.forms[bits].callee
    if row.sums:
        w.set(op, w.binary("add", acc, w.call(acc.type, callee, a, b)))
    else:
        w.set(op, w.call(acc.type, callee, acc, a, b))


def _groups(w: Writer, row: Instruction, value: LLValue, source: SSAValue, lanes: int) -> LLValue:
    """Return an operand of a dot product in the intrinsic's vector type: a group of values for each
    lane, row or column. A single group is broadcast to all lanes."""
    assert isinstance(source.type, VectorType)
    element, size = element_of(source.type.element_type), row.k * row.columns(lanes)
    taken = ELEMENTS[row.takes] if row.takes else element
    if taken.bits != element.bits:
        widened = "zext" if element.kind == "unsigned" else "sext"
        value = w.cast(widened, value, value.type.of(taken.llvm))
    to = _bfloat(size) if taken.name == "bf16" else vector(value.type.element, size)
    if value.type.lanes != size:
        shared = w.cast("bitcast", value, vector(f"i{row.k * value.type.bits}", 0))
        value = w.broadcast(shared, lanes)
    value = value if value.type is to else w.cast("bitcast", value, to)
    return value if size == row.taken(lanes) else _extended(w, value, row.taken(lanes))


def _extended(w: Writer, value: LLValue, size: int) -> LLValue:
    """Extend a vector to ``size`` lanes. The new lanes are poison."""
    given, to = value.type.lanes, vector(value.type.element, size)
    numbers = ", ".join(f"i32 {i}" if i < given else "i32 poison" for i in range(size))
    mask = f"<{size} x i32> <{numbers}>"
    return w.push(to, f"shufflevector {value.typed}, {value.type.text} poison, {mask}")


@cache
def _bfloat(lanes: int) -> LLType:
    """Return the type of bf16 vectors in intrinsics. All other code represents bf16 as i16."""
    return LLType("bf16", lanes, 16, True, f"<{lanes} x bfloat>", f"v{lanes}bf16", "bfloat")


DOT: dict[type[Operation], Handler] = {rt.DotOp: _dot}
