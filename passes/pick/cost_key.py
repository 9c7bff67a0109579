"""A key of everything that the cost of an op's kernels depends on: ops with equal keys share an
estimate.

Time is proportional to some extents, so a key has powers of two in their place: for the number of
elements of elementwise ops, in one dimension; for the number of summands of contractions; and for
the number of channels of ops that treat channels alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, SSAValue

from tessella.dialects.nn.constants import ConstantOp, SplatOp
from tessella.dialects.nn.core import NnOp, tensor_type
from tessella.dialects.nn.elementwise import ElementwiseOp
from tessella.dialects.nn.fused import outside
from tessella.dialects.place import CastOp, CopyOp, RelayoutOp

FLAT = 1 << 12
"""The number of elements from which elementwise ops are estimated at powers of two."""
LONG = 32
"""The number of summands from which contractions are estimated at powers of two."""
WIDE = 64
"""The number of result channels from which ops are estimated at powers of two."""

Extents = tuple[int, ...]


@dataclass(frozen=True)
class OperandKey:
    """An operand or result; ``kind`` is `variable`, `weight` or `splat`."""

    element: Attribute
    shape: Extents
    kind: str = "variable"


@dataclass(frozen=True)
class CostKey:
    """The properties of an op that the cost of its kernels depends on."""

    properties: tuple[tuple[str, Attribute], ...]
    operands: tuple[OperandKey, ...]
    results: tuple[OperandKey, ...]

    @property
    def values(self) -> tuple[OperandKey, ...]:
        return (*self.operands, *self.results)


def exact_key(op: NnOp) -> CostKey:
    """Return the key of an op with its exact extents."""
    operands = tuple(_value(value, _kind(value)) for value in op.operands)
    results = tuple(_value(value, "variable") for value in op.results)
    return CostKey(tuple(sorted(op.setting_properties.items())), operands, results)


def op_text(op: NnOp) -> str:
    """Return the exact key of an op as text, equal in all processes: `nn.relu {} (4xf32) -> 4xf32`.

    It marks operands that are inputs of the program, as no op has loaded them into the caches.
    """
    key = exact_key(op)
    settings = ", ".join(f"{name} = {value}" for name, value in key.properties)
    kinds = ("input " if is_input(value) else "" for value in op.operands)
    operands = ", ".join(k + _value_text(v) for k, v in zip(kinds, key.operands, strict=True))
    results = ", ".join(_value_text(value) for value in key.results)
    return f"{op.name} {{{settings}}} ({operands}) -> {results}"


def _value_text(value: OperandKey) -> str:
    kind = "" if value.kind == "variable" else f"{value.kind} "
    return kind + "x".join([*map(str, value.shape), str(value.element)])


def cost_key(op: NnOp) -> tuple[CostKey, float]:
    """Return the key of an op, and the factor by which the op takes longer than the key's op."""
    key = exact_key(op)
    if isinstance(op, ElementwiseOp):
        return _flat(key)
    key, summands = _rounded(key, op.contracted, LONG)
    key, channels = _rounded(key, op.channels, WIDE)
    return key, summands * channels


def _value(value: SSAValue, kind: str) -> OperandKey:
    type = tensor_type(value)
    return OperandKey(type.element_type, type.get_shape(), kind)


def _kind(value: SSAValue) -> str:
    owner = outside(value).owner
    kind = "weight" if isinstance(owner, ConstantOp) else "variable"
    return "splat" if isinstance(owner, SplatOp) else kind


def is_input(value: SSAValue) -> bool:
    """Return whether a value is an input of the program, or a conversion of one."""
    value = outside(value)
    while isinstance(value.owner, CastOp | CopyOp | RelayoutOp):
        value = value.owner.source
    return isinstance(value.owner, Block) and isinstance(value.owner.parent_op(), FuncOp)


def _power(extent: int) -> int:
    """Return the nearest power of two on a logarithmic scale."""
    return 1 << round(math.log2(extent))


def _flat(key: CostKey) -> tuple[CostKey, float]:
    """Return the key of an elementwise op with all elements in one dimension, as its cost does not
    depend on shape and layout, and the factor by which the op takes longer than the key says."""
    [result] = key.results
    size = math.prod(result.shape)
    count = _power(size) if size >= FLAT else size
    operands = tuple(
        OperandKey(x.element, (count,) if x.shape == result.shape else (1,), x.kind)
        for x in key.operands
    )
    return CostKey(key.properties, operands, (OperandKey(result.element, (count,)),)), size / count


def _rounded(key: CostKey, dims: Mapping[int, int], least: int) -> tuple[CostKey, float]:
    """Return the key with one dimension rounded to a power of two, and the factor by which the op
    takes longer than the rounded key says. ``dims`` maps the number of each operand and result that
    has the dimension to the dimension's position there."""
    values, count = list(key.values), len(key.operands)
    extents = [values[i].shape[dim] for i, dim in dims.items()]
    if not extents or min(extents) < least:
        return key, 1.0
    for i, dim in dims.items():
        x = values[i]
        shape = (*x.shape[:dim], _power(x.shape[dim]), *x.shape[dim + 1 :])
        values[i] = OperandKey(x.element, shape, x.kind)
    rounded = CostKey(key.properties, tuple(values[:count]), tuple(values[count:]))
    return rounded, extents[0] / _power(extents[0])
