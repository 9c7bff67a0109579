"""Float minimum and maximum, in the two meanings that `arith` has, as LLVM's intrinsics.

The sign of a zero that results from two zeros of different signs is not specified (`nsz`): with it,
x86 takes one instruction where an operand is a constant, three otherwise, and about six without.
"""

from __future__ import annotations

from tessella.codegen.lltypes import Value
from tessella.codegen.writer import Writer

MINMAX = {
    "maximumf": "maximum",
    "minimumf": "minimum",
    "maxnumf": "maxnum",
    "minnumf": "minnum",
}
"""The intrinsic by the name that `arith` and `vector.reduction` share.

The first two give NaN where either operand is NaN, the others then give the other operand.
"""

REDUCTIONS = {
    "maximumf": "fmaximum",
    "minimumf": "fminimum",
    "maxnumf": "fmax",
    "minnumf": "fmin",
}
"""The same for the reduction of a vector."""


def minmax(w: Writer, kind: str, a: Value, b: Value) -> Value:
    """The minimum or maximum of that kind."""
    name = f"llvm.{MINMAX[kind]}.{a.type.mangled}"
    return w.call(a.type, name, a, b, flags="nsz ")


def reduce_minmax(w: Writer, kind: str, value: Value) -> Value:
    """The minimum or maximum of all lanes."""
    name = f"llvm.vector.reduce.{REDUCTIONS[kind]}.{value.type.mangled}"
    return w.call(value.type.scalar, name, value, flags="nsz ")
