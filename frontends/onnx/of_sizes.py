"""Size-like values: values that ops which propagate symbols compute from a few integers.

The continuation after a graph break recomputes these values, so that each of the integers is a
symbol there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from xdsl.ir import SSAValue

from tessella.dialects.graph import info
from tessella.dialects.nn.core import NnOp, shape_of
from tessella.dialects.nn.evaluate_sizes import passes_sizes
from tessella.frontends.emitter import Value
from tessella.frontends.onnx.held import Known
from tessella.frontends.onnx.model import Node
from tessella.support.decisions import known_all


def names_of_sizes(
    made: Mapping[str, Node], value_of: Callable[[str], Known | None]
) -> frozenset[str]:
    """Return the names of the size-like values among the results of nodes. ``made`` maps results to
    nodes, in execution order."""
    found: set[str] = set()
    for name, node in made.items():
        value = value_of(name) if name else None
        if isinstance(value, Value) and _are_few(value.ssa):
            operands = {each: value_of(each) for each in node.inputs if each}
            given = {x.ssa: each for each, x in operands.items() if isinstance(x, Value)}
            if _is_of_sizes(value.ssa, given, found):
                found.add(name)
    return frozenset(found)


def _is_of_sizes(value: SSAValue, given: Mapping[SSAValue, str], found: set[str]) -> bool:
    """Return whether a value is computed from its node's operands, ``given`` by name, like a size.

    An op that selects some of several integers counts only if these are size-like themselves (in
    ``found``): entries of a table are data.
    """
    queue, seen = [value], set[SSAValue]()
    while queue:
        each = queue.pop()
        if each in seen or (each in given and each is not value):
            continue
        seen.add(each)
        op = each.owner
        if not isinstance(op, NnOp) or not passes_sizes(op):
            return False
        for operand in op.operands:
            if not _are_few(operand):
                return False
            is_partly_read = _count(operand) > _count(each)
            if is_partly_read and given.get(operand) not in found:
                return False
            queue.append(operand)
    return True


def _are_few(value: SSAValue) -> bool:
    return info("", value.type).can_be_sizes


def _count(value: SSAValue) -> int:
    return prod(known_all(shape_of(value)))
