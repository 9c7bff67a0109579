"""Fuse a matrix product and the addition of a bias to `nn.fc`; take in transposes of right operands.

    %1 = nn.matmul %x, %w {transpose_b = false} : (tensor<1x128x384xf32>, tensor<384x64xf32>) -> ...
    %y = nn.add %1, %b : (tensor<1x128x64xf32>, tensor<64xf32>) -> ...
    ->
    %y = nn.fc %x, %w, %b {transpose_w = false}

    %t = nn.transpose %k {perm = array<i64: 0, 2, 1>}
    %s = nn.matmul %q, %t {transpose_b = false}
    ->
    %s = nn.matmul %q, %k {transpose_b = true}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.nn.core import NnOp, shape_of
from tessella.dialects.nn.elementwise import AddOp
from tessella.dialects.nn.linear import FcOp, MatmulOp
from tessella.dialects.nn.movement import ReshapeOp, TransposeOp
from tessella.passes.base import functions


@dataclass(frozen=True)
class FuseFcPass(ModulePass):
    """matmul + add to `nn.fc`; transposes into `transpose_b`."""

    name = "fuse-fc"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            for inner in list(function.body.block.ops):
                if isinstance(inner, MatmulOp):
                    _take_transpose(inner)
            for inner in list(function.body.block.ops):
                if isinstance(inner, AddOp):
                    _fuse(inner)


def _replace(old: NnOp, new: NnOp) -> None:
    Rewriter.insert_op(new, InsertPoint.before(old))
    new.results[0].name_hint = old.results[0].name_hint
    old.results[0].replace_all_uses_with(new.results[0])
    Rewriter.erase_op(old)


def _take_transpose(op: MatmulOp) -> None:
    transpose = op.b.owner
    if not isinstance(transpose, TransposeOp) or not op.b.has_one_use():
        return
    rank = len(shape_of(op.b))
    if transpose.settings["perm"] != (*range(rank - 2), rank - 1, rank - 2):
        return
    flipped = not op.settings["transpose_b"]
    _replace(op, MatmulOp.make([op.a, transpose.x], node=op.node, transpose_b=flipped))
    Rewriter.erase_op(transpose)


def _fuse(op: AddOp) -> None:
    for product, bias in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        matmul = product.owner
        if (
            isinstance(matmul, MatmulOp)
            and product.has_one_use()
            and len(shape_of(matmul.b)) == 2
            and shape_of(op.res) == shape_of(product)
            and _is_row(shape_of(bias), shape_of(product)[-1])
        ):
            _replace(op, _fc(op, matmul, bias))
            Rewriter.erase_op(matmul)
            return


def _is_row(shape: Sequence[int], columns: int) -> bool:
    """Whether a tensor is one row: [N], [1, N], [1, 1, N]."""
    return len(shape) >= 1 and shape[-1] == columns and all(n == 1 for n in shape[:-1])


def _fc(op: AddOp, matmul: MatmulOp, bias: SSAValue) -> FcOp:
    if len(shape_of(bias)) > 1:
        flat = ReshapeOp.make([bias], shape=(shape_of(bias)[-1],), node=op.node)
        Rewriter.insert_op(flat, InsertPoint.before(op))
        bias = flat.res
    transpose = bool(matmul.settings["transpose_b"])
    return FcOp.make([matmul.a, matmul.b, bias], node=matmul.node, transpose_w=transpose)
