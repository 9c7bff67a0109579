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
from xdsl.traits import OpTrait, Pure

from tessella.dialects.elements import element_of
from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn.constants import SplatOp
from tessella.dialects.nn.core import (
    NnOp,
    PyValue,
    broadcast_shapes,
    is_float,
    shape_of,
    tensor_type,
)
from tessella.dialects.nn.indexing import GatherOp
from tessella.dialects.nn.movement import (
    ConcatOp,
    ExpandOp,
    PadOp,
    ReshapeOp,
    SliceOp,
    TileOp,
    TransposeOp,
)
from tessella.dialects.nn.traits import Idempotent, Involution
from tessella.passes.base import PROVENANCE, functions
from tessella.passes.counted import compared
from tessella.passes.kinds import ProgramPass
from tessella.runtime.weights import WeightStore
from tessella.support.decisions import at_most
from tessella.support.sizes import Size, bounds_of

MAX_ROUNDS = 8
"""A limit for safety: a round seldom leaves more than the next one finds."""

Replacement = SSAValue | Sequence[Operation] | None
"""A value to use instead, ops to put in the place (the last one's result is used), or nothing."""
Rule = Callable[[Any], Replacement]


@dataclass(frozen=True)
class EliminateIdentitiesPass(ProgramPass):
    """Remove identities, common subexpressions and dead ops."""

    name = "eliminate-identities"
    stages = ("nn", "placed")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            block = function.body.block
            for _ in range(MAX_ROUNDS):
                # all three, whatever the first ones find
                if not any([_simplify(block), _share(block), _drop(block)]):
                    break


# ** rounds **


def _simplify(block: Block) -> bool:
    """Apply the rules to all ops. Returns whether any op changed."""
    changed = False
    for op in list(block.ops):
        if isinstance(op, NnOp) and op.kernel is None:
            changed |= isinstance(op, ew.ElementwiseOp) and _skip_expansions(op)
            changed |= any(_apply(rule, op) for rule in _rules(op))
    return changed


def _apply(rule: Rule, op: NnOp) -> bool:
    """Replace the op by a rule's result if the type is the same. Returns whether it did."""
    found = rule(op)
    if found is None:
        return False
    value = found if isinstance(found, SSAValue) else found[-1].results[0]
    old = op.results[0]
    made: Sequence[Operation] = () if isinstance(found, SSAValue) else found
    if value.type != old.type:
        for new in reversed(made):
            new.erase()
        return False
    for new in made:
        Rewriter.insert_op(new, InsertPoint.before(op))
    if isinstance(value.owner, Operation):
        value.name_hint = value.name_hint or old.name_hint
    old.replace_all_uses_with(value)
    Rewriter.erase_op(op)
    return True


def _share(block: Block) -> bool:
    """Replace equal ops by the first of them. Returns whether there were any."""
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
    """A key that is equal for ops that compute the same. The source node is not part of it."""
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
    """Bypass an expand whose user broadcasts anyway. Returns whether there was any."""
    changed = False
    for i, value in enumerate(op.operands):
        if isinstance(value.owner, ExpandOp):
            shapes = [shape_of(x) for x in op.operands]
            shapes[i] = shape_of(value.owner.x)
            if broadcast_shapes(shapes) == shape_of(op.res):
                op.operands[i] = value.owner.x
                changed = True
    return changed


# ** ops that move elements **


def _same(op: NnOp) -> Replacement:
    """The operand, if the result has its type."""
    return op.operands[0]


def _made(
    kind: type[NnOp], like: NnOp, *operands: SSAValue, **properties: PyValue
) -> Sequence[Operation]:
    """An op in the place of another one."""
    new = kind.make(operands, node=None, **properties)
    known = [name for name in PROVENANCE if name in like.attributes]
    new.attributes.update((name, like.attributes[name]) for name in known)
    return [new]


def _reshape_twice(op: ReshapeOp) -> Replacement:
    """reshape(reshape(x, _), s) = reshape(x, s)"""
    inner = op.x.owner
    return _made(ReshapeOp, op, inner.x, shape=op.shape) if isinstance(inner, ReshapeOp) else None


def _expand_twice(op: ExpandOp) -> Replacement:
    """expand(expand(x, _), s) = expand(x, s)"""
    inner = op.x.owner
    return _made(ExpandOp, op, inner.x, shape=op.shape) if isinstance(inner, ExpandOp) else None


def _transpose_nothing(op: TransposeOp) -> Replacement:
    """transpose(x, [0, 1, ..]) = x"""
    perm = op.settings["perm"]
    return op.x if perm == tuple(range(len(perm))) else None


def _transpose_twice(op: TransposeOp) -> Replacement:
    """transpose(transpose(x, p), q) = transpose(x, [p[i] for i in q])"""
    inner = op.x.owner
    if not isinstance(inner, TransposeOp):
        return None
    first = inner.settings["perm"]
    return _made(TransposeOp, op, inner.x, perm=tuple(first[i] for i in op.settings["perm"]))


def _slice_everything(op: SliceOp) -> Replacement:
    """slice(x, 0:size:1) = x; with at most one element the step does not matter."""
    settings = op.settings
    columns = (settings["starts"], settings["steps"], shape_of(op.x))
    whole = all(
        (start, step) == (0, 1) or at_most(n, 1) for start, step, n in zip(*columns, strict=True)
    )
    return op.x if whole else None


def _gather_one(op: GatherOp) -> Replacement:
    """gather(x, i) = reshape(x[i:i+1]) where i is one known index, and inside x for all sizes"""
    index, shape, axis = _number(op.indices), shape_of(op.data), op.settings["axis"]
    least = [bounds_of(n)[0] for n in shape]
    one = all(n == 1 for n in shape_of(op.indices))
    if index is None or not one or not all(least) or not -least[axis] <= index < least[axis]:
        return None
    starts: list[Size] = [0] * len(shape)
    starts[axis] = int(index) if index >= 0 else shape[axis] + int(index)
    sizes, steps = (*shape[:axis], 1, *shape[axis + 1 :]), (1,) * len(shape)
    part = _made(SliceOp, op, op.data, starts=tuple(starts), sizes=sizes, steps=steps)
    whole = _made(ReshapeOp, op, part[0].results[0], shape=shape_of(op.res))
    return [*part, *whole]


def _concat_nothing(op: ConcatOp) -> Replacement:
    """concat(x) = x; operands without elements are dropped."""
    axis = op.settings["axis"]
    filled = [x for x in op.operands if shape_of(x)[axis]] or [op.operands[0]]
    if len(filled) == 1:
        return filled[0]
    return _made(ConcatOp, op, *filled, axis=axis) if len(filled) < len(op.operands) else None


# ** elementwise ops **


def _number(value: SSAValue) -> float | int | None:
    """The number that all elements of a value equal, if it is known."""
    return value.owner.number if isinstance(value.owner, SplatOp) else None


def _is_zero(number: float | int | None, sign: float) -> bool:
    """Whether a number is zero: the integer, or the float with this sign."""
    return number == 0 and (not isinstance(number, float) or math.copysign(1, number) == sign)


def _add_zero(op: ew.BinaryOp) -> Replacement:
    """x + -0.0 = x"""
    if _is_zero(_number(op.rhs), -1):
        return op.lhs
    return op.rhs if _is_zero(_number(op.lhs), -1) else None


def _sub_zero(op: ew.BinaryOp) -> Replacement:
    """x - 0.0 = x"""
    return op.lhs if _is_zero(_number(op.rhs), 1) else None


def _mul_one(op: ew.BinaryOp) -> Replacement:
    """x * 1 = x"""
    if _number(op.rhs) == 1:
        return op.lhs
    return op.rhs if _number(op.lhs) == 1 else None


def _right_one(op: ew.BinaryOp) -> Replacement:
    """x / 1 = x and x ^ 1 = x"""
    return op.lhs if _number(op.rhs) == 1 else None


def _square(op: ew.BinaryOp) -> Replacement:
    """x ^ 2 = x * x"""
    return _made(ew.MulOp, op, op.lhs, op.lhs) if _number(op.rhs) == 2 else None


def _div_power_of_two(op: ew.BinaryOp) -> Replacement:
    """x / 2^k = x * 2^-k, if both powers are normal numbers of the type."""
    number, type = _number(op.rhs), tensor_type(op.rhs)
    if number is None or not is_float(type.element_type):
        return None
    fraction, exponent = math.frexp(number)
    most = 1 / element_of(type).least_normal
    if abs(fraction) != 0.5 or not 1 / most <= math.ldexp(0.5, exponent) <= most:
        return None
    inverse = SplatOp(1 / number, type)
    return [inverse, *_made(ew.MulOp, op, op.lhs, inverse.res)]


def _and_true(op: ew.BinaryOp) -> Replacement:
    """x and true = x"""
    if _number(op.rhs):
        return op.lhs
    return op.rhs if _number(op.lhs) else None


def _or_false(op: ew.BinaryOp) -> Replacement:
    """x or false = x"""
    if _number(op.rhs) is False:
        return op.lhs
    return op.rhs if _number(op.lhs) is False else None


def _where_known(op: ew.WhereOp) -> Replacement:
    """where(true, x, y) = x and where(false, x, y) = y; where(c, x, x) = x"""
    condition = _number(op.condition)
    if condition is None and op.lhs is not op.rhs:
        return None
    branch = op.rhs if condition is False else op.lhs
    if branch.type == op.res.type:
        return branch
    return _made(ExpandOp, op, branch, shape=shape_of(op.res))


def _always(op: ew.CompareOp) -> Replacement:
    """i <= j = true where i and j are positions of which all of i come before all of j"""
    known = compared(op, WeightStore())
    return None if known is None else [SplatOp(known, tensor_type(op.res))]


def _clip_nothing(op: ew.UnaryOp) -> Replacement:
    """clip(x, -inf, inf) = x"""
    settings = op.settings
    return op.x if (settings["low"], settings["high"]) == (-math.inf, math.inf) else None


def _idempotent(op: ew.UnaryOp) -> Replacement:
    """f(f(x)) = f(x)"""
    return op.x if type(op.x.owner) is type(op) else None


def _involution(op: ew.UnaryOp) -> Replacement:
    """f(f(x)) = x"""
    inner = op.x.owner
    return inner.operands[0] if isinstance(inner, NnOp) and type(inner) is type(op) else None


RULES: dict[type[NnOp], Sequence[Rule]] = {
    # ** movement **
    ReshapeOp: (_same, _reshape_twice),
    ExpandOp: (_same, _expand_twice),
    TransposeOp: (_transpose_nothing, _transpose_twice),
    SliceOp: (_slice_everything,),
    GatherOp: (_gather_one,),
    PadOp: (_same,),  # the shape stays only if nothing is added
    TileOp: (_same,),
    ConcatOp: (_concat_nothing,),
    # ** arithmetic **
    ew.CastOp: (_same,),
    ew.AddOp: (_add_zero,),
    ew.SubOp: (_sub_zero,),
    ew.MulOp: (_mul_one,),
    ew.DivOp: (_right_one, _div_power_of_two),
    ew.PowOp: (_right_one, _square),
    ew.ClipOp: (_clip_nothing,),
    # ** booleans **
    **dict.fromkeys((ew.LessOp, ew.LessEqualOp, ew.GreaterOp, ew.GreaterEqualOp), (_always,)),
    ew.AndOp: (_and_true,),
    ew.OrOp: (_or_false,),
    ew.WhereOp: (_where_known,),
}
"""What may stand instead of an op; a rule counts only where the type is the same."""

_RULES_OF_TRAITS: Mapping[type[OpTrait], Rule] = {
    Idempotent: _idempotent,
    Involution: _involution,
}


def _rules(op: NnOp) -> Iterator[Rule]:
    yield from RULES.get(type(op), ())
    yield from (rule for trait, rule in _RULES_OF_TRAITS.items() if op.has_trait(trait))
