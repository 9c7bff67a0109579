"""Structural keys of operations, independent of value names: equal for equivalent operations."""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.ir import Operation, SSAValue


def structure(op: Operation) -> Hashable:
    """Return a key that is equal for operations of equal structure, regions included.

    It has one entry for each nested operation, in order. Values are numbered in definition order; a
    value from outside is its own key.
    """
    numbers: dict[SSAValue, int] = {}
    return tuple(_entry(inner, numbers) for inner in op.walk())


def _entry(op: Operation, numbers: dict[SSAValue, int]) -> Hashable:
    operands = tuple([numbers.get(value, value) for value in op.operands])
    for value in op.results:
        numbers[value] = len(numbers)
    own = (
        op.name,
        operands,
        op.result_types,
        frozenset(op.properties.items()),
        frozenset(op.attributes.items()),
    )
    if not op.regions:  # most ops have no regions
        return own
    blocks = [block for region in op.regions for block in region.blocks]
    for block in blocks:
        for argument in block.args:
            numbers[argument] = len(numbers)
    return (
        own,
        # the number of ops in each block, with the order of all ops, determines the block of each
        # op
        tuple(len(region.blocks) for region in op.regions),
        tuple((block.arg_types, len(block.ops)) for block in blocks),
    )
