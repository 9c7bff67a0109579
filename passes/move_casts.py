"""Cast where a tensor has fewest elements: before an op that repeats them, after one that drops
some.

    %1 = nn.expand %x : tensor<64xf32, #f32>
    %2 = place.cast %1 : tensor<64xf32, #f32> -> tensor<64xf32, #f64>
    ->
    %1 = place.cast %x : tensor<1xf32, #f32> -> tensor<1xf32, #f64>
    %2 = nn.expand %1 : tensor<64xf32, #f64>

A cast moves across an op if the op only moves elements of one operand (``MovesElements``), has a
kernel for all precisions, and the value between them has no other use. Changes of layout are placed
where they cost least when kernels are picked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tessella import kernels
from tessella.dialects.nn.core import NnOp, shape_of, tensor_type
from tessella.dialects.nn.traits import MovesElements
from tessella.dialects.place import CastOp, PlaceAttr, place_of, precision_of
from tessella.kernels.elements import Elements
from tessella.kernels.registry import picked_kernel
from tessella.passes.base import functions
from tessella.passes.kinds import ProgramPass
from tessella.support.conditions import always
from tessella.support.sizes import product


@dataclass(frozen=True)
class MoveCastsPass(ProgramPass):
    """Move `place.cast` to where a tensor has fewest elements."""

    name = "move-casts"
    stages = ("nn", "placed")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels.load()
        for function in functions(op):
            ops = reversed(list(function.body.block.ops))
            casts = [inner for inner in ops if isinstance(inner, CastOp)]
            while casts:
                moved = _moved(casts.pop())
                if moved is not None:
                    casts.append(moved)


def _moved(cast: CastOp) -> CastOp | None:
    """Return the cast that replaces this one on the other side of an op; None if it stays."""
    op, (start, end) = cast.source.owner, map(_precision, (cast.source, cast.res))
    if _passes(op, end) and cast.source.has_one_use() and _has_fewer(op.operands[0], op.results[0]):
        return _hoist(cast, op)
    op = cast.res.get_user_of_unique_use()
    if _passes(op, start) and _has_fewer(op.results[0], op.operands[0]):
        return _sink(cast, op)
    return None


def _passes(op: object, precision: str) -> TypeGuard[NnOp]:
    """Return whether an op only moves elements of one operand, and its kernel also runs in the
    element type ``precision``, so that a cast can move across the op."""
    if not isinstance(op, NnOp) or op.get_trait(MovesElements) != MovesElements():
        return False
    elements = Elements((precision,), precision, (precision,))
    return len(op.operands) == 1 and picked_kernel(op).row(elements) is not None


def _precision(value: SSAValue) -> str:
    return precision_of(tensor_type(value).element_type)


def _has_fewer(a: SSAValue, b: SSAValue) -> bool:
    """Return whether ``a`` never has more elements than ``b``, and may have fewer, for values of
    symbols."""
    first, second = product(shape_of(a)), product(shape_of(b))
    return always(first <= second) and not always(second <= first)


def _hoist(cast: CastOp, op: NnOp) -> CastOp | None:
    """Move a cast of an op's result to the op's operand. Returns the new cast; None if an existing
    one is used."""
    end = place_of(cast.res.type)
    assert end is not None
    there = _in_precision(op.operands[0], end)
    known = next(
        (u.operation for u in op.operands[0].uses if _is_cast(u.operation, there, op)), None
    )
    new = known or CastOp(op.operands[0], there)
    if known is None:
        Rewriter.insert_op(new, InsertPoint.before(op))
    _place(op, new.res, end)
    Rewriter.replace_op(cast, [], [op.results[0]])
    return new if known is None else None


def _is_cast(op: Operation, place: PlaceAttr, before: Operation) -> TypeGuard[CastOp]:
    """Return whether an op is a cast to ``place``, anywhere before the op ``before`` in its
    block."""
    is_cast = isinstance(op, CastOp) and place_of(op.res.type) == place
    return is_cast and op.is_before_in_block(before)


def _sink(cast: CastOp, op: NnOp) -> CastOp:
    """Move a cast of an op's operand to the op's result. Returns the new cast."""
    start, end = place_of(cast.source.type), place_of(op.results[0].type)
    assert start is not None
    assert end is not None
    _place(op, cast.source, _in_precision(op.results[0], start))
    new = CastOp(op.results[0], end)
    Rewriter.insert_op(new, InsertPoint.after(op))
    op.results[0].replace_uses_with_if(new.res, lambda use: use.operation is not new)
    Rewriter.erase_op(cast)
    return new


def _in_precision(value: SSAValue, other: PlaceAttr) -> PlaceAttr:
    """Return the place of a value, with the element type of another place."""
    place = place_of(value.type)
    assert place is not None
    return place.replaced(precision=other.precision.data)


def _place(op: NnOp, x: SSAValue, place: PlaceAttr) -> None:
    """Make an op read ``x``, and change the place of its result."""
    op.operands[0] = x
    op.place_results([place])
