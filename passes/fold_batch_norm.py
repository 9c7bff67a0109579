"""Fold batch normalization, and what scales or shifts channels, into a convolution's weights.

    %y = nn.conv %x, %w {...}
    %z = nn.batch_norm %y, %scale, %bias, %mean, %variance {epsilon = 1.0e-05 : f64}
    ->
    %s = scale * 1 / sqrt(variance + epsilon)        // ops on constants: fold-constants evaluates them
    %t = bias - mean * s
    %v = nn.mul %w, reshape(%s)
    %z = nn.conv %x, %v, %t {...}

A batch normalization with constant parameters becomes a multiplication and an addition for each channel;
a multiplication by, or an addition of, a constant for each channel directly behind a convolution whose result
has no other use moves into the convolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.nn.constants import SplatOp
from tessella.dialects.nn.core import NnOp, PyValue, is_float, shape_of, tensor, tensor_type
from tessella.dialects.nn.elementwise import AddOp, MulOp, ReciprocalOp, SqrtOp, SubOp
from tessella.dialects.nn.linear import ConvOp
from tessella.dialects.nn.movement import ExpandOp, ReshapeOp
from tessella.dialects.nn.normalization import BatchNormOp
from tessella.passes.base import functions


@dataclass(frozen=True)
class FoldBatchNormPass(ModulePass):
    """Make batch normalizations part of the convolutions before them."""

    name = "fold-batch-norm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            for inner in list(function.body.block.ops):
                if isinstance(inner, BatchNormOp) and is_constant_tree(inner.operands[1:]):
                    _to_scale_and_shift(inner)
            for inner in list(function.body.block.ops):
                if isinstance(inner, MulOp | AddOp):
                    _into_conv(inner)


def is_constant_tree(values: Sequence[SSAValue]) -> bool:
    """Whether values depend on constants alone, within a few ops."""
    todo, budget = list(values), 32
    while todo and budget:
        owner, budget = todo.pop().owner, budget - 1
        if not isinstance(owner, NnOp):
            return False
        todo += owner.operands
    return not todo


class _Before:
    """Inserts ops in front of another one."""

    def __init__(self, anchor: Operation, node: str) -> None:
        self.anchor = anchor
        self.node = node

    def op(
        self, kind: type[NnOp], operands: Sequence[SSAValue], **settings: PyValue | None
    ) -> SSAValue:
        op = kind.make(operands, node=self.node, **settings)
        Rewriter.insert_op(op, InsertPoint.before(self.anchor))
        return op.results[0]

    def splat(self, value: float, like: SSAValue) -> SSAValue:
        op = SplatOp(value, tensor(tensor_type(like).element_type, ()))
        Rewriter.insert_op(op, InsertPoint.before(self.anchor))
        return op.res


def _to_scale_and_shift(op: BatchNormOp) -> None:
    new = _Before(op, op.node)
    epsilon = new.splat(op.settings["epsilon"], op.variance)
    root = new.op(SqrtOp, [new.op(AddOp, [op.variance, epsilon])])
    scale = new.op(MulOp, [op.scale, new.op(ReciprocalOp, [root])])
    shift = new.op(SubOp, [op.bias, new.op(MulOp, [op.mean, scale])])
    shape = (shape_of(op.x)[1], *[1] * (len(shape_of(op.x)) - 2))
    scale, shift = (new.op(ReshapeOp, [v], shape=shape) for v in (scale, shift))
    result = new.op(AddOp, [new.op(MulOp, [op.x, scale]), shift])
    result.name_hint = op.res.name_hint
    op.res.replace_all_uses_with(result)
    Rewriter.erase_op(op)


def _into_conv(op: MulOp | AddOp) -> None:
    for x, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        conv = x.owner
        if (
            isinstance(conv, ConvOp)
            and x.has_one_use()
            and is_float(tensor_type(x).element_type)
            and is_constant_tree([conv.w, other, *([conv.b] if conv.b is not None else [])])
            and _is_per_channel(shape_of(other), shape_of(x))
        ):
            _rewrite(op, conv, other)
            return


def _is_per_channel(shape: Sequence[int], target: Sequence[int]) -> bool:
    """Whether a tensor broadcasts to the target along the channels alone."""
    full = (*[1] * (len(target) - len(shape)), *shape)
    return len(shape) <= len(target) and all(
        n == 1 or (d == 1 and n == target[1]) for d, n in enumerate(full)
    )


def _rewrite(op: MulOp | AddOp, conv: ConvOp, other: SSAValue) -> None:
    new = _Before(op, op.node)
    channels = shape_of(conv.w)[0]
    flat = new.op(ReshapeOp, [other], shape=(_count(other),))
    if _count(other) != channels:
        flat = new.op(ExpandOp, [flat], shape=(channels,))
    weight, bias = conv.w, conv.b
    if isinstance(op, MulOp):
        shape = (channels, *[1] * (len(shape_of(weight)) - 1))
        weight = new.op(MulOp, [weight, new.op(ReshapeOp, [flat], shape=shape)])
        bias = None if bias is None else new.op(MulOp, [bias, flat])
    else:
        bias = flat if bias is None else new.op(AddOp, [bias, flat])
    operands = [conv.x, weight, *([bias] if bias is not None else [])]
    folded = ConvOp.make(operands, node=conv.node, **dict(conv.properties))
    Rewriter.insert_op(folded, InsertPoint.before(op))
    folded.res.name_hint = op.res.name_hint
    op.res.replace_all_uses_with(folded.res)
    Rewriter.erase_op(op)
    Rewriter.erase_op(conv)


def _count(value: SSAValue) -> int:
    total = 1
    for n in shape_of(value):
        total *= n
    return total


