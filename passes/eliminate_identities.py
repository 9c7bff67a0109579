"""Remove ops that change nothing, and ops whose results nobody reads.

    %1 = nn.transpose %x {perm = array<i64: 0, 2, 1>}
    %2 = nn.transpose %1 {perm = array<i64: 0, 2, 1>}
    %3 = nn.reshape %2 {shape = array<i64: 2, 3, 4>} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
    %y = nn.mul %3, %one
    ->
    %x

Every rule is exact: ``x + 0`` is kept, as it turns -0.0 into 0.0, ``x + -0.0`` is not; a division by a power of two
becomes a multiplication.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import Pure

from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn import movement
from tessella.dialects.nn.constants import SplatOp
from tessella.dialects.nn.core import NnOp, is_float, shape_of, tensor_type
from tessella.passes.base import functions

ROUNDS = 8
"""Rounds of rewriting at most; one is enough for chains in program order."""

Rule = Callable[[NnOp], SSAValue | None]
"""Gives a value to use in place of the op's only result, or None."""


@dataclass(frozen=True)
class EliminateIdentitiesPass(ModulePass):
    """Remove identities, merge movements, and drop dead ops."""

    name = "eliminate-identities"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            for _ in range(ROUNDS):
                if not _rewrite(function):
                    break
            _drop_dead(function)


def _rewrite(function: FuncOp) -> bool:
    changed = False
    for op in list(function.body.block.ops):
        for kind, rule in RULES:
            if isinstance(op, kind) and (value := rule(op)) is not None:
                value.name_hint = value.name_hint or op.results[0].name_hint
                op.results[0].replace_all_uses_with(value)
                Rewriter.erase_op(op)
                changed = True
                break
    return changed


def _drop_dead(function: FuncOp) -> None:
    for op in reversed(list(function.body.block.ops)):
        if (
            isinstance(op, NnOp)
            and op.has_trait(Pure)
            and all(r.first_use is None for r in op.results)
        ):
            Rewriter.erase_op(op)


def _insert(op: NnOp, new: NnOp) -> SSAValue:
    Rewriter.insert_op(new, InsertPoint.before(op))
    return new.results[0]


def _same_type(op: NnOp) -> SSAValue | None:
    """A movement or cast whose result has its operand's type."""
    x = op.operands[0]
    return x if x.type == op.results[0].type else None


def _reshape(op: NnOp) -> SSAValue | None:
    if (same := _same_type(op)) is not None:
        return same
    inner = op.operands[0].owner
    if isinstance(inner, movement.ReshapeOp):
        shape = shape_of(op.results[0])
        return _insert(op, movement.ReshapeOp.make([inner.x], shape=shape, node=op.node))
    return None


def _transpose(op: NnOp) -> SSAValue | None:
    perm: tuple[int, ...] = op.settings["perm"]
    x = op.operands[0]
    inner = x.owner
    if perm == tuple(range(len(perm))):
        return x
    if isinstance(inner, movement.TransposeOp):
        first: tuple[int, ...] = inner.settings["perm"]
        merged = tuple(first[p] for p in perm)
        return _insert(op, movement.TransposeOp.make([inner.x], perm=merged, node=op.node))
    moved = [p for p in perm if shape_of(x)[p] != 1]
    if moved == sorted(moved):
        # only dimensions of size 1 change places: the memory stays as it is
        shape = shape_of(op.results[0])
        return _insert(op, movement.ReshapeOp.make([x], shape=shape, node=op.node))
    return None


def _slice(op: NnOp) -> SSAValue | None:
    return _same_type(op) if all(s == 1 for s in op.settings["steps"]) else None


def _concat(op: NnOp) -> SSAValue | None:
    return op.operands[0] if len(op.operands) == 1 else None


def _clip(op: NnOp) -> SSAValue | None:
    settings = op.settings
    return op.operands[0] if (settings["low"], settings["high"]) == (-math.inf, math.inf) else None


def _idempotent(op: NnOp) -> SSAValue | None:
    inner = op.operands[0].owner
    return op.operands[0] if isinstance(inner, type(op)) else None


def _splat(value: SSAValue) -> float | None:
    return value.owner.number if isinstance(value.owner, SplatOp) else None


def _is_negative_zero(value: float | None) -> bool:
    return value == 0 and isinstance(value, float) and math.copysign(1.0, value) < 0


def _neutral_operand(op: NnOp, number: float, *, both: bool) -> SSAValue | None:
    """The other operand, where one is a splat of this number and the shape stays."""
    pairs = [(op.operands[0], op.operands[1])] + [(op.operands[1], op.operands[0])] * both
    for x, other in pairs:
        if _splat(other) == number and x.type == op.results[0].type:
            return x
    return None


def _mul(op: NnOp) -> SSAValue | None:
    return _neutral_operand(op, 1, both=True)


def _add(op: NnOp) -> SSAValue | None:
    float_add = is_float(tensor_type(op.results[0]).element_type)
    for x, other in (op.operands, reversed(op.operands)):
        exact = _is_negative_zero(_splat(other)) if float_add else _splat(other) == 0
        if exact and x.type == op.results[0].type:
            return x
    return None


def _sub(op: NnOp) -> SSAValue | None:
    zero = _splat(op.operands[1])
    return None if _is_negative_zero(zero) else _neutral_operand(op, 0, both=False)


def _div(op: NnOp) -> SSAValue | None:
    if (x := _neutral_operand(op, 1, both=False)) is not None:
        return x
    number = _splat(op.operands[1])
    if number is None or not is_float(tensor_type(op.results[0]).element_type):
        return None
    mantissa, exponent = math.frexp(number)
    if abs(mantissa) != 0.5 or not -100 < exponent < 100:
        return None
    inverse = SplatOp(1 / number, tensor_type(op.operands[1]))
    return _insert(op, ew.MulOp.make([op.operands[0], _insert(op, inverse)], node=op.node))


def _pow(op: NnOp) -> SSAValue | None:
    if (x := _neutral_operand(op, 1, both=False)) is not None:
        return x
    x = op.operands[0]
    if _splat(op.operands[1]) == 2 and x.type == op.results[0].type:
        return _insert(op, ew.MulOp.make([x, x], node=op.node))
    return None


def _where(op: NnOp) -> SSAValue | None:
    condition = _splat(op.operands[0])
    if condition is None:
        return None
    x = op.operands[1 if condition else 2]
    return x if x.type == op.results[0].type else None


RULES: tuple[tuple[type[Operation], Rule], ...] = (
    (movement.ReshapeOp, _reshape),
    (movement.TransposeOp, _transpose),
    (movement.SliceOp, _slice),
    (movement.ConcatOp, _concat),
    (movement.PadOp, _same_type),
    (movement.ExpandOp, _same_type),
    (movement.TileOp, _same_type),
    (ew.CastOp, _same_type),
    (ew.ClipOp, _clip),
    (ew.ReluOp, _idempotent),
    (ew.MulOp, _mul),
    (ew.AddOp, _add),
    (ew.SubOp, _sub),
    (ew.DivOp, _div),
    (ew.PowOp, _pow),
    (ew.WhereOp, _where),
)
