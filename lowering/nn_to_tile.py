"""Lower the native ops of segments to kernels over index spaces. Equal kernels are shared.

    %y = nn.relu %x {kernel = "relu", ...} : tensor<4xf32, #p>
    ->
    tile.kernel @relu_0(%x: tensor<4xf32, #p>) -> (tensor<4xf32, #p>) {
      %r = tile.contract = [d0: 4] (%x[d0]) -> [d0] {...} : ...
      tile.return %r : ...
    }
    %y = tile.call @relu_0(%x) : tensor<4xf32, #p>

An op with a result in its operand's memory (kernel ``view``, or a change of layout that moves no
element) becomes a `tile.view`. A splat that must be in memory becomes a weight or, if its shape is
symbolic, a call of a kernel that fills it. `nn.scan` becomes a `tile.scan` of its function's
segment.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, FunctionType, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from tessella import kernels
from tessella.dialects import device, nn
from tessella.dialects.calls import NODES, nodes_of
from tessella.dialects.graph import weights_of
from tessella.dialects.layout import NCHW
from tessella.dialects.nn.constants import ConstantOp, SplatOp, WeightOp, splat_array
from tessella.dialects.nn.core import Array, NnOp, Tensor, tensor_type, type_of
from tessella.dialects.nn.evaluate import constant_value
from tessella.dialects.nn.fused import FusedOp, YieldOp
from tessella.dialects.place import (
    CastOp,
    PlaceAttr,
    RelayoutOp,
    is_apart,
    place_of,
    placed,
    precision_of,
)
from tessella.dialects.sizes import is_static
from tessella.dialects.structure import structure
from tessella.dialects.tile import CallOp, KernelOp, ScanOp, SegmentOp, ViewOp, same_memory
from tessella.kernels.group import GroupLowering
from tessella.kernels.registry import VIEW_KERNEL, picked_kernel
from tessella.passes.base import segments
from tessella.passes.kinds import ProgramPass
from tessella.runtime.devices import Source
from tessella.runtime.weights import WeightStore
from tessella.support.errors import InvalidModelError
from tessella.support.sizes import Size

AnyKernel = KernelOp | device.KernelOp


@dataclass
class KernelTable:
    """The kernels of a module by structure; equal ones are created once."""

    module: ModuleOp
    known: dict[Hashable, AnyKernel] = field(default_factory=dict[Hashable, AnyKernel])
    count: int = field(init=False)
    """The number of the next kernel."""
    _calls: dict[AnyKernel, list[CallOp]] = field(default_factory=dict[AnyKernel, list[CallOp]])

    def __post_init__(self) -> None:
        kernels = (op for op in self.module.body.block.ops if isinstance(op, KernelOp))
        codes = (kernel.code.value.data for kernel in kernels if kernel.code is not None)
        self.count = 1 + max(codes, default=-1)

    def call(self, group: GroupLowering, results: Sequence[SSAValue]) -> CallOp:
        """Return a call of a group's kernel, or of an equal kernel that exists. `finish` records
        the group's nodes on the kernel."""
        kernel = self._known(group.kernel(results), "_".join(group.names[:3]))
        return self._call(kernel, group.arguments, group.nodes)

    def call_source(self, op: NnOp, source: Source) -> CallOp:
        """Return a call of an op's kernel, whose source is in the language of a device."""
        place = place_of(op.results[0].type)
        assert place is not None
        types = FunctionType.from_lists([v.type for v in op.operands], list(op.result_types))
        kernel = device.KernelOp("kernel", types, place.device.data, source)
        return self._call(self._known(kernel, op.kernel or op.name), op.operands, [op.node])

    def _call(
        self, kernel: AnyKernel, arguments: Sequence[SSAValue], nodes: Sequence[str]
    ) -> CallOp:
        call = CallOp(kernel.sym_name.data, arguments, list(kernel.function_type.outputs))
        call.attributes[NODES] = ArrayAttr(map(StringAttr, nodes))
        self._calls.setdefault(kernel, []).append(call)
        return call

    def _known(self, kernel: AnyKernel, hint: str) -> AnyKernel:
        """Return an equal existing kernel, or name and add the new one."""
        key = structure(kernel)
        known = self.known.get(key)
        if known is None:
            number = self.count
            self.count += 1
            self.known[key] = known = kernel
            kernel.sym_name = StringAttr(f"{hint}_{number}")
            kernel.code = IntegerAttr(number, i64)
            Rewriter.insert_op(kernel, InsertPoint.at_start(self.module.body.block))
        return known

    def finish(self) -> None:
        """Record on each kernel the nodes that its calls compute. A call keeps its own nodes only
        if the kernel has calls with other nodes."""
        for kernel, calls in self._calls.items():
            kernel.nodes = ArrayAttr([node for call in calls for node in nodes_of(call, None)])
            if len({call.attributes[NODES] for call in calls}) == 1:
                for call in calls:
                    del call.attributes[NODES]


class _GroupConversion(GroupLowering):
    """Lowers the ops of one group. Weights and views are inserted before the group in the
    segment."""

    def __init__(self, weights: WeightStore, table: KernelTable, anchor: Operation) -> None:
        super().__init__()
        self.weights = weights
        self.table = table
        self.anchor = anchor

    def weight(self, array: Array, hint: str) -> SSAValue:
        """Return a new weight that holds ``array``. On a device with its own memory, the weight has
        a place on that device."""
        type, place = type_of(array), place_of(self.anchor.results[0].type)
        if place is not None and is_apart(place.device.data):
            type = placed(
                type, PlaceAttr.get(place.device.data, precision_of(type.element_type), NCHW)
            )
        return self._inserted(WeightOp(self.weights.add(hint, array), type))

    def view(self, value: SSAValue, type: Tensor) -> SSAValue:
        """Return a tensor's memory as a tensor of another type."""
        return self._inserted(_view(value, type, self.anchor))

    def derived(
        self, value: SSAValue, shape: Sequence[Size], compute: Callable[[Array], Array]
    ) -> SSAValue | None:
        """Return a weight computed from a tensor with known elements; None if they are not
        known."""
        array = constant_value(value, self.weights)
        if array is None:
            return None
        made = compute(array)
        assert made.shape == tuple(shape)
        return self.weight(made, f"{value.name_hint or 'weight'}.part")

    def stored(self, splat: SplatOp) -> SSAValue:
        """Return a splat as a tensor in memory."""
        return self._inserted(_in_memory(splat, self.weights, self.table))

    def _inserted(self, op: WeightOp | ViewOp | CallOp) -> SSAValue:
        Rewriter.insert_op(op, InsertPoint.before(self.anchor))
        return op.results[0]


@dataclass(frozen=True)
class ConvertNnToTilePass(ProgramPass):
    """Lower the native ops in segments to kernels."""

    name = "convert-nn-to-tile"
    stages = ("tile",)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels.load()
        table = KernelTable(op)
        for segment in segments(op):
            _convert_segment(segment, weights_of(ctx), table)
        table.finish()


def _convert_segment(segment: SegmentOp, weights: WeightStore, table: KernelTable) -> None:
    for op in list(segment.body.block.ops):
        new = _converted(op, weights, table)
        if new is None:
            continue
        Rewriter.insert_op(new, InsertPoint.before(op))
        for old, result in zip(op.results, new.results, strict=True):
            result.name_hint = old.name_hint
            old.replace_all_uses_with(result)
        Rewriter.erase_op(op)
    for op in list(segment.body.block.ops):
        if isinstance(op, ConstantOp) and op.res.first_use is None:
            Rewriter.erase_op(op)
        elif isinstance(op, SplatOp):
            _keep_in_memory(op, weights, table)


def _converted(
    op: Operation, weights: WeightStore, table: KernelTable
) -> CallOp | ScanOp | ViewOp | None:
    """Return the replacement of an op; None if the op stays."""
    match op:
        case FusedOp():
            return _convert_fused(op, weights, table)
        case RelayoutOp():
            if same_memory(tensor_type(op.source), tensor_type(op.res)):
                return ViewOp(op.source, tensor_type(op.res))
            return relayout(op, op.source, place_of(op.res.type), weights, table)
        case CastOp():
            return _convert_cast(op, weights, table)
        case nn.ScanOp():
            return ScanOp(op.body_name, op.operands, op.result_types, op.loop)
        case NnOp() if op.kernel == VIEW_KERNEL:
            return _view(op.operands[0], tensor_type(op.results[0]), op)
        case NnOp() if not isinstance(op, ConstantOp):
            source = picked_kernel(op).source
            if source is not None:
                return table.call_source(op, source(op))
            return _convert_single(op, weights, table)
        case _:
            return None


def _view(source: SSAValue, type: Tensor, op: Operation) -> ViewOp:
    if not same_memory(tensor_type(source), type):
        raise InvalidModelError(
            f"{op.name} moves elements and cannot be a view",
            expected=f"a result in the memory of {source.type}",
            found=str(type),
            hint="relayout the operand to nchw first",
        )
    return ViewOp(source, type)


def _keep_in_memory(op: SplatOp, weights: WeightStore, table: KernelTable) -> None:
    """Replace a splat that is returned, viewed or carried by a loop by a tensor in memory."""
    new = _in_memory(op, weights, table)
    Rewriter.insert_op(new, InsertPoint.before(op))
    op.res.replace_all_uses_with(new.results[0])
    Rewriter.erase_op(op)


def _in_memory(splat: SplatOp, weights: WeightStore, table: KernelTable) -> WeightOp | CallOp:
    """Return a splat as a weight, or as a call of a kernel that fills a tensor of symbolic
    shape."""
    type = tensor_type(splat.res)
    if is_static(type.get_shape()):
        array = np.ascontiguousarray(splat_array(splat))
        return WeightOp(weights.add("splat", array), type)
    group = _GroupConversion(weights, table, splat)
    group.names, group.nodes = ["splat"], [splat.name]
    number, element = splat.number, type.element_type
    return table.call(
        group, [group.builder.map([], type, lambda s, _: s.constant(number, element))]
    )


def _convert_fused(op: FusedOp, weights: WeightStore, table: KernelTable) -> CallOp:
    group = _GroupConversion(weights, table, op)
    for argument, value in zip(op.body.block.args, op.inputs, strict=True):
        group.values[argument] = group.argument(value)
    for inner in op.body.block.ops:
        if isinstance(inner, NnOp):
            group.lower(inner)
    last = op.body.block.last_op
    assert isinstance(last, YieldOp)
    return table.call(group, [group.values[v] for v in last.values])


def _convert_single(op: NnOp, weights: WeightStore, table: KernelTable) -> CallOp:
    group = _GroupConversion(weights, table, op)
    for value in op.operands:
        if value not in group.values:
            group.values[value] = group.argument(value)
    group.lower(op)
    return table.call(group, [group.values[r] for r in op.results])


def _convert_cast(op: CastOp, weights: WeightStore, table: KernelTable) -> CallOp:
    group = _GroupConversion(weights, table, op)
    group.names, group.nodes = ["cast"], [op.name]
    type = tensor_type(op.res)
    result = group.builder.map(
        [group.argument(op.source)], type, lambda s, args: s.cast(args[0], type.element_type)
    )
    return table.call(group, [result])


def relayout(
    anchor: Operation,
    source: SSAValue,
    place: PlaceAttr | None,
    weights: WeightStore,
    table: KernelTable,
) -> CallOp:
    """Return a call of a kernel that copies ``source`` to the layout of ``place``, and widens
    integers if the place requires it."""
    assert place is not None
    group = _GroupConversion(weights, table, anchor)
    group.names, group.nodes = ["relayout"], ["place.relayout"]
    argument = group.argument(source)
    type = placed(tensor_type(source), place)
    result = group.builder.map([argument], type, lambda s, args: s.cast(args[0], type.element_type))
    return table.call(group, [result])


__all__ = ["ConvertNnToTilePass", "KernelTable", "relayout"]
