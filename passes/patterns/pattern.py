"""A pattern with its rewrite."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint

from tessella.dialects.nn.constants import SplatOp
from tessella.dialects.nn.core import NnOp, PyValue, Tensor, shape_of, tensor, tensor_type
from tessella.dialects.nn.evaluate import constant_value
from tessella.dialects.nn.movement import ReshapeOp
from tessella.passes.base import Gain, record_fusion
from tessella.passes.patterns.match import Found, Matcher
from tessella.passes.patterns.nodes import Node, root_kinds
from tessella.passes.patterns.placement import first_of, in_order, producers_after
from tessella.runtime.elements import widened
from tessella.runtime.weights import WeightStore
from tessella.support.sizes import Size

AnyOp = TypeVar("AnyOp", bound=NnOp)


@dataclass
class Match:
    """A match of a pattern, and the ops that will replace it."""

    roots: Sequence[NnOp]
    """The ops whose results the match replaces, in the order of the pattern's roots."""
    found: Found
    node: str | None
    """The name of the source node that new ops get."""
    weights: WeightStore
    made: list[NnOp] = field(default_factory=list[NnOp])

    @property
    def root(self) -> NnOp:
        """The op whose result the match replaces, or the first one."""
        return self.roots[0]

    def __getitem__(self, name: str) -> SSAValue:
        """Return the value with a name."""
        return self.found.values[name]

    def get(self, name: str) -> SSAValue | None:
        """Return the value with a name; None if an optional part is missing."""
        return self.found.values.get(name)

    def op(self, name: str) -> Any:
        """Return the op that produces the value with a name."""
        return self.found.values[name].owner

    def number(self, name: str, default: float | None = None) -> float:
        """Return the number with a name."""
        numbers = self.found.numbers
        return numbers[name] if default is None else numbers.get(name, default)

    def size(self, name: str) -> Size | None:
        """Return the size with a name; None if an optional part is missing."""
        return self.found.sizes.get(name)

    def make(
        self, kind: type[AnyOp], *operands: SSAValue | None, **properties: PyValue | None
    ) -> AnyOp:
        """Create an op before the root. Operands that are None are omitted."""
        given = [x for x in operands if x is not None]
        new = kind.make(given, node=self.node, **properties)
        self.made.append(new)
        return new

    def splat(self, number: float, shape: Sequence[Size], like: SSAValue) -> SSAValue:
        """Return a splat of a value's element type."""
        new = SplatOp(number, tensor(tensor_type(like).element_type, shape))
        self.made.append(new)
        return new.res

    def reshaped(self, value: SSAValue, shape: Sequence[Size]) -> SSAValue:
        """Return the value, reshaped if it has another shape."""
        if shape_of(value) == tuple(shape):
            return value
        return self.make(ReshapeOp, value, shape=tuple(shape)).res

    def is_finite(self, value: SSAValue) -> bool:
        """Return whether all elements of a constant are finite; True if they are unknown."""
        array = constant_value(value, self.weights)
        return array is None or bool(np.isfinite(widened(array)).all())

    @property
    def is_reread(self) -> bool:
        """True if a new op reads a result that the match replaces."""
        return any(use.operation in self.made for op in self.roots for use in op.results[0].uses)

    @property
    def type(self) -> Tensor:
        """The type of the result that the match replaces, or of the first one."""
        return tensor_type(self.root.results[0])

    @property
    def shape(self) -> tuple[Size, ...]:
        """The shape of the result that the match replaces, or of the first one."""
        return shape_of(self.type)


Rewrite = Callable[[Match], NnOp | Sequence[SSAValue] | None]
"""A function that creates the ops that replace a match, and returns the last one, or a value for
each root of the pattern; None to reject the match.

A match is also rejected if a new value's type differs from the one that it replaces, and if new ops
read a value that the match consumes.
"""

Judge = Callable[["Replacement"], bool]
"""A function that decides whether to apply a valid replacement."""

MAX_TRIES = 64
"""The largest number of matches of one pattern that are tried at one op."""


Refusals = Callable[[str, Collection[NnOp]], bool]
"""A function that returns whether the judge has refused to replace ops by a pattern."""


def accept(replacement: Replacement) -> bool:
    """Accept every replacement."""
    return True


def nothing_refused(pattern: str, old: Collection[NnOp]) -> bool:
    """Return False: no replacement was refused."""
    return False


@dataclass(frozen=True)
class Replacement:
    """The new ops of a match, and the ops that they replace."""

    pattern: str
    gain: Gain
    match: Match
    values: Sequence[SSAValue]
    """The new value for each root."""
    gone: Sequence[NnOp]
    """The ops that are erased, operands first."""

    @property
    def made(self) -> Sequence[NnOp]:
        """The new ops that are not in a block yet."""
        return self.match.made

    def apply(self, rewriter: PatternRewriter, moved: Sequence[Operation]) -> None:
        """Insert the new ops before the first root, behind ``moved``, and erase the old ops."""
        makers = [op for op in self.made if not set(op.results).isdisjoint(self.values)]
        for maker in makers:
            record_fusion(maker, self.pattern, self.gone)
        spot = InsertPoint.before(first_of(self.match.roots))
        for op in moved:
            op.detach()
        rewriter.insert([*moved, *self.made], spot)
        for root, value in zip(self.match.roots, self.values, strict=True):
            if value.owner in makers:
                value.name_hint = root.results[0].name_hint
            rewriter.replace_all_uses_with(root.results[0], value)
        for op in reversed(self.gone):
            rewriter.erase(op)


@dataclass(frozen=True)
class Pattern(RewritePattern):
    """A pattern: the ops of each match of its roots are replaced by the result of ``rewrite``.

    The class is a pattern of xDSL. It reads the numbers of splats; to read the numbers of weights
    it needs their store: ``pattern.reading(weights)``.
    """

    name: str
    root: Node
    rewrite: Rewrite
    gain: Gain = "likely"
    """Whether the new ops cost less than the old ones. If `open`, the pipeline compares the costs
    for each match."""
    others: tuple[Node, ...] = ()
    """Further roots, whose results are replaced together with that of ``root``. Each shares a value
    with the roots before it."""
    is_late: bool = False
    """Whether the pipeline tries the pattern only where no other one matches: it takes factors that
    others look for."""
    weights: WeightStore = field(default_factory=WeightStore, compare=False, repr=False)

    def reading(self, weights: WeightStore) -> Pattern:
        """Return the pattern for programs with these weights."""
        return replace(self, weights=weights)

    @cached_property
    def kinds(self) -> tuple[type[NnOp], ...]:
        """The classes of the ops whose results can match ``root``."""
        return tuple(dict.fromkeys(root_kinds(self.root)))

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        """Replace the first match whose root is this op, if there is one."""
        if isinstance(op, self.kinds) and not op.is_fixed:
            self.apply(op, rewriter)

    def apply(
        self,
        op: NnOp,
        rewriter: PatternRewriter,
        judge: Judge = accept,
        has_refused: Refusals = nothing_refused,
    ) -> Sequence[SSAValue]:
        """Replace the first match whose root is ``op``. Returns the new values; empty if there is
        no match, or if the judge rejects it, or has rejected it before."""
        for roots, found in islice(self._matches(op), MAX_TRIES):
            consumed = found.consumed(roots)
            if consumed is None:
                continue
            if has_refused(self.name, consumed):
                break
            replacement = self._replacement(roots, found, consumed)
            if replacement is None:
                continue
            moved = producers_after(roots, replacement.made)
            if moved is not None and judge(replacement):
                replacement.apply(rewriter, moved)
                return replacement.values
            _discard(replacement.made)
            if moved is not None:
                break
        return ()

    def _matches(self, op: NnOp) -> Iterator[tuple[Sequence[NnOp], Found]]:
        matcher, roots = Matcher(self.weights), (self.root, *self.others)
        for found in matcher.matches(self.root, op.results[0], Found()):
            yield from matcher.together(roots, (op,), found)

    def _replacement(
        self, roots: Sequence[NnOp], found: Found, consumed: Collection[NnOp]
    ) -> Replacement | None:
        """Return the replacement of a match, which consumes these ops. If it is not valid, erase
        its ops and return None."""
        named = (op.node for op in reversed(in_order(roots, consumed)) if "node" in op.attributes)
        match = Match(roots, found, next(named, None), self.weights)
        result = self.rewrite(match)
        values = result.results[:1] if isinstance(result, NnOp) else result
        # Compute the consumed ops after the rewrite: new ops may read values of the match, whose
        # producers stay.
        gone = None if values is None or match.is_reread else found.consumed(roots)
        if values is None or gone is None or not _fit(values, roots, gone):
            _discard(match.made)
            return None
        return Replacement(self.name, self.gain, match, values, in_order(roots, gone))


def _fit(values: Sequence[SSAValue], roots: Sequence[NnOp], gone: Collection[NnOp]) -> bool:
    """Return whether the new values have the types of the roots' results, and none of them is the
    result of an op in ``gone``, which will be erased."""
    types = [root.results[0].type for root in roots]
    return [value.type for value in values] == types and all(v.owner not in gone for v in values)


def _discard(made: Sequence[NnOp]) -> None:
    for op in reversed(made):
        op.erase()


def becomes(kind: type[NnOp], *operands: str, **properties: PyValue) -> Rewrite:
    """Return a rewrite to one op, with operands by their names in the pattern, and properties."""
    return lambda m: m.make(kind, *(m[name] for name in operands), **properties)
