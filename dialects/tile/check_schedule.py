"""Checks that a schedule names the indices of its statement, and that its numbers are in valid
ranges."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain

from xdsl.utils.exceptions import VerifyException

from tessella.dialects.tile.attributes import Index
from tessella.dialects.tile.schedule_attributes import Schedule, ScheduleAttr
from tessella.dialects.tile.summed import SummedProduct
from tessella.targets.instructions import INSTRUCTIONS

LANES, TILE, UNROLL = 64, 512, 1024
"""The limits on the lanes, the vectors of a tile and the unrolled points of a schedule: far above
useful values, and low enough for code generation to finish."""


def check_schedule(s: Schedule, indices: Sequence[Index], shared: Collection[str]) -> None:
    """Raise VerifyException if a schedule does not match the indices of its statement. ``shared``
    are the indices over which the kernel's shared loops run."""
    rules = chain(_name_rules(s, indices, shared), _number_rules(s))
    broken = next((rule for rule, holds in rules if not holds), None)
    if broken is not None:
        raise VerifyException(
            f"tile.contract: the schedule does not fit the statement: expected {broken}, found "
            f"{ScheduleAttr(s)}"
        )


def check_dot(s: Schedule, product: SummedProduct | None) -> None:
    """Raise VerifyException if the dot product instruction of a schedule does not fit the product
    that the statement sums."""
    if s.dot is None:
        return
    row = INSTRUCTIONS.get(s.dot.instruction)
    if row is None:
        raise VerifyException(
            f"tile.contract: expected a dot product by one of {', '.join(INSTRUCTIONS)}, found "
            f"{s.dot.instruction}"
        )
    factors = None if product is None else product.elements
    if (
        factors is None
        or factors.accumulated.name != row.accumulates
        or row.swaps(factors.a.name, factors.b.name) is None
    ):
        pairs = " or ".join(f"{a} x {b}" for a, b in row.operands)
        found = "none" if factors is None else " ".join(e.name for e in factors)
        raise VerifyException(
            f"tile.contract: expected sums of products {pairs} -> {row.accumulates} for "
            f"{row.name}, found {found}"
        )


def _name_rules(
    s: Schedule, indices: Sequence[Index], shared: Collection[str]
) -> Iterator[tuple[str, bool]]:
    scattered = {index.name for index in indices if index.scattered}
    running = next((index.name for index in indices if index.running is not None), None)
    outside = running in s.order
    loops = [index for index in indices if not index.scattered]
    free = [i for i in loops if scattered or not i.reduced or (outside and i.name == running)]
    reduced = [index for index in loops if index not in free]
    yield f"the loops [{_names(free)}]", _are_all(s.order, free, shared)
    if scattered:
        yield from _scatter_rules(s, indices)
    yield f"the reduction [{_names(reduced)}]", _are_all(s.reduction, reduced, ())
    yield (
        "rows and a vector that are among its indices",
        {s.rows, s.vector} - {None} <= {*s.order, *s.reduction},
    )
    yield (
        "rows over another free index than lanes",
        s.rows is None or (s.rows != s.vector and s.rows in s.order),
    )
    blocked = [name for name, _ in s.blocks]
    yield "blocks of free indices", {*blocked} <= {*s.order} and len({*blocked}) == len(blocked)
    yield (
        "partial sums over a reduced index",
        s.partial is None or s.partial[0] in s.reduction,
    )
    yield (
        "a dot product over a reduced index other than that of the lanes",
        s.dot is None or (s.dot.index in s.reduction and s.dot.index != s.vector),
    )
    yield from _running_rules(s, running)
    yield "a dot product beside a vector index", s.dot is None or s.vector is not None
    yield (
        "a parallel index that is free or scattered",
        s.parallel is None or s.parallel[0] in {*s.order, *scattered},
    )


def _scatter_rules(s: Schedule, indices: Sequence[Index]) -> Iterator[tuple[str, bool]]:
    """Yield the rules for schedules of indexed writes, each with whether it holds. All indices that
    are not scattered must be loops of ``order``."""
    inward = [index.name for index in indices if index.reduced and index.name in s.order]
    yield (
        f"loops in the order of the points [{', '.join(inward)}]",
        [name for name in s.order if name in inward] == inward,
    )
    yield "lanes over a free index", s.vector not in inward
    yield (
        "no rows, blocks or prefetches of an indexed write",
        s.rows is None and not s.blocks and not s.prefetch,
    )
    yield (
        "a parallel index that is not reduced",
        s.parallel is None or s.parallel[0] not in inward,
    )


def _running_rules(s: Schedule, running: str | None) -> Iterator[tuple[str, bool]]:
    """Yield the rules for the running index of a schedule, each with whether it holds; none without
    a running index."""
    if running is None:
        return
    yield (
        "a running index outside of other reduced ones",
        running in s.order or running not in s.reduction or s.reduction[0] == running,
    )
    yield (
        "lanes along a free index, or along a running one that is the only reduced one, in a power "
        "of two",
        s.vector not in s.reduction or (s.reduction == (running,) and s.lanes & (s.lanes - 1) == 0),
    )
    named = {s.rows, *(name for name, _ in s.blocks)}
    named |= {each[0] for each in (s.parallel, s.partial) if each is not None}
    yield (
        "rows, blocks, partial sums and threads over other indices than the running one",
        running not in named and (running not in s.order or running != s.vector),
    )


def _names(indices: Sequence[Index]) -> str:
    return ", ".join(index.name for index in indices)


def _are_all(named: Sequence[str], indices: Sequence[Index], shared: Collection[str]) -> bool:
    """Return whether the names in a schedule are distinct, are names of ``indices``, and include
    each index with several values that is not in ``shared``."""
    known = {index.name for index in indices}
    needed = {index.name for index in indices if index.range != 1} - {*shared}
    return len({*named}) == len(named) and needed <= {*named} <= known


def _number_rules(s: Schedule) -> Iterator[tuple[str, bool]]:
    """Yield the rules for the numbers in a schedule, each with whether it holds. Later rules may
    rely on earlier ones."""
    pairs = [*s.blocks, *(each for each in (s.partial, s.parallel) if each is not None)]
    yield (
        "numbers above 0",
        min(s.lanes, s.vectors, s.row_tile, s.unroll, *s.ends, *(n for _, n in pairs)) > 0,
    )
    yield "two lanes or more of a vector", s.vector is None or s.lanes > 1
    yield (
        "lanes that are a power of two beside rows",
        s.rows is None or s.lanes & (s.lanes - 1) == 0,
    )
    yield f"at most {LANES} lanes", s.lanes <= LANES
    yield f"at most {TILE} vectors in a tile", s.vectors * s.row_tile <= TILE
    yield f"at most {UNROLL} points in a step", s.unroll <= UNROLL
    yield (
        "blocks of whole tiles",
        all(size % s.width == 0 for name, size in s.blocks if name == s.vector),
    )
