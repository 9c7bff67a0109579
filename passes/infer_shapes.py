"""Recompute the types of all results from those of the arguments, in order.

    func.func @main(%x: tensor<4x8xf32>) -> tensor<?x8xf32> {
      %1 = nn.relu %x : tensor<?x8xf32>
      func.return %1 : tensor<?x8xf32>
    }
    ->
    func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %1 = nn.relu %x : tensor<4x8xf32>
      func.return %1 : tensor<4x8xf32>
    }

Places stay as they are. Ops of other dialects keep their types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from tessella.dialects.nn.core import NnOp, shape_of
from tessella.dialects.nn.fused import FusedOp, YieldOp
from tessella.passes.kinds import StatementPass
from tessella.support.errors import ShapeError


@dataclass(frozen=True)
class InferShapesPass(StatementPass):
    """Recompute the types of results from those of the arguments."""

    name = "infer-shapes"
    stages = ("nn", "placed")

    def rewrite(self, ctx: Context, op: Operation) -> None:
        if isinstance(op, NnOp):
            _infer_op(op)
        elif rule := _RULES.get(type(op)):
            rule(op)


def _check_arguments(function: FuncOp) -> None:
    arguments = function.args if function.body.blocks else ()
    for i, argument in enumerate(arguments):
        type = argument.type
        if isinstance(type, TensorType) and DYNAMIC_INDEX in shape_of(type):
            raise ShapeError(
                f"the shape of argument {i} of @{function.sym_name.data} is not known",
                expected="a size in each dimension",
                found=str(type),
            )


def _update_function(op: ReturnOp) -> None:
    function = op.parent_op()
    if isinstance(function, FuncOp):
        function.update_function_type()


def _enter_group(op: FusedOp) -> None:
    _copy_types(op.inputs, op.body.block.args)


def _leave_group(op: YieldOp) -> None:
    group = op.parent_op()
    if isinstance(group, FusedOp):
        _copy_types(op.values, group.res)


_RULES: dict[type[Operation], Callable[[Any], None]] = {
    FuncOp: _check_arguments,
    ReturnOp: _update_function,
    FusedOp: _enter_group,
    YieldOp: _leave_group,
}


def _copy_types(source: Sequence[SSAValue], target: Sequence[SSAValue]) -> None:
    for old, new in zip(source, tuple(target), strict=True):
        if new.type != old.type:
            Rewriter.replace_value_with_new_type(new, old.type)


def _infer_op(op: NnOp) -> None:
    try:
        op.infer_types()
    except ShapeError as error:
        raise ShapeError(
            f"{op.name} ({op.node}): {error.what.removeprefix(f'{op.name}: ')}",
            where=error.where,
            expected=error.expected,
            found=error.found,
            hint=error.hint,
        ) from error
