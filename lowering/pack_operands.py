"""Change the arguments of kernels, and their callers, to the layouts that schedules read.

    tile.kernel @fc_0(%x: .., %w: tensor<384x384xf32, #p> {tile.packed = #q}) -> (..) {..}
    %w = nn.weight @w : tensor<384x384xf32, #p>
    %y = tile.call @fc_0(%x, %w)
    ->
    tile.kernel @fc_0(%x: .., %w: tensor<384x384xf32, #q>) -> (..) {..}
    %w = nn.weight @w.packed : tensor<384x384xf32, #q>
    %y = tile.call @fc_0(%x, %w)

A weight is packed at compile time; other operands are copied by a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.graph import weights_of
from tessella.dialects.layout import Layout, pack
from tessella.dialects.nn.constants import WeightOp
from tessella.dialects.nn.core import Tensor, shape_of, tensor_type
from tessella.dialects.nn.evaluate import weight_array
from tessella.dialects.place import place_of, placed
from tessella.dialects.tile import CallOp, KernelOp, ViewOp, weight_of
from tessella.lowering.nn_to_tile import KernelTable, relayout
from tessella.passes.base import segments
from tessella.passes.kinds import ProgramPass
from tessella.runtime.weights import WeightStore


@dataclass(frozen=True)
class PackOperandsPass(ProgramPass):
    """Pack weights and insert copies to match every call to its kernel."""

    name = "pack-operands"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        _Packer(op, weights_of(ctx)).run()


class _Packer:
    def __init__(self, module: ModuleOp, weights: WeightStore) -> None:
        self.module = module
        self.weights = weights
        self.kernels = {
            k.sym_name.data: k for k in module.body.block.ops if isinstance(k, KernelOp)
        }
        self.table = KernelTable(module)
        self.symbols: dict[tuple[str, tuple[int, ...], Layout], str] = {}

    def run(self) -> None:
        for kernel in self.kernels.values():
            _pack_arguments(kernel)
        for segment in segments(self.module):
            for op in list(segment.body.block.ops):
                if isinstance(op, CallOp):
                    self._call(op)
            for op in reversed(list(segment.body.block.ops)):
                if isinstance(op, WeightOp | ViewOp) and op.res.first_use is None:
                    Rewriter.erase_op(op)
        self.table.finish()
        self._drop_unused()

    def _call(self, call: CallOp) -> None:
        wanted = self.kernels[call.callee_name].function_type.inputs
        for i, (value, type) in enumerate(zip(call.arguments, wanted, strict=True)):
            if value.type != type:
                call.operands[i] = self._convert(call, value, tensor_type(type))

    def _convert(self, call: CallOp, value: SSAValue, type: Tensor) -> SSAValue:
        weight = weight_of(value)
        if weight is not None:
            return self._pack(weight, type)
        place = place_of(type)
        copy = relayout(call, value, place, self.weights, self.table)
        self.kernels[copy.callee_name] = next(
            k for k in self.table.known.values() if k.sym_name.data == copy.callee_name
        )
        Rewriter.insert_op(copy, InsertPoint.before(call))
        return copy.res[0]

    def _pack(self, op: WeightOp, type: Tensor) -> SSAValue:
        place = place_of(type)
        assert place is not None
        symbol = op.symbol.root_reference.data
        key = (symbol, shape_of(type), place.layout)
        if key not in self.symbols:
            if symbol in self.weights:
                array = weight_array(op, self.weights).reshape(shape_of(type))
                packed = pack(array, place.layout)
                self.symbols[key] = self.weights.add(f"{symbol}.packed", packed)
            else:
                self.symbols[key] = f"{symbol}.packed"
        new = WeightOp(self.symbols[key], placed(type, place))
        Rewriter.insert_op(new, InsertPoint.before(op))
        return new.res

    def _drop_unused(self) -> None:
        """Remove unused weights: only the packed copy is kept."""
        used = {
            op.symbol.root_reference.data for op in self.module.walk() if isinstance(op, WeightOp)
        }
        self.weights.keep(used)


def _pack_arguments(kernel: KernelOp) -> None:
    """Set the arguments to the places in which the schedules read them."""
    for i, argument in enumerate(kernel.body.block.args):
        place = kernel.packed(i)
        if place is not None:
            Rewriter.replace_value_with_new_type(argument, placed(tensor_type(argument), place))
            kernel.pack(i, None)
    kernel.update_type()
