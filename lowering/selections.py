"""The lowering of sorts, suppressions and joins, which select values of rows, to loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue

from tessella.dialects import rt
from tessella.dialects.tile import JoinOp, SelectionOp, SortOp, SuppressOp
from tessella.lowering import sort, suppress
from tessella.lowering.join import Join
from tessella.lowering.values import BlockEmitter
from tessella.support.errors import InternalError


def scratch_of(op: SelectionOp) -> Sequence[rt.Buffer]:
    """Return the types of the scratch buffers that each thread needs for a sort, suppression or
    join."""
    if isinstance(op, SortOp):
        return sort.scratch_of(op)
    return suppress.scratch_of(op) if isinstance(op, SuppressOp) else []


def emit_selection(
    emitter: BlockEmitter,
    op: SelectionOp,
    buffers: Mapping[SSAValue, SSAValue],
    scratch: Sequence[SSAValue],
    share: tuple[SSAValue, SSAValue],
) -> None:
    """Append the loops of a sort, suppression or join over this thread's share of the rows to the
    emitter's block."""
    if isinstance(op, SortOp):
        sort.Sort(emitter, op, buffers, scratch, share).emit()
    elif isinstance(op, SuppressOp):
        suppress.Suppress(emitter, op, buffers, scratch, share).emit()
    elif isinstance(op, JoinOp):
        Join(emitter, op, buffers).emit()
    else:
        raise InternalError(f"no loops for {op.name}")
