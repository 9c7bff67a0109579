"""Whether a schedule fits its statement: one that does not would read and write elsewhere."""

from __future__ import annotations

from tessella.dialects.tile import ContractOp, Schedule, ScheduleAttr
from tessella.dialects.tile.flat import Flat, layout_of
from tessella.passes.tile.vectors import lanes_load
from tessella.support.errors import InvalidModelError

LANES, TILE, UNROLL = 64, 512, 1024
"""Far more than is of use, and little enough for code generation to end."""


def check_schedule(op: ContractOp, flat: Flat, s: Schedule) -> None:
    """Raise InvalidModelError where a schedule is not one of this statement, as in a text that
    somebody changed."""
    constrained = {n for c in flat.constraints for n, _ in c.form.terms}
    blocked = {name for name, _ in s.blocks}
    named = {s.rows, s.vector} - {None}
    rules = {
        f"the loops [{', '.join(flat.free)}]": sorted(s.order) == sorted(flat.free),
        f"the reduction [{', '.join(flat.reduced)}]": sorted(s.reduction) == sorted(flat.reduced),
        "rows and a vector that are among its indices": named <= set(flat.ranges),
        "rows over another free index than lanes": s.rows is None
        or (s.rows != s.vector and s.rows in flat.free),
        "blocks of free indices": blocked <= set(flat.free),
        "no blocks of constrained rows": s.rows not in blocked & constrained,
        "blocks of whole tiles": all(size % s.width == 0 for n, size in s.blocks if n == s.vector),
        "lanes that lie side by side": lanes_load(op, flat, s),
        "panels as wide as its tiles": all(_is_panel(op, i, s) for i in range(len(op.inputs))),
        f"at most {LANES} lanes": s.lanes <= LANES,
        f"at most {TILE} vectors in a tile": s.vectors * s.row_tile <= TILE,
        f"at most {UNROLL} points in a step": s.unroll <= UNROLL,
        "numbers above 0": min(s.lanes, s.vectors, s.row_tile, s.unroll) > 0
        and all(size > 0 for _, size in s.blocks),
        "a default, as not all points of the map count": not (op.is_map and flat.constraints)
        or op.default is not None,
    }
    broken = next((rule for rule, holds in rules.items() if not holds), None)
    if broken is not None:
        raise InvalidModelError(
            "the schedule does not fit the statement", expected=broken, found=str(ScheduleAttr(s))
        )


def _is_panel(op: ContractOp, operand: int, s: Schedule) -> bool:
    """Whether an operand's layout splits no other index than that of lanes, and that into tiles."""
    forms = op.input_accesses[operand]
    pieces = layout_of(op.inputs[operand]).order(len(forms))
    split = [p for p in pieces if p.mod or p.div > 1]
    return all(forms[p.dim].single == s.vector and s.width in (p.mod, p.div) for p in split)
