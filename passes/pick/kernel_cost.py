"""What a kernel costs for an op, in seconds, on a machine.

A kernel says it itself, or it has a lowering: then the tile model estimates the statements that the
lowering writes for the op's shapes. As that takes about a millisecond, estimates are kept, and made
for fewer shapes than there are: maps are estimated flat, with a power of two of elements, and
contractions with a power of two of summands, and the time grows in proportion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ArrayAttr, FunctionType
from xdsl.ir import Attribute, Block, BlockArgument, Region, SSAValue

from tessella.dialects.layout import NCHW, Layout
from tessella.dialects.nn.constants import ConstantOp, SplatOp
from tessella.dialects.nn.core import Array, NnOp, shape_of, tensor, tensor_type, type_of
from tessella.dialects.nn.elementwise import ElementwiseOp
from tessella.dialects.nn.fused import FusedOp
from tessella.dialects.place import BITS, CopyOp, PlaceAttr, Step, place_of, placed, precision_of
from tessella.dialects.tile import KernelOp, ReturnOp, constant_mark
from tessella.kernels.builder import KernelBuilder
from tessella.kernels.cost import CALL, bytes_of, moving
from tessella.kernels.registry import Kernel
from tessella.passes.tile.cost import seconds as tile_seconds
from tessella.targets import Target

FLAT = 1 << 12
"""Elements from which on maps are estimated at powers of two."""
LONG = 32
"""Summands from which on contractions are estimated at powers of two."""
MAX_KEPT = 1 << 16
"""Estimates that are kept."""
RELAYOUT_SHARE = 0.7
"""The share of a copy's bandwidth that a change of order reaches, where squares are transposed in
registers."""
DEVICE_LATENCY = 1e-5
"""Seconds until a copy to or from a device begins: a guess."""

Operand = tuple[Attribute, tuple[int, ...], str]
"""Element type, shape, and what it is: a `variable`, a `constant`, or a `splat`."""


@dataclass(frozen=True)
class Case:
    """All that the estimate of a generated kernel depends on."""

    kernel: Kernel
    layout: Layout
    properties: tuple[tuple[str, Attribute], ...]
    operands: tuple[Operand, ...]
    results: tuple[tuple[Attribute, tuple[int, ...]], ...]


_ESTIMATES: dict[Hashable, float] = {}


def kernel_seconds(kernel: Kernel, op: NnOp, layout: Layout, target: Target) -> float:
    """Seconds of one call of a kernel for an op; ``layout`` stands for the kernel's `any`."""
    if kernel.cost is not None:
        return kernel.cost(op, target)
    case, scale = _case(kernel, op, layout)
    key = (case, target)
    if key not in _ESTIMATES:
        if len(_ESTIMATES) >= MAX_KEPT:
            _ESTIMATES.clear()
        _ESTIMATES[key] = tile_seconds(_scratch(case, op), target)
    return CALL + scale * _ESTIMATES[key]


def layout_matters(kernel: Kernel, op: NnOp) -> bool:
    """Whether the layout that stands for a kernel's `any` can change what it costs."""
    return kernel.cost is None and not isinstance(op, ElementwiseOp)


def step_seconds(step: Step, value: SSAValue, start: PlaceAttr, target: Target) -> float:
    """Seconds of one conversion of a value: what it reads and writes, at the machine's bandwidth.

    Nothing where memory stays as it is: between the host and a CPU, and between layouts that put
    every element at the same place.
    """
    kind, end = step
    shape = shape_of(value)
    if kind is CopyOp:
        on_cpu = {start.target.data, end.target.data} <= {"host", "x86", "arm"}
        return 0.0 if on_cpu else DEVICE_LATENCY + moving(2 * bytes_of(value), target)
    if start.precision == end.precision and start.layout.same_memory(end.layout, shape):
        return 0.0
    size = math.prod(shape)
    moved = sum(size * BITS[place.precision.data] // 8 for place in (start, end))
    share = RELAYOUT_SHARE if start.layout != end.layout else 1.0
    return CALL + moving(moved, target) / share


def fused_seconds(value: SSAValue, consumer: float, target: Target) -> float:
    """Seconds that are saved where an elementwise consumer takes a value in registers: writing it
    and reading it again, as far as the consumer costs that much."""
    return min(consumer, moving(2 * bytes_of(value), target))


# ** the cases that are estimated **


def _case(kernel: Kernel, op: NnOp, layout: Layout) -> tuple[Case, float]:
    """The case that stands for an op, and how many times longer the op takes."""
    operands = tuple(_operand(value) for value in op.operands)
    results = tuple((tensor_type(r).element_type, shape_of(r)) for r in op.results)
    case = Case(kernel, layout, tuple(sorted(op.properties.items())), operands, results)
    if isinstance(op, ElementwiseOp):
        return _flat(case)
    return _rounded(case, op) if op.contracted else (case, 1.0)


def _operand(value: SSAValue) -> Operand:
    type, owner = tensor_type(value), _origin(value).owner
    constant = "constant" if isinstance(owner, ConstantOp) else "variable"
    kind = "splat" if isinstance(owner, SplatOp) else constant
    return type.element_type, type.get_shape(), kind


def _origin(value: SSAValue) -> SSAValue:
    """The value outside of a group that an argument of the group stands for."""
    block = value.owner
    if isinstance(value, BlockArgument) and isinstance(block, Block):
        group = block.parent_op()
        if isinstance(group, FusedOp):
            return _origin(group.inputs[value.index])
    return value


def _power(extent: int) -> int:
    """The power of two that is nearest on a logarithmic scale."""
    return 1 << round(math.log2(extent))


def _flat(case: Case) -> tuple[Case, float]:
    """A map over one dimension: memory order is nothing to it."""
    [(element, shape)] = case.results
    size = math.prod(shape)
    count = _power(size) if size >= FLAT else size
    operands = tuple(
        (own, (count,) if own_shape == shape else (1,), kind)
        for own, own_shape, kind in case.operands
    )
    flat = replace(case, layout=NCHW, operands=operands, results=((element, (count,)),))
    return flat, size / count


def _rounded(case: Case, op: NnOp) -> tuple[Case, float]:
    """A contraction over a power of two of summands."""
    operands, scale = list(case.operands), 1.0
    for i, dim in op.contracted.items():
        element, shape, kind = operands[i]
        if shape[dim] < LONG:
            return case, 1.0
        scale = shape[dim] / _power(shape[dim])
        operands[i] = element, (*shape[:dim], _power(shape[dim]), *shape[dim + 1 :]), kind
    return replace(case, operands=tuple(operands)), scale


# ** the kernel of a case **


def _scratch(case: Case, op: NnOp) -> KernelOp:
    """The kernel that the lowering makes of a case, apart from any module."""
    scratch = _op_of(case, op)
    places = scratch.places or ()
    types = [
        placed(tensor_type(value), place)
        for value, place in zip(scratch.operands, places, strict=False)
    ]
    block = Block(arg_types=types)
    constants = [kind != "variable" for _, _, kind in case.operands]
    kinds = zip(block.args, case.operands, strict=True)
    splats: dict[SSAValue, float] = {
        argument: 1.0 for argument, (_, _, kind) in kinds if kind == "splat"
    }

    def further(type: Attribute, constant: bool) -> SSAValue:
        constants.append(constant)
        return block.insert_arg(type, len(block.args))

    def reshaped(value: SSAValue, shape: Sequence[int]) -> SSAValue:
        type, place = tensor(tensor_type(value).element_type, shape), place_of(value.type)
        assert isinstance(value, BlockArgument)
        return further(placed(type, place) if place else type, constants[value.index])

    def constant(array: Array, hint: str) -> SSAValue:
        return further(type_of(array), True)

    def derived(
        value: SSAValue, shape: Sequence[int], compute: Callable[[Array], Array]
    ) -> SSAValue | None:
        assert isinstance(value, BlockArgument)
        type = tensor(tensor_type(value).element_type, shape)
        return further(type, True) if constants[value.index] else None

    assert case.kernel.lower is not None
    builder = KernelBuilder(block, constant, reshaped, lambda value: splats.get(value), derived)
    lowered = case.kernel.lower(builder, scratch, *block.args[: len(types)])
    results = [lowered] if isinstance(lowered, SSAValue) else list(lowered)
    block.add_op(ReturnOp(results))
    signature = FunctionType.from_lists([a.type for a in block.args], [r.type for r in results])
    return KernelOp("scratch", signature, Region(block), constant_mark(constants))


def _op_of(case: Case, op: NnOp) -> NnOp:
    """An op as the case says, on arguments of no function, with the places of the case."""
    stub = Block(arg_types=[tensor(element, shape) for element, shape, _ in case.operands])
    results = [tensor(element, shape) for element, shape in case.results]
    kept = {k: v for k, v in op.attributes.items() if k not in ("places", "node")}
    scratch = type(op).create(
        operands=stub.args, result_types=results, properties=op.properties, attributes=kept
    )
    wants = case.kernel.wants(scratch, case.layout)
    values = (*scratch.operands, *scratch.results)
    scratch.attributes["places"] = ArrayAttr(
        want.resolved(_row_major(value, case.kernel.target))
        for want, value in zip(wants, values, strict=True)
    )
    return scratch


def _row_major(value: SSAValue, target: str) -> PlaceAttr:
    return PlaceAttr.get(target, precision_of(tensor_type(value).element_type), NCHW)
