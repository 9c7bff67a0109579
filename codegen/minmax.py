"""Float minimum and maximum, in the two meanings that `arith` has, as LLVM's intrinsics.

The sign of a zero that results from two zeros of different signs is not specified (`nsz`): with it,
x86 takes one instruction where an operand is a constant, three otherwise, and about six without.
"""

from __future__ import annotations

from tessella.codegen.lltypes import LLValue, vector
from tessella.codegen.writer import Writer
from tessella.targets.table import family_of

MINMAX = {
    "maximumf": "maximum",
    "minimumf": "minimum",
    "maxnumf": "maxnum",
    "minnumf": "minnum",
}
"""The intrinsic for each name that `arith` and `vector.reduction` share.

The first two return NaN if either operand is NaN; the last two return the other operand in that
case.
"""

_REDUCTIONS = {
    "maximumf": "fmaximum",
    "minimumf": "fminimum",
    "maxnumf": "fmax",
    "minnumf": "fmin",
}
"""The NAME of `llvm.vector.reduce.NAME`, which reduces the lanes of a vector, for each name in
``MINMAX``."""


def minmax(w: Writer, kind: str, a: LLValue, b: LLValue, flags: str = "") -> LLValue:
    """Return the minimum or maximum of two values. With the flag `nnan`, no operand may be NaN."""
    name = f"llvm.{MINMAX[kind]}.{a.type.mangled}"
    return w.call(a.type, name, a, b, flags=f"{flags}nsz ")


def reduce_minmax(w: Writer, kind: str, value: LLValue, flags: str = "") -> LLValue:
    """Return the minimum or maximum of all lanes: by halves on x86, where LLVM would write a
    chain."""
    if family_of(w.target).reduces_minmax:
        name = f"llvm.vector.reduce.{_REDUCTIONS[kind]}.{value.type.mangled}"
        return w.call(value.type.scalar, name, value)
    while value.type.lanes > 1 and value.type.lanes % 2 == 0:
        value = minmax(w, kind, *_halves(w, value), flags)
    result = _lane(w, value, 0)
    for lane in range(1, value.type.lanes):
        result = minmax(w, kind, result, _lane(w, value, lane), flags)
    return result


def _lane(w: Writer, value: LLValue, lane: int) -> LLValue:
    return w.push(value.type.scalar, f"extractelement {value.typed}, i64 {lane}")


def _halves(w: Writer, value: LLValue) -> tuple[LLValue, LLValue]:
    half = value.type.lanes // 2
    return _lanes(w, value, 0, half), _lanes(w, value, half, half)


def _lanes(w: Writer, value: LLValue, first: int, count: int) -> LLValue:
    to = vector(value.type.element, count)
    chosen = ", ".join(f"i32 {lane}" for lane in range(first, first + count))
    poison = f"{value.type.text} poison"
    return w.push(to, f"shufflevector {value.typed}, {poison}, <{count} x i32> <{chosen}>")
