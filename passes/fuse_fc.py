"""Make fully connected layers of matrix products with a bias, and read transposed operands in
place.

    %1 = nn.matmul %x, %w : (tensor<5x7x8xf32>, tensor<8x16xf32>)
    %2 = nn.add %1, %b : (tensor<5x7x16xf32>, tensor<16xf32>)
    ->
    %2 = nn.fc %x, %w, %b

    %1 = nn.transpose %y {perm = array<i64: 0, 2, 1>}
    %2 = nn.matmul %x, %1 {transpose_b = false}
    ->
    %2 = nn.matmul %x, %y {transpose_b = true}

The product has no other use than the addition, and the bias is a vector along the last axis. A
transposition swaps the last two axes alone, and all its uses are second operands of ``matmul``
and ``fc``.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue, Use
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.nn.constants import SplatOp
from tessella.dialects.nn.core import NnOp, shape_of, tensor, tensor_type, to_attribute
from tessella.dialects.nn.elementwise import AddOp
from tessella.dialects.nn.linear import FcOp, MatmulOp
from tessella.dialects.nn.movement import ReshapeOp, TransposeOp
from tessella.passes.base import functions


@dataclass(frozen=True)
class FuseFcPass(ModulePass):
    """Form `nn.fc`; make transpositions flags of the ops that read them."""

    name = "fuse-fc"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            for inner in list(function.body.block.ops):
                match inner:
                    case TransposeOp() if inner.kernel is None:
                        _read_in_place(inner)
                    case AddOp() if inner.kernel is None:
                        _ = _fuse(inner, inner.lhs, inner.rhs) or _fuse(inner, inner.rhs, inner.lhs)
                    case _:
                        pass


_FLAGS = {MatmulOp: "transpose_b", FcOp: "transpose_w"}


def _read_in_place(op: TransposeOp) -> None:
    """Read x itself wherever its transposition is read, if that is only in matrix products."""
    rank = len(shape_of(op.x))
    if op.settings["perm"] != (*range(rank - 2), rank - 1, rank - 2) or rank < 2:
        return
    uses = list(op.res.uses)
    if not all(_is_second_factor(use) for use in uses):
        return
    for use in uses:
        product = use.operation
        assert isinstance(product, MatmulOp | FcOp)
        flag = _FLAGS[type(product)]
        product.properties[flag] = to_attribute(not product.settings[flag])
        product.operands[use.index] = op.x
    Rewriter.erase_op(op)


def _is_second_factor(use: Use) -> bool:
    op = use.operation
    return isinstance(op, MatmulOp | FcOp) and op.kernel is None and use.index == 1


def _fuse(add: AddOp, product: SSAValue, bias: SSAValue) -> bool:
    """Replace the sum of a product and a bias, if they are that."""
    op = product.owner
    if (
        not isinstance(op, MatmulOp)
        or op.kernel is not None
        or not product.has_one_use()
        or len(shape_of(op.b)) != 2
        or product.type != add.res.type
    ):
        return False
    vector = _vector(add, bias, shape_of(product)[-1])
    if vector is None:
        return False
    node = next((x.node for x in (op, add) if "node" in x.attributes), None)
    fc = FcOp.make([op.a, op.b, vector], node=node, transpose_w=op.transpose_b)
    Rewriter.insert_op(fc, InsertPoint.before(add))
    fc.res.name_hint = add.res.name_hint
    add.res.replace_all_uses_with(fc.res)
    Rewriter.erase_op(add)
    Rewriter.erase_op(op)
    return True


def _vector(add: AddOp, bias: SSAValue, size: int) -> SSAValue | None:
    """The bias as a vector of this size; None if it is none."""
    shape = shape_of(bias)
    new: NnOp
    if isinstance(bias.owner, SplatOp):
        type = tensor(tensor_type(bias).element_type, [size])
        new = SplatOp(bias.owner.number, type)
    elif shape == (size,):
        return bias
    elif shape == (*[1] * (len(shape) - 1), size) and shape:
        new = ReshapeOp.make([bias], shape=(size,))
    else:
        return None
    Rewriter.insert_op(new, InsertPoint.before(add))
    return new.results[0]
