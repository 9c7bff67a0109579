"""The indices of a statement that can run over the lanes of a vector."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from tessella.dialects.tile import ContractOp, KernelOp
from tessella.dialects.tile.flat import Flat
from tessella.passes.tile.packing import can_relayout
from tessella.passes.tile.plan import Access, plan_accesses

MAX_WINDOW = 16
"""The distance in rows from which two reads of a tensor share nothing in a register tile."""


def vector_indices(op: ContractOp, kernel: KernelOp, flat: Flat[int]) -> list[str]:
    """Return the indices that can run over the lanes of a vector.

    These are at most one free index along which results are strided, if the vectors of several rows
    can be interleaved before they are stored; at most one free index along which results are
    contiguous; and reduced indices.
    """
    able = [n for n in flat.free if flat.ranges[n] > 1 and vectorises(op, kernel, flat, n)]
    beside = [n for n in able if flat.out.lane_stride(n) == 1]
    between = [n for n in able if n not in beside]
    reduced = (n for n in flat.reduced if flat.ranges[n] > 1 and reduces(op, flat, n))
    return [*between[:1], *beside[:1], *reduced]


def vectorises(op: ContractOp, kernel: KernelOp, flat: Flat[int], name: str) -> bool:
    """Return whether a free index can run over lanes.

    Each operand that would need a gather must be packed or transposed in registers.
    """
    bounds = (c for c in flat.constraints if c.is_of_results(flat.inputs))
    if any(c.form.coefficient(name) for c in bounds):
        return False
    if flat.out.lane_stride(name) != 1:
        return interleaving_rows(op, flat, name) is not None
    plan = plan_accesses(op, flat, name, None)
    if plan.gathers_extracts:
        return False
    stuck = [
        i
        for i in plan.gathered()
        if op.is_map or i >= flat.inputs or not can_relayout(op, kernel, i, name)
    ]
    return not stuck or transposing_rows(op, flat, name) is not None


def window_rows(op: ContractOp, flat: Flat[int], vector: str) -> Iterator[str]:
    """Yield the indices of an elementwise statement that are good for the rows of a register tile
    because neighbouring rows read the same vectors.

    The statement must read a tensor at two positions that are fewer than ``MAX_WINDOW`` rows apart.
    """
    for name in flat.free:
        if name != vector and any(
            a.strides == b.strides
            and (step := a.stride(name))
            and 0 < b.offset - a.offset < MAX_WINDOW * step
            and (b.offset - a.offset) % step == 0
            for (v, a), (w, b) in permutations(zip(op.inputs, flat.accesses, strict=False), 2)
            if v is w
        ):
            yield name


def sharing_rows(op: ContractOp, flat: Flat[int], vector: str) -> Iterator[str]:
    """Yield the indices that are good for the rows of a register tile because the positions of
    extracted elements, which the body computes, are the same in all rows."""
    for name in flat.free:
        if name != vector and flat.ranges[name] > 1:
            computed = plan_accesses(op, flat, vector, name).computed
            if computed and not any(x.by_row for x in computed):
                yield name


def interleaved_rows(op: ContractOp, flat: Flat[int], vector: str) -> Iterator[str]:
    """Yield the indices that are good for the rows of a register tile because their values lie
    between an operand's lanes in memory, as channels lie between pixels.

    All rows then read the same cache lines.
    """
    plan = plan_accesses(op, flat, vector, None)
    strided = [flat.accesses[i] for i, o in enumerate(plan.operands) if o.access is Access.STRIDED]
    for name in flat.free:
        if name != vector and any(
            a.stride(name) == 1 and flat.ranges[name] <= a.stride(vector) for a in strided
        ):
            yield name


def transposing_rows(op: ContractOp, flat: Flat[int], vector: str) -> str | None:
    """Return the index for the rows of a register tile along which all operands that would need
    gathers can be loaded; None if there is none.

    These operands are then transposed in registers.
    """
    if not op.is_map:
        return None
    names = (n for n in flat.free if n != vector)
    return next((n for n in names if not plan_accesses(op, flat, vector, n).gathered()), None)


def interleaving_rows(op: ContractOp, flat: Flat[int], vector: str) -> str | None:
    """Return the index that is good for the rows of a register tile because its values fill an
    elementwise result between the lanes; None if there is none."""
    for name in (n for n in flat.free if n != vector):
        plan = plan_accesses(op, flat, vector, name)
        gathers = plan.gathered() or plan.gathers_extracts
        if plan.interleaves and not gathers and not plan.has_transposes:
            return name
    return None


def reduces(op: ContractOp, flat: Flat[int], name: str) -> bool:
    """Return whether a reduced index can run over lanes."""
    plan = plan_accesses(op, flat, name, None)
    if flat.running is not None and not _runs_over(op, flat, name):
        return False
    return plan.reads_vectors and not plan.gathered() and not plan.gathers_extracts


def _runs_over(op: ContractOp, flat: Flat[int], name: str) -> bool:
    """Return whether the index ``name`` is the only reduced index of a statement, and results are
    contiguous along it, as along a running index."""
    return flat.reduced == (name,) and flat.out.lane_stride(name) == 1
