"""Remove identities, repeated ops and unused ops.

    %1 = nn.reshape %x shape [8]
    %2 = nn.reshape %1 shape [2, 4]
    %3 = nn.splat 1.0 : f32 : tensor<f32>
    %4 = nn.mul %2, %3
    %5 = nn.exp %4
    %6 = nn.exp %4
    ->
    %4 = nn.reshape %x shape [2, 4]
    %5 = nn.exp %4

Every rule is exact, including the sign of zero: ``x + -0.0`` and ``x - 0.0`` are x, but ``x + 0.0``
stays, as it is 0.0 for x = -0.0. ``where(is_nan(p), 0, p)`` after a softmax stays too: a row that
is all -inf makes p NaN.

An op has two kinds of rules: the laws of its traits, and the method ``simplified`` of its class.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import Commutative, OpTrait, Pure

from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn.constants import ConstantOp
from tessella.dialects.nn.core import NnOp, broadcast_shapes, shape_of
from tessella.dialects.nn.known import splat_number
from tessella.dialects.nn.movement import ExpandOp
from tessella.dialects.nn.traits import (
    Idempotent,
    IdentityByType,
    Involution,
    Neutral,
    Overrides,
)
from tessella.passes.base import PROVENANCE, functions
from tessella.passes.kinds import ProgramPass

MAX_ROUNDS = 8
"""The maximum number of rounds for a function, a safety limit: two rounds are usually
sufficient."""

Replacement = SSAValue | Sequence[NnOp] | None
"""A value to use instead, ops to insert (the last one's result is used), or None."""
Rule = Callable[[NnOp], Replacement]


@dataclass(frozen=True)
class EliminateIdentitiesPass(ProgramPass):
    """Remove identities, common subexpressions and dead ops."""

    name = "eliminate-identities"
    stages = ("nn", "placed")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            block = function.body.block
            for _ in range(MAX_ROUNDS):
                # The list makes all three run; ``or`` would stop at the first change.
                if not any([_simplify(block), _share(block), _drop(block)]):
                    break


# ** rounds **


def _simplify(block: Block) -> bool:
    """Apply the rules to all ops. Returns whether any op changed."""
    changed = False
    for op in list(block.ops):
        if isinstance(op, NnOp) and not op.is_fixed:
            changed |= isinstance(op, ew.ElementwiseOp) and _skip_expansions(op)
            changed |= any(_apply(rule, op) for rule in _rules(op))
    return changed


def _apply(rule: Rule, op: NnOp) -> bool:
    """Replace an op by a rule's result if the types are equal. Returns whether it did."""
    found = rule(op)
    if found is None:
        return False
    value = found if isinstance(found, SSAValue) else found[-1].results[0]
    old = op.results[0]
    made: Sequence[NnOp] = () if isinstance(found, SSAValue) else found
    if value.type != old.type:
        for new in reversed(made):
            new.erase()
        return False
    source = {name: op.attributes[name] for name in PROVENANCE if name in op.attributes}
    for new in made:
        if not isinstance(new, ConstantOp):
            new.attributes.update(source)
        Rewriter.insert_op(new, InsertPoint.before(op))
    if isinstance(value.owner, Operation):
        value.name_hint = value.name_hint or old.name_hint
    old.replace_all_uses_with(value)
    Rewriter.erase_op(op)
    return True


def _share(block: Block) -> bool:
    """Replace each op that equals an earlier one by that op. Returns whether any op was
    replaced."""
    known: dict[object, Operation] = {}
    changed = False
    for op in list(block.ops):
        if not isinstance(op, NnOp) or not op.has_trait(Pure):
            continue
        first = known.setdefault(_key(op), op)
        if first is not op:
            for old, new in zip(op.results, first.results, strict=True):
                old.replace_all_uses_with(new)
            Rewriter.erase_op(op)
            changed = True
    return changed


def _key(op: NnOp) -> object:
    """Return a key that is equal for ops with equal results; the source node is not part of it."""
    attributes = {name: value for name, value in op.attributes.items() if name not in PROVENANCE}
    return (
        type(op),
        tuple(op.operands),
        frozenset(op.properties.items()),
        frozenset(attributes.items()),
        tuple(result.type for result in op.results),
    )


def _drop(block: Block) -> bool:
    """Erase unused ops. Returns whether there were any."""
    changed = False
    for op in reversed(list(block.ops)):
        unread = op.results and all(result.first_use is None for result in op.results)
        if unread and op.has_trait(Pure):
            Rewriter.erase_op(op)
            changed = True
    return changed


def _skip_expansions(op: ew.ElementwiseOp) -> bool:
    """Make an elementwise op read the operand of an expand directly, if broadcasting gives the same
    result. Returns whether an operand changed."""
    changed = False
    for i, value in enumerate(op.operands):
        if isinstance(value.owner, ExpandOp):
            shapes = [shape_of(x) for x in op.operands]
            shapes[i] = shape_of(value.owner.x)
            if broadcast_shapes(shapes) == shape_of(op.res):
                op.operands[i] = value.owner.x
                changed = True
    return changed


# ** laws **


def _skip_inner(op: NnOp) -> Replacement:
    """Simplify f_q(f_p(x)) to f_q(x), where p and q are settings of the ops."""
    inner = op.operands[0].owner
    if not isinstance(inner, NnOp) or type(inner) is not type(op):
        return None
    settings: dict[str, Any] = {**op.setting_properties}
    return [type(op).make(inner.operands, **settings)]


def _idempotent(op: NnOp) -> Replacement:
    """Simplify f(f(x)) to f(x)."""
    return op.operands[0] if type(op.operands[0].owner) is type(op) else None


def _involution(op: NnOp) -> Replacement:
    """Simplify f(f(x)) to x."""
    inner = op.operands[0].owner
    return inner.operands[0] if isinstance(inner, NnOp) and type(inner) is type(op) else None


def _neutral(op: NnOp) -> Replacement:
    """Simplify f(x, n) to x, where n is the neutral element of f."""
    neutral, (lhs, rhs) = op.get_trait(Neutral), op.operands
    if neutral is None:
        return None
    if _is_number(rhs, neutral.number):
        return lhs
    return rhs if op.has_trait(Commutative) and _is_number(lhs, neutral.number) else None


def _is_number(value: SSAValue, wanted: float) -> bool:
    """Return whether a splat has this number; a floating-point zero must have the same sign."""
    found = splat_number(value)
    if isinstance(found, float) and found == wanted == 0.0:
        return math.copysign(1, found) == math.copysign(1, wanted)
    return found == wanted


_LAWS: Mapping[type[OpTrait], Rule] = {
    IdentityByType: lambda op: op.operands[0],
    Overrides: _skip_inner,
    Idempotent: _idempotent,
    Involution: _involution,
    Neutral: _neutral,
}
"""The rule for each trait. A rule applies only if the types are equal."""


def _rules(op: NnOp) -> Iterator[Rule]:
    yield from (rule for trait, rule in _LAWS.items() if op.has_trait(trait))
    yield type(op).simplified
