"""The storage of results of statements that share loops: in a step of a loop, or in memory."""

from __future__ import annotations

from tessella.dialects.tile import ContractOp, KernelOp, Storage, StorageAttr
from tessella.dialects.tile.nest import depth, lives_within, memory_shape, written_shape
from tessella.dialects.tile.order import Positions, positions, steps_in_common
from tessella.dialects.tile.windows import infer_windows


def store_results(kernel: KernelOp) -> None:
    """Store each result of a kernel in a step of as many shared loops as its statement has in
    common with all its readers.

    The storage has room for all elements that readers access in a step. If readers access
    neighbours, the statement runs a window of values in each step.
    """
    position = positions(kernel.statements)
    for op in kernel.statements:
        _store(op, _common(op, position))
    infer_windows(kernel.statements)
    for op in kernel.statements:
        _shrink(op)


def _store(op: ContractOp, within: int) -> None:
    """Store a result in a step of the innermost of ``within`` shared loops, with room for all of
    it; in memory if ``within`` is 0."""
    op.storage = None
    if within:
        op.storage = StorageAttr(Storage(op.at_list[within - 1].name, memory_shape(op.res)))


def _shrink(op: ContractOp) -> None:
    """Shrink the storage of a result to the elements that a step writes."""
    if op.storage is not None:
        shape = written_shape(op, lives_within(op.res))
        op.storage = StorageAttr(Storage(op.storage.data.step, shape))


def _common(op: ContractOp, position: Positions) -> int:
    """Return the number of shared loops that run a statement in the same iteration as all readers
    of its result."""
    found = depth(op)
    for use in op.res.uses:
        reader = use.operation
        if not isinstance(reader, ContractOp) or use.index >= len(reader.accesses) - 1:
            return 0
        found = min(found, steps_in_common(position[op], position[reader]))
    return found
