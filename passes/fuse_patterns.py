"""Replace subgraphs that match a pattern with the op of the same meaning.

    %1 = nn.div %x, 1.4142 {node = "a"}
    %2 = nn.erf %1 {node = "b"}
    %3 = nn.add %2, 1.0 {node = "c"}
    %4 = nn.mul %x, %3 {node = "d"}
    %5 = nn.mul %4, 0.5 {node = "e"}
    ->
    %5 = nn.gelu %x {node = "e", nn.pattern = "gelu-erf",
                     nn.consumed = ["nn.div@a", "nn.erf@b", "nn.add@c", "nn.mul@d", "nn.mul@e"]}

The patterns are in ``passes/patterns``. They are tried on the last op first and on the first op
last, which finds the largest match before its parts, and repeatedly until none matches. Patterns
marked ``is_late`` are tried only after all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.pattern_rewriter import PatternRewriter

from tessella.dialects.graph import weights_of
from tessella.dialects.nn.core import NnOp
from tessella.passes.base import functions
from tessella.passes.patterns import PATTERNS, load
from tessella.passes.patterns.pattern import Pattern, Replacement
from tessella.passes.pick.fusions import FusionJudge, FusionPass
from tessella.support.errors import OptionError

MAX_REWRITES = 8
"""A safety limit for each op of a function: patterns may undo each other."""


@dataclass(frozen=True)
class FusePatternsPass(FusionPass):
    """Apply the declared patterns."""

    name = "fuse-patterns"
    stages = ("nn", "placed")

    only: tuple[str, ...] = ()
    """The names of the patterns to apply; empty for all."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        weights = weights_of(ctx)
        patterns = [pattern.reading(weights) for pattern in self._chosen()]
        for function in functions(op):
            judge = self.judge()
            _Fuser([p for p in patterns if not p.is_late], judge).run(function.body.block)
            _Fuser(patterns, judge).run(function.body.block)
            judge.record(function)

    def _chosen(self) -> list[Pattern]:
        load()
        known = {pattern.name for pattern in PATTERNS}
        for name in self.only:
            if name not in known:
                raise OptionError(
                    f"unknown pattern {name!r}", expected=f"one of {', '.join(sorted(known))}"
                )
        return [p for p in PATTERNS if not self.only or p.name in self.only]


class _Fuser:
    def __init__(self, patterns: Sequence[Pattern], judge: FusionJudge) -> None:
        self.patterns = patterns
        self.judge = judge
        self.by_kind: dict[type[NnOp], Sequence[Pattern]] = {}

    def run(self, block: Block) -> None:
        """Apply the patterns until none matches."""
        left = MAX_REWRITES * len(block.ops)
        while (count := self._round(block, left)) > 0:
            left -= count

    def _round(self, block: Block, limit: int) -> int:
        """Try the patterns once on every op, new ones included. Returns the number of matches."""
        count, op = 0, block.last_op
        while op is not None and count < limit:
            new = self._rewrite(op) if isinstance(op, NnOp) and not op.is_fixed else None
            count += new is not None
            op = op.prev_op if new is None else new
        return count

    def _rewrite(self, root: NnOp) -> Operation | None:
        """Apply the first pattern that matches an op. Returns the op from which to continue."""
        rewriter = PatternRewriter(root)
        for pattern in self._of_kind(type(root)):
            after = root.next_op
            if pattern.apply(root, rewriter, self._is_made, self.judge.has_refused):
                assert after is not None
                return after.prev_op
        return None

    def _is_made(self, new: Replacement) -> bool:
        return self.judge.makes(new.pattern, new.made, new.gone, gain=new.gain)

    def _of_kind(self, kind: type[NnOp]) -> Sequence[Pattern]:
        if kind not in self.by_kind:
            self.by_kind[kind] = [p for p in self.patterns if issubclass(kind, p.kinds)]
        return self.by_kind[kind]
