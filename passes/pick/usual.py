"""Stand-ins for ops in cost estimates: with usual sizes for symbols, and floats of another
precision."""

from __future__ import annotations

from collections.abc import Container, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, SSAValue

from tessella.dialects.elements import attribute_of
from tessella.dialects.nn.constants import SplatOp, WeightOp
from tessella.dialects.nn.core import NnOp, Tensor, tensor_type
from tessella.dialects.nn.fused import outside
from tessella.dialects.nn.traits import RunsFunction
from tessella.dialects.sizes import symbols_around, with_sizes
from tessella.kernels.elements import elements_of
from tessella.support.elements import FLOATS
from tessella.support.sizes import estimated


def usual_op(op: NnOp) -> NnOp:
    """Return a copy of an op with usual numbers for symbols, outside any program; the op itself if
    it has no symbols.

    An op that runs a function is returned unchanged, as the function stays in its module.
    """
    # The module's list of symbols is faster to check than the op.
    if symbols_around(op) == () or not op.symbols or op.has_trait(RunsFunction):
        return op
    return _copy(op, list(map(_operand, op.operands)))


def _copy(op: NnOp, operands: Sequence[SSAValue]) -> NnOp:
    return type(op).create(
        operands=operands,
        result_types=[_type(result) for result in op.results],
        properties={
            **op.properties,
            **{name: with_sizes(value, estimated) for name, value in op.setting_properties.items()},
        },
        attributes=dict(op.attributes),
    )


def usual_ops(ops: Sequence[NnOp], constants: Container[NnOp]) -> list[NnOp]:
    """Return copies of ops, operands first, with usual numbers for symbols, outside any program.

    Ops in ``constants`` are not copied: a weight stands for each of their results.
    """
    known: dict[SSAValue, SSAValue] = {}
    copies: list[NnOp] = []
    for op in ops:
        if op in constants:
            for result in op.results:
                known[result] = WeightOp("constant", tensor_type(_type(result))).res
            continue
        operands = [known.setdefault(x, known.get(x) or _operand(x)) for x in op.operands]
        copies.append(_copy(op, operands))
        known.update(zip(op.results, copies[-1].results, strict=True))
    return copies


def stored_op(op: NnOp, precision: str) -> NnOp:
    """Return a copy of an op with floats stored in a precision, outside any program.

    The op itself is returned if its floats already have that precision, or if the precision is not
    one of floats.
    """
    found = elements_of(op, precision) if precision in FLOATS else None
    if found is None or found == elements_of(op):
        return op
    operands = map(_stored, op.operands, found.reads)
    return type(op).create(
        operands=list(operands),
        result_types=list(map(_of_element, op.results, found.writes)),
        properties=dict(op.properties),
        attributes=dict(op.attributes),
    )


def _stored(value: SSAValue, element: str) -> SSAValue:
    owner, type = outside(value).owner, _of_element(value, element)
    if isinstance(owner, SplatOp):
        return SplatOp(owner.number, type).res
    if isinstance(owner, WeightOp):
        return WeightOp(owner.symbol.root_reference.data, type).res
    return Block(arg_types=[type]).args[0]


def _of_element(value: SSAValue, name: str) -> Tensor:
    type = tensor_type(value)
    return TensorType(attribute_of(name), type.shape)


def _type(value: SSAValue) -> Attribute:
    return with_sizes(value.type, estimated)


def _operand(value: SSAValue) -> SSAValue:
    owner = outside(value).owner
    if isinstance(owner, SplatOp):
        return SplatOp(owner.number, tensor_type(_type(value))).res
    if isinstance(owner, WeightOp):
        return WeightOp(owner.symbol.root_reference.data, tensor_type(_type(value))).res
    return Block(arg_types=[_type(value)]).args[0]
