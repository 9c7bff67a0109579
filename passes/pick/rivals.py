"""Kernels of one op that run at the same places: which of them stands for the others.

The choice between them changes nothing around the op, so the cheapest is taken. What bounds that is
memory: a kernel that computes its weights from the op's may have more of them, as Winograd's has.
If the program's weights would grow too much, ops go over to kernels with fewer, first those that
lose the least time for a byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tessella.dialects.nn.core import NnOp
from tessella.dialects.place import PlaceAttr
from tessella.kernels.cost import bytes_of
from tessella.passes.base import is_constant
from tessella.passes.pick.candidates import Candidate
from tessella.passes.pick.kernel_cost import OpCost
from tessella.targets import Target
from tessella.targets.database import Times

Options = Mapping[NnOp, Sequence[Candidate]]


@dataclass(frozen=True)
class _Rival:
    """A candidate with its cost."""

    candidate: Candidate
    seconds: float
    weights: float
    """Bytes."""


@dataclass
class _Rivals:
    """Generated kernels of an op at the same places, of which each has more weights than the one
    before it, and takes less time."""

    candidates: Sequence[Candidate]
    """All of them."""
    listed: list[_Rival]
    """Those that are worth it. The last one is taken."""

    @property
    def taken(self) -> _Rival:
        return self.listed[-1]

    @property
    def left(self) -> list[Candidate]:
        """All but the one that is taken."""
        return [c for c in self.candidates if c is not self.taken.candidate]

    @property
    def growth(self) -> float:
        """Bytes of weights that others do without."""
        return self.taken.weights - self.listed[0].weights

    @property
    def price(self) -> float:
        """Seconds lost for each byte that the one before does without."""
        before, last = self.listed[-2:]
        return (before.seconds - last.seconds) / (last.weights - before.weights)


def without_rivals(
    options: Options, target: Target, growth: float, times: Times | None = None
) -> dict[NnOp, list[Candidate]]:
    """The candidates of each op, of those at the same places one; with those that are taken, all
    weights become at most so many times as large. ``times`` count instead of estimates."""
    known = times or {}
    groups = {
        op: list(_groups(OpCost(op, target, known), listed)) for op, listed in options.items()
    }
    _limit([each for found in groups.values() for each in found], (growth - 1) * _weights(options))
    left = {op: {c for each in found for c in each.left} for op, found in groups.items()}
    return {op: [c for c in listed if c not in left[op]] for op, listed in options.items()}


def _groups(cost: OpCost, listed: Sequence[Candidate]) -> Iterator[_Rivals]:
    """The rivals among an op's candidates."""
    by_place: dict[tuple[PlaceAttr, ...], list[Candidate]] = {}
    for c in listed:
        if c.kernel.cost is None:
            by_place.setdefault((c.place, *c.wants), []).append(c)
    groups = [same for same in by_place.values() if len(same) > 1]
    contested = [c for same in groups for c in same]
    compared = cost.compared([(c.kernel, c.place) for c in contested])
    seconds = {c: s for c, (s, _) in zip(contested, compared, strict=True)}
    for same in groups:
        weights = [cost.estimate(c.kernel, c.place).weights for c in same]
        rivals = [_Rival(c, seconds[c], w) for c, w in zip(same, weights, strict=True)]
        yield _Rivals(same, _useful(rivals))


def _useful(rivals: Sequence[_Rival]) -> list[_Rival]:
    """Those that no other one beats in time and memory, by their memory."""
    kept: list[_Rival] = []
    for each in sorted(rivals, key=lambda rival: (rival.weights, rival.seconds)):
        if not kept or each.seconds < kept[-1].seconds:
            kept.append(each)
    return kept


def _limit(groups: Sequence[_Rivals], most: float) -> None:
    """Take others until the weights grow by so many bytes at most."""
    excess = sum(each.growth for each in groups) - most
    while excess > 0 and (growing := [each for each in groups if each.growth > 0]):
        cheapest = min(growing, key=lambda each: each.price)
        before = cheapest.growth
        cheapest.listed.pop()
        excess -= before - cheapest.growth


def _weights(options: Options) -> int:
    """Bytes of the weights that the ops read."""
    read = {value for op in options for value in op.operands if is_constant(value)}
    return sum(map(bytes_of, read))
