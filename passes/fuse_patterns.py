"""Replace subgraphs that match a pattern with the op of the same meaning.

    %1 = nn.div %x, 1.4142 {node = "a"}
    %2 = nn.erf %1 {node = "b"}
    %3 = nn.add %2, 1.0 {node = "c"}
    %4 = nn.mul %x, %3 {node = "d"}
    %5 = nn.mul %4, 0.5 {node = "e"}
    ->
    %5 = nn.gelu %x {node = "e", nn.pattern = "gelu-erf",
                     nn.consumed = ["nn.div@a", "nn.erf@b", "nn.add@c", "nn.mul@d", "nn.mul@e"]}

The patterns are in ``passes/patterns``. They are tried from the last op to the first, which finds
the largest match before its parts, and repeatedly until none matches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.rewriter import InsertPoint, Rewriter

from tessella.dialects.graph import weights_of
from tessella.dialects.nn.core import NnOp
from tessella.passes.base import functions, record_fusion
from tessella.passes.kinds import ProgramPass
from tessella.passes.patterns import PATTERNS, load
from tessella.passes.patterns.match import Found, Matcher
from tessella.passes.patterns.nodes import root_kinds
from tessella.passes.patterns.pattern import Match, Pattern
from tessella.runtime.weights import WeightStore
from tessella.support.errors import OptionError

MAX_REWRITES = 8
"""A safety limit for each op of a function: patterns may undo each other."""


@dataclass(frozen=True)
class FusePatternsPass(ProgramPass):
    """Apply the declared patterns."""

    name = "fuse-patterns"
    stages = ("nn", "placed")

    only: tuple[str, ...] = ()
    """The names of the patterns to apply; empty for all."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fuser = _Fuser(self._chosen(), weights_of(ctx))
        for function in functions(op):
            fuser.run(function.body.block)

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
    def __init__(self, patterns: Sequence[Pattern], weights: WeightStore) -> None:
        self.matcher = Matcher(weights)
        self.by_kind: dict[type[NnOp], list[Pattern]] = {}
        for pattern in patterns:
            for kind in dict.fromkeys(root_kinds(pattern.root)):
                self.by_kind.setdefault(kind, []).append(pattern)

    def run(self, block: Block) -> None:
        """Apply the patterns until none matches."""
        left = MAX_REWRITES * len(block.ops)
        while (count := self._round(block, left)) > 0:
            left -= count

    def _round(self, block: Block, limit: int) -> int:
        """Try the patterns once on every op, new ones included. Returns the number of matches."""
        count, op = 0, block.last_op
        while op is not None and count < limit:
            new = self._rewrite(op) if isinstance(op, NnOp) and op.kernel is None else None
            count += new is not None
            op = op.prev_op if new is None else new
        return count

    def _rewrite(self, root: NnOp) -> NnOp | None:
        """Apply the first pattern that matches an op. Returns its replacement."""
        for pattern in self.by_kind.get(type(root), ()):
            for found in self.matcher.matches(pattern.root, root.results[0], Found()):
                consumed = found.consumed(root)
                if consumed is not None and (new := _replace(pattern, root, found, consumed)):
                    return new
        return None


def _replace(pattern: Pattern, root: NnOp, found: Found, consumed: set[NnOp]) -> NnOp | None:
    """Replace the root of a match by the pattern's rewrite, and erase the consumed ops. Returns the
    new op; None if the rewrite rejects the match."""
    named = (op.node for op in reversed(_in_order(root, consumed)) if "node" in op.attributes)
    match = Match(root, found, next(named, None))
    new = pattern.rewrite(match)
    gone = None if new is None else _gone(match, new)
    if new is None or gone is None:
        for op in reversed(match.made):
            op.erase()
        return None
    record_fusion(new, pattern.name, gone)
    for op in match.made:
        Rewriter.insert_op(op, InsertPoint.before(root))
    new.results[0].name_hint = root.results[0].name_hint
    root.results[0].replace_all_uses_with(new.results[0])
    for op in reversed(gone):
        Rewriter.erase_op(op)
    return new


def _gone(match: Match, new: NnOp) -> Sequence[NnOp] | None:
    """Return the ops that ``new`` replaces, operands first; None if it cannot replace them.

    The consumed ops are recomputed, as the new ops read values of the match, whose producers must
    stay.
    """
    if new.results[0].type != match.type or match.is_reread:
        return None
    consumed = match.found.consumed(match.root)
    return None if consumed is None else _in_order(match.root, consumed)


def _in_order(root: NnOp, ops: set[NnOp]) -> list[NnOp]:
    """Return a root and those of ``ops`` that it depends on, operands first."""
    order: dict[NnOp, None] = {}

    def visit(op: NnOp) -> None:
        for value in op.operands:
            if isinstance(value.owner, NnOp) and value.owner in ops and value.owner not in order:
                visit(value.owner)
        order[op] = None

    visit(root)
    return list(order)
