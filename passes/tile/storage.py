"""The storage of results of statements that share loops: either memory for the results of one
iteration, which later iterations overwrite, or memory for the whole tensor."""

from __future__ import annotations

from tessella.dialects.tile import ContractOp, KernelOp, Storage, StorageAttr
from tessella.dialects.tile.nest import depth, lives_within, memory_shape, written_shape
from tessella.dialects.tile.order import Positions, positions, steps_in_common
from tessella.dialects.tile.windows import infer_windows


def store_results(kernel: KernelOp) -> None:
    """Choose the storage of each result of a kernel: memory for one iteration of the innermost
    shared loop that the statement has in common with all readers, if there is such a loop.

    The storage has room for all elements that readers access in an iteration. If readers access
    neighbours, the statement runs a window of index values in each iteration.
    """
    position = positions(kernel.statements)
    for op in kernel.statements:
        _store(op, _common(op, position))
    infer_windows(kernel.statements)
    for op in kernel.statements:
        _shrink(op)


def _store(op: ContractOp, within: int) -> None:
    """Give a result storage for one iteration of the innermost of the ``within`` outermost shared
    loops, for now with the whole tensor's shape; no such storage if ``within`` is 0."""
    op.storage = None
    if within:
        op.storage = StorageAttr(Storage(op.at_list[within - 1].name, memory_shape(op.res)))


def _shrink(op: ContractOp) -> None:
    """Reduce the storage of a result to the elements that one iteration of the shared loops
    writes."""
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
