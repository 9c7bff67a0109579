"""Checks that a schedule can be lowered. A schedule that fails them could access memory out of
bounds.

The verifier of the statement checks that the schedule names its indices, with positive numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

from tessella.dialects.tile import ContractOp, Dot, Schedule, ScheduleAttr
from tessella.dialects.tile.bodies import yielded
from tessella.dialects.tile.flat import Flat, FlatAccess
from tessella.dialects.tile.nest import depth, shared_loops
from tessella.dialects.tile.reach import GRANULE, reaches
from tessella.passes.tile.blocks import block_sums
from tessella.passes.tile.parallel import is_divisible, tile_of
from tessella.passes.tile.plan import multiplies_rows, plan_accesses
from tessella.passes.tile.space import can_go_on, runs_in_lanes, tiles_end
from tessella.passes.tile.tiles import has_ends
from tessella.support.conditions import UndecidedSizeError
from tessella.support.errors import InvalidModelError
from tessella.support.sizes import Size, bounds_of, symbols_of


def check_schedule(op: ContractOp, flat: Flat, s: Schedule) -> None:
    """Raise InvalidModelError if a schedule does not fit the statement, for example in an edited
    text. If the statement has symbolic sizes, raise UndecidedSizeError instead."""
    broken = next((rule for rule, holds in _rules(op, flat, s) if not holds), None)
    sizes = (*flat.ranges.values(), *(k for a in flat.accesses for k in a.strides.values()))
    if broken is not None and (symbols := symbols_of(sizes)):
        what = f"a schedule that was chosen for usual sizes needs {broken}"
        raise UndecidedSizeError(what, (symbol.name for symbol in symbols))
    if broken is not None:
        raise InvalidModelError(
            "the schedule does not fit the statement", expected=broken, found=str(ScheduleAttr(s))
        )


def _rules(op: ContractOp, flat: Flat, s: Schedule) -> Iterator[tuple[str, bool]]:
    """Yield each rule for schedules, with whether this schedule follows it. A rule may rely on
    those before it."""
    constrained = {n for c in flat.constraints for n, _ in c.form.terms}
    blocked = {name for name, _ in s.blocks}
    rows = 1 if s.rows is None else dict(s.blocks).get(s.rows, flat.ranges[s.rows])
    yield "tiles for all rows", has_ends(rows, s.row_tile, s.ends)
    yield (
        "blocks that symbols always leave room for",
        all(_has_room(flat, s, name, size) for name, size in s.blocks),
    )
    yield "no blocks of constrained rows", s.rows not in blocked & constrained
    yield (
        "lanes in the innermost loop of an indexed write",
        not op.is_scatter or s.vector in (None, *s.order[-1:]),
    )
    reached = reaches(op)
    yield (
        f"tiles that divide {GRANULE} along indices that end early, outside of rows and blocks",
        tiles_end(reached, s.vector, s.width) and not {s.rows, *blocked} & set(reached),
    )
    yield from _partial_rules(op, flat, s)
    yield (
        "a parallel index whose whole tiles can be divided, outside of shared loops",
        s.parallel is None or _is_divided(op, flat, s, *s.parallel),
    )
    yield (
        f"partial sums of {GRANULE} of an index that ends early",
        s.partial is None or s.partial[0] not in reached or s.partial[1] == GRANULE,
    )
    yield (
        "lanes along a running index in reverse whose range is a number",
        s.vector is None or s.vector != flat.running or runs_in_lanes(op),
    )
    yield (
        "a running index among the loops of a statement that stores its aggregates as they are",
        flat.running not in s.order or can_go_on(op),
    )
    if s.dot is not None:
        yield from _dot_rules(op, flat, s, s.dot)
        yield (
            f"rows that {s.dot.row.name} can compute together",
            s.height == 1 or multiplies_rows(op, flat, s.dot, s.vector, s.rows),
        )
    yield from _access_rules(op, flat, s)


def _dot_rules(op: ContractOp, flat: Flat, s: Schedule, dot: Dot) -> Iterator[tuple[str, bool]]:
    yield (
        "a dot product over a number of values that nothing else depends on",
        dot.index in flat.ranges
        and dot.index not in {*flat.pinned, *reaches(op), *shared_loops(op)}
        and not symbols_of([flat.ranges[dot.index]]),
    )
    product = op.summed
    whole = product is not None and product.op.results[0] == yielded(op.combine.block)
    yield (
        "partial sums of the blocks that are scaled after a dot product",
        whole or block_sums(op, flat, s) is not None,
    )
    yield "a dot product whose lanes no constraint leaves out", s.vector not in flat.pinned
    yield (
        f"partial sums of whole groups of {dot.row.k}",
        s.partial is None or s.partial[0] != dot.index or s.partial[1] % dot.row.k == 0,
    )


def _access_rules(op: ContractOp, flat: Flat, s: Schedule) -> Iterator[tuple[str, bool]]:
    plan = plan_accesses(op, flat, s.vector, s.rows, s.dot)
    misfit = plan.misfit(s)
    yield misfit or "", misfit is None
    yield (
        "in-register transposes of whole vectors",
        not plan.has_transposes or not _may_be_in_part(flat, s),
    )
    yield (
        "panels as wide as its tiles, or tiles of whole panels",
        all(_is_panel(a, s) for a in flat.accesses),
    )


def _has_room(flat: Flat, s: Schedule, name: str, size: int) -> bool:
    """Return whether the range of an index is at least ``size`` for all values of symbols. True for
    ranges without symbols.

    The index of the lanes needs only a whole vector, as its blocks end in smaller blocks of whole
    vectors.
    """
    range_ = flat.ranges[name]
    least = s.lanes if name == s.vector else size
    return not symbols_of([range_]) or bounds_of(range_)[0] >= least


def _may_be_in_part(flat: Flat, s: Schedule) -> bool:
    """Return whether the index of the lanes may, for some values of symbols, have fewer values than
    a vector has lanes."""
    size = 0 if s.vector is None else flat.ranges[s.vector]
    return bool(symbols_of([size])) and bounds_of(size)[0] < s.lanes


def _is_divided(op: ContractOp, flat: Flat, s: Schedule, name: str, grain: int) -> bool:
    whole = grain % tile_of(s, name) == 0
    return whole and not depth(op) and is_divisible(op, flat, s, name)


def _is_panel(a: FlatAccess, s: Schedule) -> bool:
    """Return whether the panels of a packed operand match the register tiles.

    A register tile must be as wide as one panel or, if it has one row, as several panels of whole
    vectors. Along other indices, the layout may have blocks only for the groups that a dot product
    instruction sums.
    """
    return all(
        _is_whole(a.room[name], s) if name == s.vector else a.room[name] == s.group(name)
        for name in a.lanes
    )


def _is_whole(panel: Size, s: Schedule) -> bool:
    several = s.rows is None and s.width % panel == 0 and panel % s.lanes == 0
    return panel == s.width or several


def _partial_rules(op: ContractOp, flat: Flat, s: Schedule) -> Iterator[tuple[str, bool]]:
    if s.partial is None:
        return
    name, size = s.partial
    yield "partial sums of an addition", op.aggregation.data == "+"
    cut = size < bounds_of(flat.ranges[name])[1]
    yield "partial sums over all of a constrained index", not (cut and name in flat.pinned)
    yield (
        "partial sums of whole vectors",
        not cut or name != s.vector or size % s.width == 0,
    )
