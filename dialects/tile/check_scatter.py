"""Checks of indexed writes: statements with a body that yields the coordinates to which each value
goes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from xdsl.dialects.builtin import IndexType
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.nn.core import shape_of
from tessella.dialects.tile.access import stays_inside
from tessella.dialects.tile.bodies import coordinates_of
from tessella.dialects.tile.contraction import ContractionOp
from tessella.support.conditions import decided


def verify_scatter(op: ContractionOp) -> None:
    """Raise VerifyException if an indexed write is invalid, or if a statement without scattered
    indices yields or checks coordinates."""
    rules = _rules(op) if op.is_scatter else _plain_rules(op)
    broken = next((rule for rule, holds in rules if not holds), None)
    if broken is not None:
        raise VerifyException(f"tile.contract: expected {broken}")


def _plain_rules(op: ContractionOp) -> Iterator[tuple[str, bool]]:
    yield "no coordinates without scattered indices", not coordinates_of(op.combine.block)
    yield "checked coordinates of scattered indices", op.checked is None


def _rules(op: ContractionOp) -> Iterator[tuple[str, bool]]:
    scattered = op.scattered
    yield (
        f"{len(scattered)} coordinates, one for each scattered index, found "
        f"{len(coordinates_of(op.combine.block))}",
        len(coordinates_of(op.combine.block)) == len(scattered),
    )
    yield (
        "coordinates of the type index",
        all(x.type == IndexType() for x in coordinates_of(op.combine.block)),
    )
    yield "an init, which an indexed write writes into", op.init is not None
    yield (
        "no post body, default, parts or shared loops of an indexed write",
        op.post_block is None and not (op.default or op.parts or op.at_list),
    )
    yield "no running index of an indexed write", op.running_index is None
    read = chain.from_iterable(op.access_list[:-1])
    forms = (*read, *(form for form, _ in op.where_list))
    for index in scattered:
        places = [d for d, form in enumerate(op.out_access) if form.coefficient(index.name)]
        yield (
            f"the scattered index {index.name} in one dimension of the output, alone",
            len(places) == 1 and op.out_access[places[0]].single == index.name,
        )
        yield (
            f"at most {shape_of(op.res)[places[0]]} values of the scattered index {index.name}",
            not decided(index.range > shape_of(op.res)[places[0]]),
        )
        yield (
            f"the scattered index {index.name} in the output's access only",
            not any(form.coefficient(index.name) for form in forms),
        )
    yield (
        "an output that no index leaves",
        stays_inside(op.out_access, shape_of(op.res), op.ranges),
    )
