"""Checks that the loops of each statement are the loops that its schedule names."""

from __future__ import annotations

from xdsl.ir import Block
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.tile.flat import flatten
from tessella.dialects.tile.ops import ContractOp
from tessella.support.errors import InvalidModelError


def check_loops(block: Block) -> None:
    """Raise VerifyException if the loops of a statement in a block disagree with its schedule.

    Each tensor must be traversed along a merged index with a single stride. The schedule must name
    each index that has several values in an iteration of the shared loops, or a value that the
    statement uses.
    """
    for op in block.ops:
        if isinstance(op, ContractOp) and (
            any(index.digits for index in op.loop_list) or (op.schedule is not None and op.at_list)
        ):
            _check(op)


def _check(op: ContractOp) -> None:
    try:
        flat = flatten(op)
    except InvalidModelError as error:
        raise VerifyException(f"tile.contract: {error}") from None
    if op.schedule is None:
        return
    s, free, reduced = op.schedule.data, flat.free, flat.reduced
    if flat.running in s.order:  # its loop is among those over free indices, though it is reduced
        free, reduced = (*free, flat.running), tuple(n for n in reduced if n != flat.running)
    for named, loops in ((s.order, free), (s.reduction, reduced)):
        if sorted(named) != sorted(loops):
            raise VerifyException(
                f"tile.contract: expected a schedule of the indices [{', '.join(loops)}], which "
                f"steps of shared loops run, found [{', '.join(named)}]"
            )
