"""Infer the types of all results from the types of the arguments.

    func.func @main(%x: tensor<8x3xf32>) -> tensor<?x3xf32> {
      %y = nn.relu %x : (tensor<8x3xf32>) -> tensor<?x3xf32>
    ->
    func.func @main(%x: tensor<8x3xf32>) -> tensor<8x3xf32> {
      %y = nn.relu %x : (tensor<8x3xf32>) -> tensor<8x3xf32>

Ops are asked in order; each knows how its results follow from its operands. A program with other input
shapes is made by changing the types of the arguments.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from tessella.dialects.nn.core import NnOp
from tessella.passes.base import functions
from tessella.support.errors import ShapeError


@dataclass(frozen=True)
class InferShapesPass(ModulePass):
    """Recompute the result types of all `nn` ops."""

    name = "infer-shapes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            for inner in function.body.block.ops:
                if isinstance(inner, NnOp):
                    _infer(inner)
            function.update_function_type()


def _infer(op: NnOp) -> None:
    try:
        op.infer_types()
    except ShapeError as error:
        raise ShapeError(
            error.what,
            where=f"node {op.node!r} ({op.name})",
            expected=error.expected,
            found=error.found,
            hint=error.hint,
        ) from error
