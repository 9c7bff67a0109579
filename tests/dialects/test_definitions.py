"""Bounds of integers in the bodies of statements."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerType, i1, i32, i64
from xdsl.ir import Block, SSAValue

from tessella.dialects.tile.definitions import highest
from tessella.kernels.builder import Scalars

Make = Callable[[Scalars, SSAValue, SSAValue], SSAValue]


def least(s: Scalars, x: SSAValue, number: int) -> SSAValue:
    return s.op(arith.MinUIOp(x, s.like(number, x)))


CASES: dict[str, tuple[Make, int | None]] = {
    "an element": (lambda s, x, c: x, None),
    "a constant": (lambda s, x, c: s.like(7, x), 7),
    "a negative constant": (lambda s, x, c: s.like(-7, x), None),
    "a minimum": (lambda s, x, c: least(s, x, 9), 9),
    "a minimum with a negative number": (lambda s, x, c: least(s, x, -1), None),
    "a condition": (lambda s, x, c: c, 1),
    "a wider condition": (lambda s, x, c: s.cast(c, i32), 1),
    "a sum": (lambda s, x, c: s.op(arith.AddiOp(least(s, x, 9), s.cast(c, i32))), 10),
    "a product": (lambda s, x, c: s.op(arith.MuliOp(least(s, x, 9), least(s, x, 5))), 45),
    "a sum with an element": (lambda s, x, c: s.op(arith.AddiOp(least(s, x, 9), x)), None),
    "an index": (lambda s, x, c: s.op(arith.IndexCastOp(least(s, x, 9), IndexType())), 9),
    "an overflow": (
        lambda s, x, c: s.op(arith.MuliOp(least(s, x, 1 << 20), least(s, x, 1 << 20))),
        None,
    ),
    "a difference": (lambda s, x, c: s.op(arith.SubiOp(least(s, x, 9), least(s, x, 5))), None),
    "an extension with a sign": (lambda s, x, c: s.op(arith.ExtSIOp(x, i64)), None),
}


@pytest.mark.parametrize("name", CASES)
def test_the_highest_value(name: str) -> None:
    types: list[IntegerType] = [i32, i1]
    block = Block(arg_types=types)
    make, wanted = CASES[name]
    assert highest(make(Scalars(block), *block.args)) == wanted
