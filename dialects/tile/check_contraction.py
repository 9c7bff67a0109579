"""Checks of a `tile.contract`: its accesses, its constraints, its bodies, its schedule."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import (
    FloatAttr,
    IntegerAttr,
)
from xdsl.ir import Attribute, Block, Operation
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.elements import find_element
from tessella.dialects.nn.core import shape_of, tensor_type
from tessella.dialects.sizes import SizeOp
from tessella.dialects.tile.access import (
    may_stay_inside,
    print_access,
    stays_inside,
)
from tessella.dialects.tile.attributes import AGGREGATIONS
from tessella.dialects.tile.bodies import SCALAR_DIALECTS, ExtractOp, IndexOp, YieldOp, yielded
from tessella.dialects.tile.check_scatter import verify_scatter
from tessella.dialects.tile.check_schedule import check_dot, check_schedule
from tessella.dialects.tile.contraction import ContractionOp
from tessella.dialects.tile.operands import (
    verify_arguments,
    verify_operand,
)
from tessella.support.conditions import UndecidedSizeError, decided
from tessella.support.sizes import Size, bounds_of

_OF_BODIES = (IndexOp, SizeOp, ExtractOp, YieldOp)
_MOVES = ("arith.extf", "arith.truncf", "arith.bitcast", "arith.select", "arith.constant")
"""The names of the ops that are allowed on elements of types for storage only, in which no
arithmetic is done."""


def _is_only_stored(type: Attribute) -> bool:
    element = find_element(type)
    return element is not None and element.narrow


def verify_contraction(op: ContractionOp) -> None:
    """Raise VerifyException unless the operands, accesses, bodies and schedule of a statement fit
    together."""
    if op.aggregation.data not in AGGREGATIONS:
        raise VerifyException(
            f"tile.contract: expected an aggregation ({' '.join(AGGREGATIONS)}), found "
            f"{op.aggregation.data!r}"
        )
    if op.part_count is not None and op.part_count < 1:
        raise VerifyException("tile.contract: expected a number above 0 as parts")
    _verify_elements(op)
    _verify_accesses(op)
    _verify_running(op)
    _verify_written_once(op)
    verify_scatter(op)
    _verify_where(op)
    _verify_bodies(op)
    _verify_default(op)
    if op.schedule is not None:
        shared = [at.name for at in op.at_list]
        check_schedule(op.schedule.data, op.loop_list, shared)
        check_dot(op.schedule.data, op.summed)


def _verify_elements(op: ContractionOp) -> None:
    for value in op.tensors:
        element = find_element(tensor_type(value).element_type)
        if element is not None and element.bits < 8:
            raise VerifyException(
                f"tile.contract: expected elements of 8 bits or more, found {value.type}"
            )


def _verify_accesses(op: ContractionOp) -> None:
    known = {index.name: index for index in op.index_list}
    names = [*known, *(index.name for index in op.loop_list if index.digits)]
    if len({*names}) != len(op.index_list) + sum(bool(i.digits) for i in op.loop_list):
        raise VerifyException("tile.contract: an index is declared twice")
    values = (*op.inputs, *op.post_inputs, op.res)
    if len(op.accesses) != len(values):
        raise VerifyException(
            f"tile.contract: expected {len(values)} accesses, found {len(op.accesses)}"
        )
    free_only = len(op.inputs)
    for i, (value, forms) in enumerate(zip(values, op.access_list, strict=True)):
        verify_operand(op.name, value, forms, known)
        for name, _ in (term for form in forms for term in form.terms):
            if not known[name].written and i >= free_only:
                raise VerifyException(
                    f"tile.contract: {print_access(forms)} is accessed after the reduction "
                    f"over {name}"
                )
    if op.is_map and any(index.reduced for index in op.index_list):
        raise VerifyException("tile.contract: an assignment has no reduced indices")


def _verify_running(op: ContractionOp) -> None:
    running = [index for index in op.index_list if index.running is not None]
    if len(running) > 1:
        names = ", ".join(index.name for index in running)
        raise VerifyException(
            f"tile.contract: expected one running index at most, found {names}; an aggregate "
            "along two indices is two statements"
        )
    if running and op.part_count is not None:
        raise VerifyException(
            f"tile.contract: expected no parts of what runs along {running[0].name}"
        )
    for index in running:
        _verify_stays(op, index.name)


def _verify_stays(op: ContractionOp, name: str) -> None:
    """Raise VerifyException if an access to the output or a post operand leaves its tensor at some
    value of a running index.

    If the values of symbols decide, the access is accepted.
    """
    values = (*op.post_inputs, op.res)
    accesses = op.access_list[len(op.inputs) :]
    for value, access in zip(values, accesses, strict=True):
        for form, extent in zip(access, shape_of(value), strict=True):
            if form.coefficient(name) and not may_stay_inside((form,), (extent,), op.ranges):
                raise VerifyException(
                    f"tile.contract: expected 0 <= {form} < {extent} for all values of the "
                    f"running index {name}"
                )


def _verify_written_once(op: ContractionOp) -> None:
    """Raise VerifyException unless each free index, and a running index, occurs in the output's
    access, so that each output element is written once."""
    for index in op.index_list:
        moves = any(f.coefficient(index.name) for f in op.out_access)
        if index.written and not moves and bounds_of(index.range)[1] > 1:
            kind = "running" if index.reduced else "not reduced"
            raise VerifyException(
                f"tile.contract: {print_access(op.out_access)} is written for each value of "
                f"{index.name}, which is {kind}"
            )


def _verify_where(op: ContractionOp) -> None:
    known = {index.name for index in op.index_list}
    for form, extent in op.where_list:
        for name, _ in form.terms:
            if name not in known:
                raise VerifyException(
                    f"tile.contract: the index {name} of {form} < {extent} is not declared"
                )


def _verify_default(op: ContractionOp) -> None:
    """Raise VerifyException if an assignment has no default but may have invalid points, or if the
    default does not fit the statement."""
    element = yielded(op.combine.block).type
    if op.default is not None and not op.is_map:
        raise VerifyException("tile.contract: a default belongs to an assignment")
    if isinstance(op.default, FloatAttr | IntegerAttr) and op.default.type != element:
        raise VerifyException(
            f"tile.contract: expected a default of {element}, which the body yields, found "
            f"{op.default}"
        )
    if op.is_map and op.default is None and not _always_counts(op):
        raise VerifyException(
            "tile.contract: expected a default of an assignment with points that leave an "
            "operand, or that a constraint leaves out"
        )


def _always_counts(op: ContractionOp) -> bool:
    """Return whether all points of a statement are valid: no constraint or access excludes any.
    True if it depends on the values of symbols."""
    ranges = op.ranges
    pairs = zip(op.inputs, op.input_accesses, strict=True)
    try:
        return not op.where_list and all(
            stays_inside(access, shape_of(value), ranges) for value, access in pairs
        )
    except UndecidedSizeError:
        return True


def _verify_bodies(op: ContractionOp) -> None:
    element, made = tensor_type(op.res).element_type, yielded(op.combine.block).type
    if op.aggregation.data != "=" and _is_only_stored(made):
        raise VerifyException(f"tile.contract: {made} is only stored, and nothing sums in it")
    bodies = [(op.combine.block, [tensor_type(v).element_type for v in op.inputs])]
    if op.post_block is not None:
        rest = [tensor_type(v).element_type for v in op.post_inputs]
        bodies.append((op.post_block, [made, *rest]))
    elif op.post_inputs:
        raise VerifyException("tile.contract: post operands without a post body")
    for block, expected in bodies:
        _verify_scalars(op, block)
        verify_arguments(op.name, block, expected)
    last = yielded(bodies[-1][0]).type
    if last != element:
        raise VerifyException(f"tile.contract: the body yields {last}, the output holds {element}")


def _verify_scalars(op: ContractionOp, block: Block) -> None:
    """Raise VerifyException unless the ops of a body are scalar ops on values of that body. Only
    `tile.extract` may read tensors."""
    known = op.ranges
    reduced = {index.name for index in op.index_list if not index.written}
    for scalar in block.ops:
        if scalar.dialect_name() not in SCALAR_DIALECTS and not isinstance(scalar, _OF_BODIES):
            raise VerifyException(f"tile.contract: {scalar.name} does not belong into a body")
        if isinstance(scalar, IndexOp) and scalar.index.data not in known:
            raise VerifyException(f"tile.index: the index {scalar.index.data} is not declared")
        if isinstance(scalar, IndexOp) and block is op.post_block and scalar.index.data in reduced:
            raise VerifyException(
                f"tile.index: {scalar.index.data} is read after the reduction over it"
            )
        if scalar.dialect_name() in SCALAR_DIALECTS and scalar.name not in _MOVES:
            _verify_arithmetic(scalar)
        if isinstance(scalar, ExtractOp):
            _verify_coordinates(scalar, known)
        taken = scalar.coordinates if isinstance(scalar, ExtractOp) else scalar.operands
        if any(block not in (value.owner, value.owner.parent) for value in taken):
            raise VerifyException(
                f"tile.contract: {scalar.name} takes a value from outside its body"
            )


def _verify_coordinates(op: ExtractOp, ranges: Mapping[str, Size]) -> None:
    """Raise VerifyException if a coordinate of a `tile.extract` is an index with a range beyond the
    dimension.

    Computed coordinates are checked at run time.
    """
    for coordinate, extent in zip(op.coordinates, shape_of(op.source), strict=True):
        owner = coordinate.owner
        if isinstance(owner, IndexOp) and decided(ranges[owner.index.data] > extent):
            raise VerifyException(
                f"tile.extract: the index {owner.index.data} has {ranges[owner.index.data]} "
                f"values, the dimension {extent}"
            )


def _verify_arithmetic(op: Operation) -> None:
    """Raise VerifyException if an arithmetic op computes in a narrow float type, from which values
    must be widened first."""
    for value in (*op.operands, *op.results):
        if _is_only_stored(value.type):
            raise VerifyException(
                f"tile.contract: {op.name} computes in {value.type}, which is only stored"
            )
