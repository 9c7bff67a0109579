"""Float minimum and maximum, in the two meanings that `arith` has, as short instruction sequences.

x86's `maxps a, b` is `a > b ? a : b`: the second operand where either is NaN. So the order of
operands decides what happens to a NaN, and only two unknown operands need a test of their own.
`llvm.maximum` is one instruction on Arm, but five on x86, because it also orders the zeros: here
the sign of a zero that results from two zeros of different signs is not specified.
"""

from __future__ import annotations

from collections.abc import Callable

from tessella.codegen.lltypes import Value, is_number
from tessella.codegen.writer import Writer

MinMax = Callable[[Writer, Value, Value], Value]


def _select(w: Writer, predicate: str, a: Value, b: Value) -> Value:
    """``a`` where it compares true with ``b``, else ``b``: also where either is NaN."""
    return w.select(w.compare(f"fcmp {predicate}", a, b), a, b)


def _propagating(predicate: str, intrinsic: str) -> MinMax:
    """NaN where either operand is NaN."""

    def emit(w: Writer, a: Value, b: Value) -> Value:
        if w.target.arch == "arm":
            return w.intrinsic(intrinsic, a, b)
        if is_number(b):
            a, b = b, a
        best = _select(w, predicate, a, b)
        if is_number(a):
            return best
        return w.select(w.compare("fcmp uno", a, a), a, best)

    return emit


def _ignoring(predicate: str, intrinsic: str) -> MinMax:
    """The other operand where one is NaN."""

    def emit(w: Writer, a: Value, b: Value) -> Value:
        if w.target.arch == "arm":
            return w.intrinsic(intrinsic, a, b)
        if is_number(a):
            a, b = b, a
        best = _select(w, predicate, a, b)
        if is_number(b):
            return best
        return w.select(w.compare("fcmp uno", b, b), a, best)

    return emit


MINMAX: dict[str, MinMax] = {
    "maximumf": _propagating("ogt", "maximum"),
    "minimumf": _propagating("olt", "minimum"),
    "maxnumf": _ignoring("ogt", "maxnum"),
    "minnumf": _ignoring("olt", "minnum"),
}
"""By the name that `arith` and `vector.reduction` share."""
