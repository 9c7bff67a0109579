"""Instructions on vectors of a fixed size, applied to values of any number of lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tessella.codegen.lltypes import LLType, LLValue, vector
from tessella.codegen.vecmath.lanes import Lanes
from tessella.codegen.writer import Writer


def in_whole_vectors(width: int, instruction: Callable[..., LLValue], *operands: Lanes) -> Lanes:
    """Return the result of an instruction on vectors of ``width`` lanes, applied to operands of any
    number of lanes. Lanes that fill up a vector are poison."""
    w, lanes = operands[0].w, operands[0].type.lanes
    if lanes == width:
        return Lanes(w, instruction(*(x.value for x in operands)))
    firsts = range(0, max(1, lanes), width)
    parts = [instruction(*(_part(w, x.value, width, first) for x in operands)) for first in firsts]
    if not lanes:
        lltype = parts[0].type.scalar
        return Lanes(w, w.push(lltype, f"extractelement {parts[0].typed}, i64 0"))
    return Lanes(w, _joined(w, parts, lanes))


def _part(w: Writer, value: LLValue, width: int, first: int) -> LLValue:
    """Return ``width`` lanes of a value, from ``first`` on."""
    to = vector(value.type.element, width)
    if not value.type.lanes:
        return w.push(to, f"insertelement {to.text} poison, {value.typed}, i64 0")
    return _shuffle(w, to, [value], first)


def _joined(w: Writer, parts: Sequence[LLValue], lanes: int) -> LLValue:
    """Concatenate vectors, and return the first ``lanes`` lanes."""
    result, *rest = parts
    for part in rest:
        count = result.type.lanes
        wide = vector(part.type.element, count + part.type.lanes)
        if part.type.lanes != count:
            part = _shuffle(w, result.type, [part])
        result = _shuffle(w, wide, [result, part])
    return _shuffle(w, vector(result.type.element, lanes), [result])


def _shuffle(w: Writer, to: LLType, values: Sequence[LLValue], first: int = 0) -> LLValue:
    """Return the lanes from ``first`` on of one value, or of two concatenated values of one type;
    missing lanes are poison."""
    given = values[0].type
    limit = len(values) * given.lanes
    lanes = range(first, first + to.lanes)
    chosen = ", ".join(f"i32 {lane if lane < limit else 'poison'}" for lane in lanes)
    other = values[1].typed if len(values) > 1 else f"{given.text} poison"
    return w.push(to, f"shufflevector {values[0].typed}, {other}, <{to.lanes} x i32> <{chosen}>")
