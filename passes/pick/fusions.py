"""Whether a fused op replaces the ops that a pattern matched: both are compared as rivals.

A replacement is refused

- if no kernel runs a new op at the requested places, and some run the ops that it replaces;
- if the new ops cost more than the old ones. Under the strategy `cost`, both are estimated as in
  the pick. Under `grade`, the new ops must not run at a later one of the requested devices.

Generated kernels gain from fusions, as fewer statements read and write memory. Unless a pattern
declares its gain as `open`, costs are compared only if a candidate is another kernel: a function,
or a kernel of another device.

Ops on constants cost nothing, as ``fold-constants`` evaluates them, unless they are too large for
that. Values around the ops are at any place, at no cost.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from tessella import kernels
from tessella.dialects.nn.core import NnOp
from tessella.passes.base import Gain, sources_of
from tessella.passes.fold_constants import may_fold, will_be_constant
from tessella.passes.pick import by_cost
from tessella.passes.pick.candidates import NO_KERNEL, Candidates, Request, layouts_in_play
from tessella.passes.pick.group_key import group_key
from tessella.passes.pick.kernel_cost import Prices
from tessella.passes.pick.picking import PickingPass
from tessella.passes.pick.refusals import record_refusals
from tessella.passes.pick.together import seconds_together
from tessella.passes.pick.usual import usual_ops
from tessella.runtime.explain_types import RefusedFusion, duration


@dataclass(frozen=True)
class FusionPass(PickingPass):
    """A pass that replaces ops by fused ops.

    A replacement is not made if no kernel runs a fused op at the requested ``places``, or if the
    fused ops would cost more (``FusionJudge``). Without ``places``, every replacement is made.
    """

    def judge(self) -> FusionJudge:
        """Return a judge of this pass's replacements in one function."""
        if not self.places:
            return FusionJudge()
        kernels.load()
        return FusionJudge(RivalOps(self.request(), self.prices(), self.strategy))


@dataclass(frozen=True)
class FusionJudge:
    """Decides which replacements are made in a function, and keeps the refusals."""

    rivals: RivalOps | None = None
    """None if every replacement is made."""
    refused: dict[tuple[str, frozenset[NnOp]], RefusedFusion] = field(
        default_factory=dict[tuple[str, frozenset[NnOp]], RefusedFusion]
    )
    """The refusals, by the pattern and the ops that would be replaced."""

    def makes(
        self,
        pattern: str,
        new: Sequence[NnOp],
        old: Sequence[NnOp],
        *,
        constants: Container[SSAValue] = (),
        gain: Gain = "likely",
    ) -> bool:
        """Return whether new ops replace old ones, both operands first. ``constants`` are further
        constant values."""
        key = (pattern, frozenset(old))
        if self.rivals is None:
            return True
        if key not in self.refused:
            reason = self.rivals.why_not(new, old, constants, gain)
            if reason is None:
                return True
            self.refused[key] = {
                "op": new[-1].name,
                "node": new[-1].node,
                "pattern": pattern,
                "consumed": [source.data for op in old for source in sources_of(op)],
                "reason": reason,
            }
        return False

    def has_refused(self, pattern: str, old: Collection[NnOp]) -> bool:
        """Return whether a replacement of these ops by the pattern was refused."""
        return (pattern, frozenset(old)) in self.refused

    def record(self, function: FuncOp) -> None:
        """Record the refusals on the function whose ops they concern."""
        record_refusals(
            function, [r for (_, old), r in self.refused.items() if all(op.parent for op in old)]
        )


Found = Mapping[NnOp, Candidates]
Folded = tuple[Sequence[NnOp], Container[NnOp]]
"""Ops, operands first, and those of them that ``fold-constants`` evaluates."""


@dataclass(frozen=True)
class RivalOps:
    """The requested places and the settings by which new ops are compared with the ops that they
    replace."""

    request: Request
    prices: Prices
    strategy: str
    known: dict[Hashable, str | None] = field(
        default_factory=dict[Hashable, str | None], compare=False
    )
    """The answers so far, which hold for all groups with equal keys."""

    def why_not(
        self, new: Sequence[NnOp], old: Sequence[NnOp], constants: Container[SSAValue], gain: Gain
    ) -> str | None:
        """Return why new ops do not replace old ones, as a sentence; None if they do."""
        groups = (new, _folded(new, constants)), (old, _folded(old, constants))
        named = self.prices.function is not None  # the caller's function reads the names of nodes
        key = (gain, *(group_key(ops, folded, named=named) for ops, folded in groups))
        if key not in self.known:
            self.known[key] = self._why_not(*groups, gain)
        return self.known[key]

    def _why_not(self, new: Folded, old: Folded, gain: Gain) -> str | None:
        fused, by_distance = self._found(*new), self.strategy != "grade" and gain == "sure"
        if by_distance and all(entry.distance == 0 for entry in fused.values()):
            return None  # the candidates of the parts are no nearer
        parts = self._found(*old)
        for op, entry in fused.items():
            if entry.distance > max((e.distance for e in parts.values()), default=NO_KERNEL):
                return f"{op.name} has no kernel at the requested places, and its parts have"
        if self.strategy == "grade":
            return self._why_later(fused, parts)
        is_priced = gain == "open" or (gain == "likely" and _has_stated_costs(fused, parts))
        return self._why_slower(fused, parts, gain) if is_priced else None

    def _found(self, ops: Sequence[NnOp], folded: Container[NnOp]) -> Found:
        """Return the candidates of ops at usual sizes, without those that are ``folded``."""
        return {op: self.request.candidates(op) for op in usual_ops(ops, folded)}

    def _why_later(self, fused: Found, parts: Found) -> str | None:
        """Return, as a sentence, that a new op would run at a later one of the requested devices
        than all old ones; None if it would not."""
        first = max(map(self._device, parts.values()), default=0)
        for op, entry in fused.items():
            if self._device(entry) > first:
                return f"{op.name} runs only at places after that of its parts"
        return None

    def _device(self, entry: Candidates) -> int:
        """Return the index of the first requested place whose device has a candidate of the op."""
        devices = {site.device for site in entry.ranks}
        asked = enumerate(place.device.data for place in self.request.places)
        named = (i for i, device in asked if device in devices or device == "any")
        return next(named, len(self.request.places))

    def _why_slower(self, fused: Found, parts: Found, gain: Gain) -> str | None:
        """Return by how much the new ops cost more than the old ones."""
        new, old = self._price(fused), self._price(parts)
        if new <= (by_cost.TOLERANCE if gain == "likely" else 1.0) * old:
            return None
        if self.prices.function is not None:
            return f"its price is {new:.3g}, and that of its parts {old:.3g}"
        return f"it takes {duration(new)}, and its parts take {duration(old)}"

    def _price(self, found: Found) -> float:
        """Return the least price of several ops together."""
        layouts = layouts_in_play(found)
        options = {op: entry.placed(op, layouts) for op, entry in found.items()}
        return seconds_together(options, self.prices)


def _folded(ops: Sequence[NnOp], constants: Container[SSAValue]) -> set[NnOp]:
    """Return the ops that depend only on constants, and that ``fold-constants`` evaluates."""
    folded: set[NnOp] = set()
    for op in ops:
        known = (x in constants or x.owner in folded or will_be_constant(x) for x in op.operands)
        if all(known) and may_fold(op):
            folded.add(op)
    return folded


def _has_stated_costs(*found: Found) -> bool:
    """Return whether a candidate is a function, or a kernel of another device: their costs do not
    follow from their statements, so that a fusion of statements may lose to them."""
    sites = (site for ops in found for entry in ops.values() for site in entry.ranks)
    return any(site.kernel.lower is None for site in sites)
