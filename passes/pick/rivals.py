"""Kernels of one op at the same places (device, element type, layout), of which one is selected.

The choice does not affect other ops, so the cheapest kernel is taken, within a memory limit: a
kernel that transforms the op's weights may enlarge them, as Winograd's does. If the program's
weights would grow too much, ops switch to kernels with smaller weights, those that lose the least
time per byte first. A program with small weights may add as many bytes as one whose weights fill
the last-level cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush

from tessella.dialects.nn.core import NnOp
from tessella.dialects.place import PlaceAttr
from tessella.kernels.cost import bytes_of
from tessella.passes.base import is_constant
from tessella.passes.pick.candidates import Candidate
from tessella.passes.pick.kernel_cost import OpCost, Prices

Options = Mapping[NnOp, Sequence[Candidate]]


@dataclass(frozen=True)
class _Rival:
    """A candidate with its cost, which is estimated on demand."""

    candidate: Candidate
    cost: OpCost
    error: float
    """The correction factor for estimates of the op's kernels."""

    @cached_property
    def price(self) -> float:
        return self.cost.price(self.candidate.kernel, self.candidate.place, self.error)

    @cached_property
    def at_least(self) -> float:
        """A lower bound on the candidate's price, which needs no estimate."""
        return self.cost.least_price(self.candidate.kernel, self.candidate.place, self.error)

    @cached_property
    def weights(self) -> float:
        """Bytes of the constants that this candidate reads."""
        return self.cost.weights(self.candidate.kernel, self.candidate.place)


class _Rivals:
    """Generated kernels of an op at the same places, of which one is selected."""

    def __init__(self, rivals: Sequence[_Rival]) -> None:
        self.rivals = rivals
        self.taken = _fastest(rivals)

    @property
    def left(self) -> list[Candidate]:
        """The candidates that are not selected."""
        return [each.candidate for each in self.rivals if each is not self.taken]

    @property
    def growth(self) -> float:
        """The bytes of weights that a switch to the rival with the smallest weights would save."""
        return self.taken.weights - min(each.weights for each in self.rivals)

    @property
    def loss(self) -> float:
        """Seconds lost per byte of weights saved by a switch to the fastest smaller rival."""
        return self._loss(self._next.price, self._next.weights)

    @property
    def least_loss(self) -> float:
        """A lower bound on the loss, which needs no estimate."""
        price = min(each.at_least for each in self._lighter)
        return self._loss(price, min(each.weights for each in self._lighter))

    def _loss(self, price: float, weights: float) -> float:
        return max(0.0, price - self.taken.price) / (self.taken.weights - weights)

    def go_over(self) -> None:
        """Select the fastest of the rivals that have smaller weights than the selected one."""
        self.taken = self._next

    @property
    def _next(self) -> _Rival:
        return _fastest(self._lighter)

    @property
    def _lighter(self) -> list[_Rival]:
        return [each for each in self.rivals if each.weights < self.taken.weights]


def _fastest(rivals: Sequence[_Rival]) -> _Rival:
    """Return the fastest rival, with the smallest weights among equals.

    Rivals with a larger lower bound are not estimated.
    """
    best: _Rival | None = None
    for each in sorted(rivals, key=lambda rival: rival.at_least):
        if best is not None and each.at_least > best.price:
            break
        if best is None or (each.price, each.weights) < (best.price, best.weights):
            best = each
    assert best is not None
    return best


def without_rivals(options: Options, prices: Prices, growth: float) -> dict[NnOp, list[Candidate]]:
    """Return the candidates of each op, with only one generated kernel for each combination of
    places.

    The limit is the growth of all weights by the factor ``growth``. Weights smaller than the
    last-level cache may add as many bytes as weights of its size.
    """
    groups = {op: list(_groups(prices.of(op), listed)) for op, listed in options.items()}
    most = (growth - 1) * max(_weights(options), prices.target.l3)
    _limit([each for found in groups.values() for each in found], most)
    left = {op: {c for each in found for c in each.left} for op, found in groups.items()}
    return {op: [c for c in listed if c not in left[op]] for op, listed in options.items()}


def _groups(cost: OpCost, listed: Sequence[Candidate]) -> Iterator[_Rivals]:
    """Yield the groups of generated kernels, among an op's candidates, whose operands and results
    have the same places, so that only one of each group is needed."""
    by_place: dict[tuple[PlaceAttr, ...], list[Candidate]] = {}
    for c in listed:
        if c.kernel.cost is None:
            by_place.setdefault((c.place, *c.wants), []).append(c)
    groups = [same for same in by_place.values() if len(same) > 1]
    error = cost.error([(c.kernel, c.place) for same in groups for c in same])
    for same in groups:
        yield _Rivals([_Rival(c, cost, error) for c in same])


def _limit(groups: Sequence[_Rivals], most: float) -> None:
    """Switch rivals until the weights grow by at most ``most`` bytes.

    A loss is computed only when no other one can be lower.
    """
    excess = sum(each.growth for each in groups) - most
    queue = [(each.least_loss, i, False) for i, each in enumerate(groups) if each.growth > 0]
    heapify(queue)
    while excess > 0 and queue:
        _, i, is_known = heappop(queue)
        group = groups[i]
        if not is_known:
            heappush(queue, (group.loss, i, True))
            continue
        before = group.growth
        group.go_over()
        excess -= before - group.growth
        if group.growth > 0:
            heappush(queue, (group.least_loss, i, False))


def _weights(options: Options) -> int:
    """Return the bytes of the weights that the ops read."""
    read = {value for op in options for value in op.operands if is_constant(value)}
    return sum(map(bytes_of, read))
