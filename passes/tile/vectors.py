"""Which indices of a statement can run over the lanes of a vector, and how operands are loaded
then."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i1
from xdsl.ir import SSAValue

from tessella.dialects.nn.core import tensor_type
from tessella.dialects.tile import ContractOp, ExtractOp, IndexOp, KernelOp, Schedule
from tessella.dialects.tile.flat import MAX_LANE_STRIDE, Flat, strides_of
from tessella.passes.tile.packing import can_relayout


def vector_indices(op: ContractOp, kernel: KernelOp, flat: Flat) -> list[str]:
    """The indices that can run over lanes."""
    free = [
        n
        for n in flat.free
        if flat.ranges[n] > 1 and flat.out.lane_stride(n) == 1 and vectorises(op, kernel, flat, n)
    ]
    return [*free[:1], *(n for n in flat.reduced if flat.ranges[n] > 1 and reduces(op, flat, n))]


def vectorises(op: ContractOp, kernel: KernelOp, flat: Flat, name: str) -> bool:
    """Whether a free index can run over lanes: unit strides, operands that can be laid out anew, or
    that can be loaded across."""
    across = [
        i
        for i in lying_across(op, flat, name)
        if op.is_map or i >= flat.inputs or not can_relayout(op, kernel, i, name)
    ]
    if across and crossing(op, flat, across, name) is None:
        return False
    return _extracts_vectorise(op, flat, name)


def lying_across(op: ContractOp, flat: Flat, name: str) -> list[int]:
    """The operands whose lanes lie neither side by side nor a few elements apart."""
    return [
        i
        for i, a in enumerate(flat.accesses[:-1])
        if a.lane_stride(name) not in (0, 1) and not loads_strided(op, flat, i, name)
    ]


def loads_strided(op: ContractOp, flat: Flat, operand: int, name: str) -> bool:
    """Whether the lanes of an input lie a few elements apart, and what keeps it inside its tensor
    can be told of each element."""
    if operand >= flat.inputs or tensor_type(op.inputs[operand]).element_type == i1:
        return False
    stride = flat.accesses[operand].lane_stride(name)
    return 1 < stride <= MAX_LANE_STRIDE and all(
        c.form.coefficient(name) in (0, stride) for c in flat.constraints if operand in c.operands
    )


def crossing(op: ContractOp, flat: Flat, operands: Sequence[int], name: str) -> str | None:
    """The index along which these operands of a map are contiguous, where it can be the rows' index
    of squares."""
    names = (n for n in flat.free if n != name)
    return next((n for n in names if crosses(op, flat, operands, n)), None)


def crosses(op: ContractOp, flat: Flat, operands: Sequence[int], rows: str) -> bool:
    """Whether squares of these operands of a statement can be loaded along an index of rows."""
    values = (*op.inputs, *op.post_inputs)
    return (
        op.is_map
        and not flat.constraints
        and all(tensor_type(values[i]).element_type != i1 for i in operands)
        and all(flat.accesses[i].stride(rows) == 1 for i in operands)
    )


def lanes_load(op: ContractOp, flat: Flat, s: Schedule) -> bool:
    """Whether all operands can be loaded, and the result be stored, over the lanes of a schedule,
    with the layouts that they have."""
    if s.vector is None:
        return True
    if s.vector in flat.reduced:
        return reduces(op, flat, s.vector)
    across = lying_across(op, flat, s.vector)
    squares = s.rows is not None and s.row_tile <= s.lanes and s.vectors == 1
    return (
        flat.out.lane_stride(s.vector) == 1
        and (not across or (squares and crosses(op, flat, across, s.rows or "")))
        and _extracts_vectorise(op, flat, s.vector)
    )


def reduces(op: ContractOp, flat: Flat, name: str) -> bool:
    """Whether a reduced index can run over lanes."""
    strides = {a.lane_stride(name) for a in flat.accesses[: flat.inputs]}
    has_extract = any(isinstance(x, ExtractOp) for x in op.combine.walk())
    return strides <= {0, 1} and 1 in strides and not has_extract


def _extracts_vectorise(op: ContractOp, flat: Flat, name: str) -> bool:
    """Whether extracted elements lie side by side along the index, or are the same for all
    lanes."""
    varying: set[SSAValue] = set()
    for region, accesses in (
        (op.combine, flat.accesses[: flat.inputs]),
        (op.post, flat.accesses[flat.inputs : -1]),
    ):
        if not region.blocks:
            continue
        args = region.block.args[len(region.block.args) - len(accesses) :]
        varying |= {arg for arg, a in zip(args, accesses, strict=True) if a.lane_stride(name) != 0}
        for inner in region.block.ops:
            if isinstance(inner, IndexOp) and inner.index.data == name:
                varying.add(inner.res)
            elif isinstance(inner, ExtractOp):
                if not _extract_vectorises(inner, varying):
                    return False
                varying.add(inner.res)
            elif any(v in varying for v in inner.operands):
                varying |= set(inner.results)
    return True


def _extract_vectorises(op: ExtractOp, varying: set[SSAValue]) -> bool:
    moving = [i for i, c in enumerate(op.coordinates) if c in varying]
    if not moving:
        return True
    (last, *others) = moving[::-1]
    return (
        not others
        and isinstance(op.coordinates[last].owner, IndexOp)
        and strides_of(op.source)[last] == 1
    )
