"""Fuse elementwise consumers into their producer's group, where they run on its output in
registers.

    %1 = nn.conv %x, %w, %b {kernel = "conv", ...}
    %2 = nn.add %1, %skip {kernel = "add", ...}
    %3 = nn.relu %2 {kernel = "relu", ...}
    ->
    %3 = nn.fused(%x_1 = %x, %w_1 = %w, %b_1 = %b, %skip_1 = %skip) {
      %1 = nn.conv %x_1, %w_1, %b_1 ...
      %2 = nn.add %1, %skip_1 ...
      %3 = nn.relu %2 ...
      nn.yield %3
    }

A consumer joins if the producer's result has no other use and has the consumer's shape and place. A
group has at most ``MAX_OPS`` ops.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tessella import kernels
from tessella.dialects.nn.constants import ConstantOp
from tessella.dialects.nn.core import NnOp, shape_of
from tessella.dialects.nn.elementwise import ElementwiseOp
from tessella.dialects.nn.fused import FusedOp, YieldOp
from tessella.dialects.place import place_of
from tessella.kernels.registry import NOT_FUSED, runs_on_host
from tessella.passes.base import functions
from tessella.passes.kinds import ProgramPass

MAX_OPS = 64
"""The most ops in a group: the time to compile one grows with their square."""


@dataclass(frozen=True)
class FuseElementwisePass(ProgramPass):
    """Form `nn.fused` groups of a producer and the elementwise ops after it."""

    name = "fuse-elementwise"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels.load()
        for function in functions(op):
            for group in _groups(function):
                if len(group) > 1:
                    _outline(group)


def _fusable(op: object) -> bool:
    return (
        isinstance(op, NnOp)
        and not isinstance(op, ConstantOp)
        and op.kernel not in (None, *NOT_FUSED)
        and not runs_on_host(op)
        and len(op.results) == 1
    )


def _groups(function: FuncOp) -> list[list[NnOp]]:
    """The groups, each in program order."""
    group_of: dict[NnOp, list[NnOp]] = {}
    position: dict[NnOp, int] = {}
    for i, op in enumerate(function.body.block.ops):
        if not (isinstance(op, NnOp) and _fusable(op)):
            continue
        position[op] = i
        joined: list[NnOp] | None = None
        if isinstance(op, ElementwiseOp):
            producers = [
                group_of[v.owner]
                for v in op.operands
                if isinstance(v.owner, NnOp) and v.owner in group_of and _joins(v, op)
            ]
            producers = [group for group in producers if len(group) < MAX_OPS]
            # the latest producer: what the others give is then there when the group runs
            joined = max(producers, key=lambda g: position[g[-1]], default=None)
        if joined is not None:
            joined.append(op)
            group_of[op] = joined
        else:
            group_of[op] = [op]
    unique = {id(group): group for group in group_of.values()}
    return list(unique.values())


def _joins(value: SSAValue, consumer: ElementwiseOp) -> bool:
    return (
        value.has_one_use()
        and shape_of(value) == shape_of(consumer.res)
        and _same_order(value, consumer)
    )


def _same_order(value: SSAValue, consumer: ElementwiseOp) -> bool:
    start, end = place_of(value.type), place_of(consumer.res.type)
    return start is None or end is None or start.layout == end.layout


def _outline(group: list[NnOp]) -> None:
    """Move the ops into a group at the position of the last one."""
    last = group[-1]
    members = set(group)
    outside: list[SSAValue] = []
    for op in group:
        for value in op.operands:
            if value.owner not in members and value not in outside:
                outside.append(value)
    block = Block(arg_types=[v.type for v in outside])
    inner = dict(zip(outside, block.args, strict=True))
    for value, argument in inner.items():
        argument.name_hint = value.name_hint
    results = list(last.results)
    fused = FusedOp(outside, [r.type for r in results], Region(block))
    Rewriter.insert_op(fused, InsertPoint.before(last))
    for result, new in zip(results, fused.res, strict=True):
        new.name_hint = result.name_hint
        result.replace_all_uses_with(new)
    for op in group:
        op.detach()
        block.add_op(op)
        for i, value in enumerate(op.operands):
            if value in inner:
                op.operands[i] = inner[value]
    block.add_op(YieldOp(results))
