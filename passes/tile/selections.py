"""Schedules and estimated cycles of sorts, suppressions and joins, the statements that select
values of rows."""

from __future__ import annotations

from tessella.dialects.tile import (
    JoinOp,
    RowSchedule,
    SelectionOp,
    SortingAttr,
    SortOp,
    SuppressOp,
    SweepAttr,
)
from tessella.kernels.cost import CANDIDATES
from tessella.passes.tile.sorting import best_sorting, sort_cycles
from tessella.support.errors import InternalError
from tessella.support.sizes import estimated
from tessella.targets import Target

READ = 2.0
"""Cycles to read a key."""
TRIED = 60.0
"""Cycles to take the best candidate, and to append it to the selected ones."""
RULED = 14.0
"""Cycles to compare a vector of selected values with a candidate."""
JOINED = 4.0
"""Cycles to write a row."""


def schedule_selection(op: SelectionOp, target: Target) -> None:
    """Choose the schedule of a sort, suppression or join, unless it has one."""
    if isinstance(op, SortOp) and op.schedule is None:
        op.schedule = SortingAttr(best_sorting(op, target))
    elif isinstance(op, SuppressOp) and op.schedule is None:
        op.schedule = SweepAttr(RowSchedule(lanes=target.lanes(32)))


def selection_cycles(op: SelectionOp) -> float:
    """Return the modelled cycles of a scheduled selection."""
    if isinstance(op, SortOp):
        return sort_cycles(op)
    if isinstance(op, SuppressOp):
        return estimated(op.rows) * _row_cycles(op)
    if isinstance(op, JoinOp):
        return JOINED * estimated(op.points)
    raise InternalError(f"no estimate for {op.name}")


def _row_cycles(op: SuppressOp) -> float:
    """Return the cycles of one row of a suppression. Each candidate is assumed to be compared with
    half of the selected values."""
    if op.schedule is None:
        return 0.0
    size = estimated(op.along.range)
    tried = CANDIDATES * size
    compared = min(estimated(op.count), tried) / 2 / op.schedule.data.lanes
    return READ * size + tried * (TRIED + RULED * compared)
