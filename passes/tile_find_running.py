"""Find aggregations over all values up to each one, which take time by the square of their number.

    %S = tile.contract + [j: 4, i: 16 | k: 16] (%A[j, k]) -> [j, i] where [i - k < 16]
    ->
    %S = tile.contract + [j: 4 | i: 16 running] (%A[j, i]) -> [j, i]

As `0 <= i - k` is `k <= i`, element `i` aggregates the values of `k` up to `i`. `k - i` runs in
reverse, and `i - k - 1` leaves out the value `i` itself. The body and its operands must not depend
on `i`. Sums of floats round differently then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Region

from tessella.dialects.tile import (
    ContractOp,
    Index,
    IndexOp,
    IndicesAttr,
    KernelOp,
    Linear,
    Running,
    WhereAttr,
)
from tessella.dialects.tile.attributes import AccessAttr
from tessella.passes.kinds import KernelPass
from tessella.support.conditions import always
from tessella.support.sizes import Size
from tessella.targets import Target

Constraint = tuple[Linear, Size]


@dataclass(frozen=True)
class TileFindRunningPass(KernelPass):
    """Replace aggregations over all values up to each one by aggregations along a running index."""

    name = "tile-find-running"
    stages = ("tile",)

    def rewrite(self, kernel: KernelOp, target: Target) -> None:
        for op in kernel.statements:
            plain = op.schedule is None and not op.at_list and op.running_index is None
            found = next(_found(op), None) if plain and not op.is_map else None
            if found is not None:
                _run_along(op, found)


@dataclass(frozen=True)
class _Found:
    """A constraint by which a reduced index can run along a free one."""

    constraint: Constraint
    free: Index
    reduced: Index
    running: Running


def _found(op: ContractOp) -> Iterator[_Found]:
    indices = {index.name: index for index in op.index_list}
    for constraint in op.where_list:
        form, extent = constraint
        if len(form.terms) != 2 or form.constant not in (0, -1):
            continue
        pair = [indices[name] for name, _ in form.terms]
        free, reduced = sorted(pair, key=lambda index: index.reduced)
        running = _direction(form, free.name, reduced.name)
        if free.reduced or not reduced.reduced or running is None:
            continue
        found = _Found(constraint, free, reduced, running)
        same = always(free.range == reduced.range) and always(extent >= free.range)
        if same and not any(index.digits for index in op.loop_list) and _is_apart(op, found):
            yield found


def _direction(form: Linear, free: str, reduced: str) -> Running | None:
    """Return the direction in which a constraint ``0 <= form`` lets a reduced index run along a
    free one; None if it does not."""
    factors = form.coefficient(free), form.coefficient(reduced)
    if factors not in ((1, -1), (-1, 1)):
        return None
    return Running(reverse=factors[0] < 0, exclusive=form.constant == -1)


def _is_apart(op: ContractOp, found: _Found) -> bool:
    """Return whether the aggregated value depends on the free index only through the constraint."""
    forms = [form for access in op.input_accesses for form in access]
    forms += [form for form, extent in op.where_list if (form, extent) != found.constraint]
    return (
        not any(form.coefficient(found.free.name) for form in forms)
        and found.free.name not in _read(op.combine)
        and op.part_count is None
    )


def _read(region: Region) -> Sequence[str]:
    return [x.index.data for x in region.walk() if isinstance(x, IndexOp)]


def _run_along(op: ContractOp, found: _Found) -> None:
    """Replace the free and the reduced index of a statement by a running one, in place. The running
    index takes the name of the free one."""
    name, old = found.free.name, found.reduced.name
    running = replace(found.free, reduced=True, running=found.running)
    rest = [index for index in op.index_list if index.name not in (name, old)]
    op.indices = IndicesAttr((*rest, running))
    moved = {old: Linear.of(name)}
    op.accesses = ArrayAttr(
        AccessAttr(tuple(form.substitute(moved) for form in forms)) for forms in op.access_list
    )
    where = [
        (form.substitute(moved), extent)
        for form, extent in op.where_list
        if (form, extent) != found.constraint
    ]
    op.constraints = WhereAttr(tuple(where)) if where else None
    for inner in op.combine.walk():
        if isinstance(inner, IndexOp) and inner.index.data == old:
            inner.index = StringAttr(name)
