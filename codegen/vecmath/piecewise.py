"""Odd functions by intervals, with coefficients that lanes look up in registers.

Where an instruction selects lanes of one or two vectors by index, a polynomial of low degree for
each interval takes fewer instructions than one formula for all arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

from tessella.codegen.lltypes import LLValue, vector, vector_constant
from tessella.codegen.vecmath.exponential import FORMATS
from tessella.codegen.vecmath.lanes import Lanes, fma, where
from tessella.codegen.vecmath.pieces import Pieces
from tessella.codegen.vecmath.whole import in_whole_vectors


def piecewise(x: Lanes, pieces: Pieces) -> Lanes:
    """Return the value at x of the odd function that ``pieces`` describes."""
    a = x.abs().at_most(pieces.end)
    magic = FORMATS[x.type.bits].magic
    shifted = fma(a, 1 / pieces.width, magic)
    r = fma(shifted - magic, -pieces.width, a)
    number = shifted.bits()
    first, *rest = (lookup(number, column) for column in pieces.coefficients)
    result = rest[-1]
    for coefficient in reversed(rest[:-1]):
        result = fma(result, r, coefficient)
    return fma(result, r, where(first.is_("ogt", r), first, r)).with_sign_of(x)


def lookup(index: Lanes, table: Sequence[float]) -> Lanes:
    """Return the table entry at each lane's index. The table has as many entries as one or two
    vectors have lanes.

    Only the low bits of the index count.
    """
    w, lanes = index.w, index.w.target.table_lanes
    to = vector("f32", lanes)
    parts = [vector_constant(to, table[i : i + lanes]) for i in range(0, len(table), lanes)]
    bits = to.lanes * to.bits

    def instruction(places: LLValue) -> LLValue:
        name = w.target.takes_lanes[len(parts) - 1].format(bits=bits)
        return w.call(to, name, parts[0], places, *parts[1:])

    return in_whole_vectors(lanes, instruction, index)
