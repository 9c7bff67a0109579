"""An op of usual sizes, which costs are estimated for in the place of one of symbols."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import Attribute, Block, SSAValue

from tessella.dialects.nn.constants import SplatOp, WeightOp
from tessella.dialects.nn.core import (
    NnOp,
    Tensor,
    shape_of,
    tensor,
    tensor_type,
    to_attribute,
    to_python,
)
from tessella.dialects.nn.fused import outside
from tessella.dialects.nn.traits import RunsFunction
from tessella.dialects.place import place_of, placed
from tessella.dialects.sizes import symbols_around
from tessella.support.sizes import estimated


def usual_op(op: NnOp) -> NnOp:
    """The op with the usual numbers for symbols, outside any program; the op itself where it has
    none. What a loop runs stays in its function."""
    # Whether the module declares symbols is found sooner than whether the op reads one.
    if symbols_around(op) == () or not op.symbols or op.has_trait(RunsFunction):
        return op
    return type(op).create(
        operands=list(map(_operand, op.operands)),
        result_types=[_type(result) for result in op.results],
        properties={
            **op.properties,
            **{name: _property(value) for name, value in op.setting_properties.items()},
        },
        attributes=dict(op.attributes),
    )


def _type(value: SSAValue) -> Tensor:
    shape = [estimated(size) for size in shape_of(value)]
    type, place = tensor(tensor_type(value).element_type, shape), place_of(value.type)
    return type if place is None else placed(type, place)


def _operand(value: SSAValue) -> SSAValue:
    owner = outside(value).owner
    if isinstance(owner, SplatOp):
        return SplatOp(owner.number, _type(value)).res
    if isinstance(owner, WeightOp):
        return WeightOp(owner.symbol.root_reference.data, _type(value)).res
    return Block(arg_types=[_type(value)]).args[0]


def _property(value: Attribute) -> Attribute:
    match value:
        case IntAttr():
            return to_attribute(estimated(value.data))
        case ArrayAttr():
            return to_attribute(tuple(map(estimated, to_python(value))))
        case _:
            return value
