"""The cases for which generated kernels are estimated, and the kernel of a case.

A case is all of an op that the cost of its kernels depends on. There are fewer cases than ops, as
the time grows in proportion with some extents: maps are estimated flat, with a power of two of
elements; contractions with a power of two of summands; and what goes channel by channel with a
power of two of channels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, FunctionType
from xdsl.ir import Attribute, Block, BlockArgument, Region, SSAValue

from tessella.dialects.layout import NCHW, Layout
from tessella.dialects.nn.constants import ConstantOp, SplatOp
from tessella.dialects.nn.core import Array, NnOp, Tensor, tensor, tensor_type, type_of
from tessella.dialects.nn.elementwise import ElementwiseOp
from tessella.dialects.nn.fused import FusedOp
from tessella.dialects.place import PlaceAttr, place_of, placed, precision_of
from tessella.dialects.tile import ContractOp, KernelOp, ReturnOp, constant_mark
from tessella.kernels.builder import Body, Form, KernelBuilder
from tessella.kernels.registry import Kernel

FLAT = 1 << 12
"""Elements from which on maps are estimated at powers of two."""
LONG = 32
"""Summands from which on contractions are estimated at powers of two."""
WIDE = 64
"""Channels of a result from which on it is estimated at powers of two."""

Extents = tuple[int, ...]


@dataclass(frozen=True)
class Operand:
    """An operand of a case; ``kind`` is a `variable`, a `constant`, or a `splat`."""

    element: Attribute
    shape: Extents
    kind: str = "variable"


@dataclass(frozen=True)
class Case:
    """All of an op that the cost of its kernels depends on."""

    properties: tuple[tuple[str, Attribute], ...]
    operands: tuple[Operand, ...]
    results: tuple[Operand, ...]

    @property
    def values(self) -> tuple[Operand, ...]:
        return (*self.operands, *self.results)


def whole_case(op: NnOp) -> Case:
    """The case of an op and no other."""
    operands = tuple(_operand(value, _kind(value)) for value in op.operands)
    results = tuple(_operand(value, "variable") for value in op.results)
    return Case(tuple(sorted(op.properties.items())), operands, results)


def case_of(op: NnOp) -> tuple[Case, float]:
    """The case that stands for an op, and how many times longer the op takes."""
    case = whole_case(op)
    if isinstance(op, ElementwiseOp):
        return _flat(case)
    case, summands = _rounded(case, op.contracted, LONG)
    case, channels = _rounded(case, op.channels, WIDE)
    return case, summands * channels


def _operand(value: SSAValue, kind: str) -> Operand:
    type = tensor_type(value)
    return Operand(type.element_type, type.get_shape(), kind)


def _kind(value: SSAValue) -> str:
    owner = _origin(value).owner
    constant = "constant" if isinstance(owner, ConstantOp) else "variable"
    return "splat" if isinstance(owner, SplatOp) else constant


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
    [result] = case.results
    size = math.prod(result.shape)
    count = _power(size) if size >= FLAT else size
    operands = tuple(
        Operand(x.element, (count,) if x.shape == result.shape else (1,), x.kind)
        for x in case.operands
    )
    return Case(case.properties, operands, (Operand(result.element, (count,)),)), size / count


def _rounded(case: Case, dims: Mapping[int, int], least: int) -> tuple[Case, float]:
    """The case with a power of two as the extent of one dimension, which values have by number."""
    values, count = list(case.values), len(case.operands)
    extents = [values[i].shape[dim] for i, dim in dims.items()]
    if not extents or min(extents) < least:
        return case, 1.0
    for i, dim in dims.items():
        x = values[i]
        shape = (*x.shape[:dim], _power(x.shape[dim]), *x.shape[dim + 1 :])
        values[i] = Operand(x.element, shape, x.kind)
    rounded = Case(case.properties, tuple(values[:count]), tuple(values[count:]))
    return rounded, extents[0] / _power(extents[0])


# ** the kernel of a case **


def kernel_of(case: Case, op: NnOp, kernel: Kernel, target: str, layout: Layout) -> KernelOp:
    """What the lowering of a kernel makes of a case, apart from any module; the op is one that the
    case stands for."""
    wants = zip(kernel.wants(op, target, layout), case.values, strict=True)
    places = [want.resolved(_row_major(x.element, target)) for want, x in wants]
    types = [_type(x, place) for x, place in zip(case.values, places, strict=True)]
    count = len(case.operands)
    block = Block(arg_types=types[:count])
    constants = [x.kind != "variable" for x in case.operands]
    kinds = zip(block.args, case.operands, strict=True)
    splats: dict[SSAValue, float] = {a: 1.0 for a, x in kinds if x.kind == "splat"}

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

    assert kernel.lower is not None
    builder = _Statements(block, constant, reshaped, splats.get, derived)
    lowered = kernel.lower(builder, _stub(op, types, places), *block.args[:count])
    results = [lowered] if isinstance(lowered, SSAValue) else list(lowered)
    block.add_op(ReturnOp(results))
    signature = FunctionType.from_lists([a.type for a in block.args], [r.type for r in results])
    return KernelOp("scratch", signature, Region(block), constant_mark(constants))


def _type(operand: Operand, place: PlaceAttr) -> Tensor:
    return Tensor(operand.element, operand.shape, place)


def _row_major(element: Attribute, target: str) -> PlaceAttr:
    return PlaceAttr.get(target, precision_of(element), NCHW)


def _stub(op: NnOp, types: Sequence[Tensor], places: Sequence[PlaceAttr]) -> NnOp:
    """An op like the given one, on arguments of no function."""
    count = len(op.operands)
    kept = {k: v for k, v in op.attributes.items() if k not in ("places", "node")}
    return type(op).create(
        operands=Block(arg_types=types[:count]).args,
        result_types=types[count:],
        properties=op.properties,
        attributes={**kept, "places": ArrayAttr(places)},
    )


class _Statements(KernelBuilder):
    """Leaves out the maps that will join the aggregation that they read (``tile_fuse_maps.py``):
    there, they cost next to nothing."""

    def contract(
        self,
        aggregation: str,
        free: Mapping[str, int],
        reduced: Mapping[str, int],
        inputs: Sequence[tuple[SSAValue, Sequence[Form]]],
        out: tuple[Tensor, Sequence[Form]],
        body: Body,
        *,
        init: SSAValue | None = None,
        default: float | None = None,
    ) -> SSAValue:
        if aggregation == "=" and inputs and init is None and _aggregated(*inputs[0], *out):
            return inputs[0][0]
        return super().contract(
            aggregation, free, reduced, inputs, out, body, init=init, default=default
        )


def _aggregated(
    value: SSAValue, read: Sequence[Form], type: Tensor, written: Sequence[Form]
) -> bool:
    """Whether a map reads the result of an aggregation at the points where it writes its own."""
    owner = value.owner
    same = value.type == type and list(read) == list(written)
    return same and isinstance(owner, ContractOp) and not owner.is_map
