"""Checks that the statements of a kernel can share its loops."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, Use
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.tile.loop_attributes import At, NestAttr, SharedLoop, shape_text
from tessella.dialects.tile.nest import (
    can_divide,
    can_share,
    lives_within,
    shared_loops,
    written_shape,
)
from tessella.dialects.tile.ops import ContractOp
from tessella.dialects.tile.order import Positions, positions, steps_in_common
from tessella.dialects.tile.windows import reads_own
from tessella.support.conditions import decided
from tessella.support.sizes import Size


def check_nest(kernel: Operation, nest: NestAttr | None) -> None:
    """Raise VerifyException if a kernel's statements cannot share its loops."""
    loops = nest.data.loops if nest is not None else ()
    for loop in loops:
        if loop.step != 1 and not 1 < loop.step <= loop.extent:
            raise VerifyException(
                f"tile.kernel: a shared loop of {loop.extent} has no steps of {loop.step}"
            )
    _check_parallel(kernel, loops)
    statements = [op for op in kernel.regions[0].block.ops if isinstance(op, ContractOp)]
    position = positions(statements)
    for op in statements:
        ats = op.at_list
        names = [at.name for at in ats]
        if len(names) > len(loops) or len(set(names)) != len(names):
            raise VerifyException(
                f"tile.contract: expected an index for each of the outermost of the kernel's "
                f"{len(loops)} shared loops, found [{', '.join(names)}]"
            )
        _check_step(op, names)
        for number, (at, loop) in enumerate(zip(ats, loops, strict=False)):
            if not _fits(op, number, at, loop) or not can_share(op, at.name):
                raise VerifyException(
                    f"tile.contract: the loop over {at} cannot be one of {loop.extent} by "
                    f"{loop.step} that is shared"
                )
        _check_storage(op, position)
        _check_reads(op, position)


def is_valid(kernel: Operation, nest: NestAttr | None) -> bool:
    """Return whether a kernel's statements can share its loops."""
    try:
        check_nest(kernel, nest)
    except VerifyException:
        return False
    return True


def _fits(op: ContractOp, number: int, at: At, loop: SharedLoop) -> bool:
    """Return whether an index of a statement can run over a shared loop: either the index
    enumerates the values of the loop, or it has a window that moves with the loop, and the
    statement's result lives within an iteration."""
    extent = op.ranges.get(at.name, 0)
    if at.window is None:
        return loop.counts(extent)
    return at.window.scale > 0 and 0 < at.window.size <= extent and lives_within(op.res) > number


def _check_parallel(kernel: Operation, loops: Sequence[SharedLoop]) -> None:
    """Raise VerifyException unless threads can divide the loops that are marked as parallel: one
    loop in whole steps, or two loops as one.

    If there are two, the second one is directly inside the first, and an iteration of the first
    runs a single value.
    """
    divided = [(i, loop) for i, loop in enumerate(loops) if loop.parallel]
    if len(divided) > 1 and not _are_one(*divided):
        raise VerifyException(
            "tile.kernel: the shared loops that are divided between threads are not one",
        )
    for number, loop in divided:
        if loop.parallel % loop.step or not can_divide(kernel, number):
            raise VerifyException(
                f"tile.kernel: the shared loop of {loop.extent} by {loop.step} cannot be divided "
                f"between threads by {loop.parallel}"
            )


def _are_one(*divided: tuple[int, SharedLoop]) -> bool:
    """Return whether ``divided`` consists of two loops, one directly inside the other, that threads
    can divide as one."""
    (outer, loop), (inner, _) = divided[0], divided[-1]
    return len(divided) == 2 and inner == outer + 1 and loop.step == loop.parallel == 1


def _check_step(op: ContractOp, names: Sequence[str]) -> None:
    """Raise VerifyException if a statement's result lives within an iteration of a shared loop over
    an index that is not among ``names``, the indices of the shared loops."""
    if op.storage is not None and op.storage.data.step not in names:
        raise VerifyException(
            f"tile.contract: expected a step of one of the indices [{', '.join(names)}] that "
            f"shared loops run over, found one of {op.storage.data.step}"
        )


def _check_storage(op: ContractOp, position: Positions) -> None:
    """Raise VerifyException unless the storage of a result holds all elements that an iteration of
    the shared loops writes, and all statements that read the result run in the same iteration."""
    if op.storage is None:
        return
    storage, within = op.storage.data, lives_within(op.res)
    written = written_shape(op, within)
    if len(storage.shape) != len(written) or any(map(_is_less, storage.shape, written)):
        raise VerifyException(
            f"tile.contract: expected room for {shape_text(written)} elements in a step of "
            f"{storage.step}, found {shape_text(storage.shape)}"
        )
    if not all(_is_in_step(op, use, within, position) for use in op.res.uses):
        raise VerifyException(
            f"tile.contract: a result that lives in a step of {storage.step} is read outside it; "
            "let it live in memory"
        )


def _is_less(room: Size, needed: Size) -> bool:
    return room != needed and decided(room < needed)


def _is_in_step(op: ContractOp, use: Use, within: int, position: Positions) -> bool:
    """Return whether ``use`` reads the result of a statement in the same iteration of shared loops
    that writes it."""
    reader = use.operation
    if not isinstance(reader, ContractOp) or use.index >= len(reader.accesses) - 1:
        return False
    return steps_in_common(position[op], position[reader]) >= within


def _check_reads(op: ContractOp, position: Positions) -> None:
    """Raise VerifyException if a statement reads elements of a result that another iteration of a
    shared loop writes."""
    for value, access in zip((*op.inputs, *op.post_inputs), op.access_list, strict=False):
        writer = value.owner
        if not isinstance(writer, ContractOp):
            continue
        for number in range(steps_in_common(position[writer], position[op])):
            if not reads_own(writer, op, access, number):
                name = list(shared_loops(op))[number]
                raise VerifyException(
                    f"tile.contract: {name} reads what another step of a shared loop writes"
                )
