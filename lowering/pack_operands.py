"""Change the arguments of kernels, and their callers, to the layouts that schedules read.

    tile.kernel @fc_0(%x: .., %w: tensor<384x384xf32, #p> {tile.packed = #q}) -> (..) {..}
    %w = nn.weight @w : tensor<384x384xf32, #p>
    %y = tile.call @fc_0(%x, %w)
    ->
    tile.kernel @fc_0(%x: .., %w: tensor<384x384xf32, #q>) -> (..) {..}
    %w = nn.weight @w.packed : tensor<384x384xf32, #q>
    %y = tile.call @fc_0(%x, %w)

A weight is packed at compile time; other operands are copied by a kernel, once for all calls that
read the same layout. If the packed place has a wider element type, the statement reads that type:

    ^bb0(%1: ui8, %2: i8):  %3 = arith.extui %1 : ui8 to i32
    ->
    ^bb0(%1: i16, %2: i16):  %3 = arith.extsi %1 : i16 to i32
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, SSAValue, Use
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.arith import CASTS
from tessella.dialects.elements import element_of
from tessella.dialects.graph import weights_of
from tessella.dialects.layout import Layout, pack
from tessella.dialects.nn.constants import WeightOp, weight_array
from tessella.dialects.nn.core import Array, Tensor, shape_of, tensor_type
from tessella.dialects.place import place_of, placed
from tessella.dialects.tile import CallOp, ContractOp, KernelOp, ViewOp, weight_of
from tessella.lowering.nn_to_tile import KernelTable, relayout
from tessella.passes.base import cpu_segments
from tessella.passes.kinds import ProgramPass
from tessella.runtime.weights import WeightStore
from tessella.support.elements import ELEMENTS
from tessella.support.parallel import map_on_threads
from tessella.support.sizes import Size

THREADS = 4
"""Threads that pack weights: more would not raise memory throughput."""

LARGE = 1 << 20
"""Bytes of weights from which packing on several threads saves more time than starting the threads
takes."""


@dataclass(frozen=True)
class PackOperandsPass(ProgramPass):
    """Pack weights and insert copies to match every call to its kernel."""

    name = "pack-operands"
    stages = ("tile",)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        _Packer(op, weights_of(ctx)).run()


class _Key(NamedTuple):
    """The key of a packed weight: its symbol, and the shape, layout and element type that a kernel
    reads."""

    symbol: str
    shape: tuple[Size, ...]
    layout: Layout
    element: str


def _symbol(op: WeightOp) -> str:
    return op.symbol.root_reference.data


def _key(op: WeightOp, type: Tensor) -> _Key:
    place = place_of(type)
    assert place is not None
    return _Key(_symbol(op), shape_of(type), place.layout, element_of(type).name)


class _Packer:
    def __init__(self, module: ModuleOp, weights: WeightStore) -> None:
        self.module = module
        self.weights = weights
        self.kernels = {
            k.sym_name.data: k for k in module.body.block.ops if isinstance(k, KernelOp)
        }
        self.table = KernelTable(module)
        self.symbols: dict[_Key, str] = {}
        self.packed: dict[_Key, Array] = {}
        self.copies: dict[tuple[SSAValue, Tensor], SSAValue] = {}

    def run(self) -> None:
        for kernel in self.kernels.values():
            pack_arguments(kernel)
        calls = [
            op
            for segment in cpu_segments(self.module)
            for op in segment.body.block.ops
            if isinstance(op, CallOp)
        ]
        self._pack_weights(calls)
        for call in calls:
            self._call(call)
        for segment in cpu_segments(self.module):
            for op in reversed(list(segment.body.block.ops)):
                if isinstance(op, WeightOp | ViewOp) and op.res.first_use is None:
                    Rewriter.erase_op(op)
        self.table.finish()
        self._drop_unused()

    def _pack_weights(self, calls: Sequence[CallOp]) -> None:
        """Pack all weights in parallel; packing is bound by memory.

        A weight without another reader is released once it is packed.
        """
        needed: dict[_Key, Array] = {}
        for call in calls:
            wanted = self.kernels[call.callee_name].function_type.inputs
            for value, type in zip(call.arguments, wanted, strict=True):
                weight = weight_of(value) if value.type != type else None
                if weight is not None and _symbol(weight) in self.weights:
                    key = _key(weight, tensor_type(type))
                    needed[key] = weight_array(weight, self.weights).reshape(key.shape)
        for symbol in {key.symbol for key in needed} - self._read_as_they_are():
            self.weights.drop(symbol)

        def pack_one(key: _Key) -> Array:
            return _widened(pack(needed.pop(key), key.layout), key.element)

        keys = list(needed)
        if sum(array.nbytes for array in needed.values()) < LARGE:
            packed = list(map(pack_one, keys))
        else:
            packed = map_on_threads(pack_one, keys, THREADS)
        self.packed = dict(zip(keys, packed, strict=True))

    def _read_as_they_are(self) -> set[str]:
        """Return the symbols of the weights that some op reads in their present layout, so that
        they must not be released."""
        found: set[str] = set()
        for function in self.module.ops:
            for op in () if isinstance(function, KernelOp) else function.walk():
                if isinstance(op, ViewOp):
                    continue
                wanted: Sequence[object] = ()
                if isinstance(op, CallOp) and op.callee_name in self.kernels:
                    wanted = self.kernels[op.callee_name].function_type.inputs.data
                for i, value in enumerate(op.operands):
                    weight = weight_of(value)
                    if weight is not None and (i >= len(wanted) or wanted[i] == value.type):
                        found.add(_symbol(weight))
        return found

    def _call(self, call: CallOp) -> None:
        wanted = self.kernels[call.callee_name].function_type.inputs
        for i, (value, type) in enumerate(zip(call.arguments, wanted, strict=True)):
            if value.type != type:
                call.operands[i] = self._convert(call, value, tensor_type(type))

    def _convert(self, call: CallOp, value: SSAValue, type: Tensor) -> SSAValue:
        weight = weight_of(value)
        if weight is not None:
            return self._pack(weight, type)
        if (value, type) in self.copies:
            return self.copies[value, type]
        place = place_of(type)
        copy = relayout(call, value, place, self.weights, self.table)
        self.kernels[copy.callee_name] = next(
            kernel
            for kernel in self.table.known.values()
            if isinstance(kernel, KernelOp) and kernel.sym_name.data == copy.callee_name
        )
        Rewriter.insert_op(copy, InsertPoint.before(call))
        self.copies[value, type] = copy.res[0]
        return copy.res[0]

    def _pack(self, op: WeightOp, type: Tensor) -> SSAValue:
        place, key = place_of(type), _key(op, type)
        assert place is not None
        if key not in self.symbols:
            symbol, array = f"{key.symbol}.packed", self.packed.get(key)
            self.symbols[key] = symbol if array is None else self.weights.add(symbol, array)
        new = WeightOp(self.symbols[key], placed(type, place))
        Rewriter.insert_op(new, InsertPoint.before(op))
        return new.res

    def _drop_unused(self) -> None:
        """Remove unused weights: only packed copies remain."""
        used = {_symbol(op) for op in self.module.walk() if isinstance(op, WeightOp)}
        self.weights.keep(used)


def _widened(array: Array, element: str) -> Array:
    """Widen packed integers to the element that a kernel reads."""
    wide = ELEMENTS[element]
    return array.astype(wide.dtype, copy=False) if wide.is_integer else array


def pack_arguments(kernel: KernelOp) -> None:
    """Give a kernel's arguments the layouts and element types in which its schedules read them."""
    for i, argument in enumerate(kernel.body.block.args):
        place = kernel.packed(i)
        if place is not None:
            packed = placed(tensor_type(argument), place)
            if packed.element_type != tensor_type(argument).element_type:
                for use in list(argument.uses):
                    _read_wide(use, packed.element_type)
            Rewriter.replace_value_with_new_type(argument, packed)
            kernel.pack(i, None)
    kernel.update_type()


def _read_wide(use: Use, element: Attribute) -> None:
    """Change a body to read an operand in the wider element type ``element``."""
    op = use.operation
    assert isinstance(op, ContractOp)
    argument = Rewriter.replace_value_with_new_type(op.combine.block.args[use.index], element)
    for cast in [each.operation for each in argument.uses]:
        to = cast.results[0].type
        Rewriter.replace_op(cast, CASTS[arith.ExtSIOp.name](argument, to))
