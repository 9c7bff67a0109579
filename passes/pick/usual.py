"""Stand-ins for ops in cost estimates: with numbers for symbols, and floats of another precision.

The numbers are usual ones. Kernels are compared at a few others too, toward the ends of a symbol's
range.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from itertools import islice

from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.ir import Attribute, Block, SSAValue

from tessella.dialects.elements import attribute_of
from tessella.dialects.nn.constants import SplatOp, WeightOp
from tessella.dialects.nn.core import NnOp, Tensor, shape_of, tensor_type
from tessella.dialects.nn.fused import outside
from tessella.dialects.nn.traits import RunsFunction
from tessella.dialects.sizes import is_static, symbols_around, with_sizes
from tessella.kernels.elements import elements_of
from tessella.support.elements import FLOATS
from tessella.support.sizes import Size, estimated, value_of

Numbers = Callable[[Size], int]
"""A function that returns a number for a size."""


def sampled_ops(op: NnOp, most: int | None = None) -> Mapping[str, NnOp]:
    """Return up to ``most`` copies of an op with numbers in place of symbols, outside any program,
    each by a text such as `n = 16`. The first has the usual numbers; the others have small and
    large ones.

    An op without symbols is returned itself, as the only one. So is an op that runs a function, as
    the function stays in its module.
    """
    # The module's list of symbols is faster to check than the op.
    if symbols_around(op) == () or not op.symbols or op.has_trait(RunsFunction):
        return {"": op}
    symbols = sorted(op.symbols)
    found: dict[str, NnOp] = {}
    samples = zip(*(symbol.samples for symbol in symbols), strict=True)
    for values in islice(samples, most):
        named = {symbol.name: value for symbol, value in zip(symbols, values, strict=True)}
        copy = _copy(op, partial(value_of, values=named))
        if not found or _is_full(copy):
            found[", ".join(f"{name} = {value}" for name, value in named.items())] = copy
    return found


def _is_full(op: NnOp) -> bool:
    """Return whether no operand or result of an op, whose sizes are numbers, is empty."""
    return all(value_of(s, {}) > 0 for x in (*op.operands, *op.results) for s in shape_of(x))


def _copy(op: NnOp, of: Numbers, operands: Sequence[SSAValue] | None = None) -> NnOp:
    return type(op).create(
        operands=[_operand(x, of) for x in op.operands] if operands is None else operands,
        result_types=[_type(result, of) for result in op.results],
        properties={
            **op.properties,
            **{name: with_sizes(value, of) for name, value in op.setting_properties.items()},
        },
        attributes=dict(op.attributes),
    )


def usual_ops(ops: Sequence[NnOp], constants: Container[NnOp]) -> list[NnOp]:
    """Return copies of ops outside any program, operands first, with usual numbers in place of
    symbols.

    Ops in ``constants`` are not copied: a weight stands for each of their results.
    """
    known: dict[SSAValue, SSAValue] = {}
    copies: list[NnOp] = []
    for op in ops:
        if op in constants:
            for result in op.results:
                known[result] = WeightOp("constant", tensor_type(_type(result, estimated))).res
            continue
        operands = [known.get(x) or _operand(x, estimated) for x in op.operands]
        known.update(zip(op.operands, operands, strict=True))
        copies.append(_copy(op, estimated, operands))
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


def _type(value: SSAValue, of: Numbers) -> Attribute:
    type = tensor_type(value)
    has_numbers = isinstance(type.encoding, NoneAttr) and is_static(shape_of(type))
    return type if has_numbers else with_sizes(type, of)


def _operand(value: SSAValue, of: Numbers) -> SSAValue:
    owner = outside(value).owner
    if isinstance(owner, SplatOp):
        return SplatOp(owner.number, tensor_type(_type(value, of))).res
    if isinstance(owner, WeightOp):
        return WeightOp(owner.symbol.root_reference.data, tensor_type(_type(value, of))).res
    return Block(arg_types=[_type(value, of)]).args[0]
