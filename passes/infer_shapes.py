"""Recompute the types of all results from those of the arguments, in order.

    func.func @main(%x: tensor<4x8xf32>) -> tensor<?x8xf32> {
      %1 = nn.relu %x : (tensor<4x8xf32>) -> tensor<?x8xf32>
      func.return %1 : tensor<?x8xf32>
    }
    ->
    func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %1 = nn.relu %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
      func.return %1 : tensor<4x8xf32>
    }

Places stay as they are. Ops of other dialects keep their types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from tessella.dialects.nn.core import NnOp
from tessella.dialects.nn.fused import FusedOp
from tessella.passes.base import functions
from tessella.support.errors import ShapeError


@dataclass(frozen=True)
class InferShapesPass(ModulePass):
    """Recompute the types of results from those of the arguments."""

    name = "infer-shapes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            _check_arguments(function)
            _infer(function.body.block)
            function.update_function_type()


def _check_arguments(function: FuncOp) -> None:
    for i, argument in enumerate(function.body.block.args):
        type = argument.type
        if isinstance(type, TensorType) and DYNAMIC_INDEX in type.get_shape():
            raise ShapeError(
                f"the shape of argument {i} of @{function.sym_name.data} is not known",
                expected="a size in each dimension",
                found=str(type),
            )


def _infer(block: Block) -> None:
    for op in block.ops:
        if isinstance(op, FusedOp):
            _infer_group(op)
        elif isinstance(op, NnOp):
            _infer_op(op)


def _infer_group(op: FusedOp) -> None:
    _copy_types(op.inputs, op.body.block.args)
    _infer(op.body.block)
    _copy_types(op.yielded.values, op.res)


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
