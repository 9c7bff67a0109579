"""The search for the schedule of a statement.

Candidates are register tiles (``space.py``). Each has a lower bound of its cycles that takes a
hundredth of the time of the model's estimate. The search scores candidates in the order of their
bounds, and ends when no bound is below the best cycles, or when its budget is spent. Without a
budget it finds the candidate of the fewest cycles.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from math import inf, prod

from tessella.dialects.tile import ContractOp, KernelOp
from tessella.dialects.tile.flat import flatten, simplify
from tessella.passes.tile.choice import Choice
from tessella.passes.tile.model import Model
from tessella.passes.tile.partial import partial_sums
from tessella.passes.tile.plan import plan_accesses
from tessella.passes.tile.space import TileFamily, element_bits, families, scalar_choice
from tessella.passes.tile.statement_key import statement_key
from tessella.targets import Target

KEPT = 4096
"""Choices that are kept for statements that are alike."""

_CHOICES: dict[Hashable, Choice] = {}


def best_schedule(
    op: ContractOp, kernel: KernelOp, target: Target, budget: int | None = None
) -> Choice:
    """The schedule of a statement of a kernel for which the model counts the fewest cycles.

    ``budget`` is the number of candidates that are scored, out of those that mostly win; None
    scores all that could be the best. The statement stays as it is: ``Choice.schedule`` and
    ``Choice.layouts`` say what to write.
    Choices are kept: a statement that is like one before, as the pick's is, is not searched again.
    """
    key = statement_key(op, kernel), target
    found = _CHOICES.get((*key, None)) or _CHOICES.get((*key, budget))
    if found is None:
        found, is_best = _search(op, kernel, target, budget)
        if len(_CHOICES) >= KEPT:
            _CHOICES.clear()
        _CHOICES[(*key, None if is_best else budget)] = found
    return found


def _search(
    op: ContractOp, kernel: KernelOp, target: Target, budget: int | None
) -> tuple[Choice, bool]:
    """The best choice, and whether no other candidate can be better."""
    best, is_best = _best_tile(op, kernel, target, budget)
    best = min((best, *_blocked(op, best, target)), key=lambda choice: choice.cycles)
    partial = partial_sums(op, simplify(flatten(op, best.layouts)), best.schedule)
    schedule = replace(best.schedule, partial=partial, prefetch=_prefetches(op, best, target))
    return replace(best, schedule=schedule), is_best


def all_choices(op: ContractOp, kernel: KernelOp, target: Target) -> Iterator[Choice]:
    """Every choice that can be run, scored, without blocks for the caches."""
    copying = True
    for family, height in _tiles(op, kernel, target):
        choice = family.choice(height)
        assert choice is not None
        copying = copying and choice.copies > 0
        yield choice
    if copying:
        yield scalar_choice(op, target)


def _tiles(
    op: ContractOp, kernel: KernelOp, target: Target, *, usual: bool = False
) -> Iterator[tuple[TileFamily, int]]:
    """The register tiles that can be run, or those of them that mostly win."""
    for family in families(op, kernel, target):
        heights = family.usual_heights() if usual else family.heights()
        yield from ((family, height) for height in heights)


def _best_tile(
    op: ContractOp, kernel: KernelOp, target: Target, budget: int | None
) -> tuple[Choice, bool]:
    ranked = sorted(
        (family.bound(height), rank, family, height)
        for rank, (family, height) in enumerate(
            _tiles(op, kernel, target, usual=budget is not None)
        )
    )
    best: tuple[float, int, Choice] | None = None
    for bound, rank, family, height in ranked[:budget]:
        if best is not None and bound > best[0]:
            break
        choice = family.choice(height, best[0] if best is not None else inf)
        if choice is not None:
            entry = (choice.cycles, rank, choice)
            best = entry if best is None or entry[:2] < best[:2] else best
    if best is None:
        return scalar_choice(op, target), True
    choice, is_best = best[2], budget is None
    if choice.copies:  # scalars copy nothing
        choice = min(choice, scalar_choice(op, target), key=lambda choice: choice.cycles)
    return choice, is_best


def _blocked(op: ContractOp, choice: Choice, target: Target) -> Iterator[Choice]:
    """The choice with one free index cut into blocks whose operands stay in a cache."""
    s = choice.schedule
    if op.is_map or s.vector is None or not choice.estimate.memory:
        return
    flat = simplify(flatten(op, choice.layouts))
    model = Model(op, flat, target)
    steps = {s.rows: s.row_tile}
    for name in s.order:
        if name == s.vector or name in flat.pinned:
            continue
        size, extent = steps.get(name, 1), flat.ranges[name]
        while size * 2 < extent:
            size *= 2
            schedule = replace(s, blocks=((name, size),))
            estimate = replace(choice.estimate, traffic=model.traffic(schedule))
            yield replace(choice, schedule=schedule, estimate=estimate)


def _prefetches(op: ContractOp, choice: Choice, target: Target) -> bool:
    """Whether several register tiles share a panel of a constant: enough to ask for the next one,
    if the second level of cache has room for both. Weights come from far away: all others of the
    model have been used since."""
    s, flat = choice.schedule, simplify(flatten(op, choice.layouts))
    if s.vector is None or s.vector not in flat.free:
        return False
    panels = [o for o in plan_accesses(op, flat, s.vector, s.rows).read if o.is_panel]
    inside = s.order[s.order.index(s.vector) + 1 :]
    tiles = prod(-(-flat.ranges[n] // (s.row_tile if n == s.rows else 1)) for n in inside)
    points = prod(flat.ranges[n] for n in flat.reduced)
    size = points * s.width * element_bits(op) // 8
    room = 2 * size <= target.l2
    return bool(panels) and room and tiles > 1 and flat.ranges[s.vector] > s.width
