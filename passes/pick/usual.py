"""An op of usual sizes, which costs are estimated for in the place of one of symbols."""

from __future__ import annotations

from xdsl.ir import Attribute, Block, SSAValue

from tessella.dialects.nn.constants import SplatOp, WeightOp
from tessella.dialects.nn.core import NnOp, tensor_type
from tessella.dialects.nn.fused import outside
from tessella.dialects.nn.traits import RunsFunction
from tessella.dialects.sizes import symbols_around, with_sizes
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
            **{name: with_sizes(value, estimated) for name, value in op.setting_properties.items()},
        },
        attributes=dict(op.attributes),
    )


def _type(value: SSAValue) -> Attribute:
    return with_sizes(value.type, estimated)


def _operand(value: SSAValue) -> SSAValue:
    owner = outside(value).owner
    if isinstance(owner, SplatOp):
        return SplatOp(owner.number, tensor_type(_type(value))).res
    if isinstance(owner, WeightOp):
        return WeightOp(owner.symbol.root_reference.data, tensor_type(_type(value))).res
    return Block(arg_types=[_type(value)]).args[0]
