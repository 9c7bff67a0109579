"""Decision trees as arrays in which every node compares in the same way.

A node compares an element of a row with a threshold: `x <= v ? low : high`, where a NaN goes to
`high`. Nodes of other modes become such nodes, where `prev(v)` is the number before v:

    x < v ? a : b     ->  x <= prev(v) ? a : b
    x >= v ? a : b    ->  -x <= -v ? a : b            or, if a NaN goes to a, x <= prev(v) ? b : a
    x == v ? a : b    ->  x <= v ? (x <= prev(v) ? b : a) : b

Rows are therefore followed by their negated elements if a node needs these. A node of the mode
``MEMBER`` becomes a binary search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tessella.support.errors import InvalidModelError, ResourceError

Array = npt.NDArray[Any]

MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")
"""The comparisons of nodes. Their positions are the numbers that TreeEnsemble uses."""

MOST_NODES = 1 << 28
"""The limit on the nodes of a forest, whose numbers have 32 bits."""
MOST_LEVELS = 4096
"""The limit on the steps of a row through a tree."""


@dataclass(frozen=True)
class Nodes:
    """The inner nodes of a model's trees. A child is an inner node, by its number, or ``~leaf``."""

    roots: Array
    modes: Array
    """Positions in ``MODES``."""
    features: Array
    values: Array
    """Thresholds, in the type of the features."""
    when_true: Array
    when_false: Array
    missing: Array
    """True for the nodes at which a NaN goes to ``when_true``."""
    leaves: int
    """The number of leaves."""
    members: Mapping[int, Array] = field(default_factory=dict[int, Array])
    """The set of values of each node of the mode ``MEMBER``."""


@dataclass(frozen=True)
class Forest:
    """The operands and properties of `nn.tree_ensemble`."""

    thresholds: Array
    links: Array
    trees: int
    levels: int
    bits: int
    leaves: Array
    """The model's number of the leaf at each node; 0 for inner nodes."""
    signs: tuple[int, ...]
    """The factors of the copies of a row that follow each other: (1,), (-1,) or (1, -1)."""


def check(nodes: Nodes, width: int) -> None:
    """Raise InvalidModelError unless all numbers of the nodes are in range, for rows of ``width``
    features, and the nodes form trees."""
    count = len(nodes.modes)
    if count + nodes.leaves > MOST_NODES:
        raise ResourceError(
            "a forest has too many nodes", expected=f"at most {MOST_NODES}", found=str(count)
        )
    _check_range("the feature of a node", nodes.features, 0, width)
    edges = np.concatenate([nodes.roots, nodes.when_true, nodes.when_false])
    _check_range("the number of a child, root or leaf", edges, -nodes.leaves, count)
    parents = np.bincount(edges[edges >= 0], minlength=count)
    if (parents > 1).any():
        raise InvalidModelError(
            "a node is a child of two nodes, or a root that is a child",
            expected="trees without cycles",
            found=f"node {int(np.argmax(parents > 1))}",
        )


def _check_range(name: str, numbers: Array, low: int, end: int) -> None:
    wrong = numbers[(numbers < low) | (numbers >= end)]
    if wrong.size:
        raise InvalidModelError(
            f"{name} is out of range", expected=f"in [{low}, {end})", found=str(int(wrong[0]))
        )


def forest(nodes: Nodes, width: int) -> Forest:
    """Return checked nodes as a forest over rows of ``width`` features.

    The roots come first. The children of each node follow as a pair.
    """
    steps = _steps(nodes)
    levels, order = _in_order(nodes.roots, steps)
    trees = len(nodes.roots)
    pairs = np.zeros(len(steps.lows), np.int64)
    pairs[order] = trees + 2 * np.arange(len(order))
    held = np.stack([steps.highs[order], steps.lows[order]], axis=1)
    held = np.concatenate([nodes.roots, held.reshape(-1)])
    is_inner = held >= 0
    inner = held[is_inner]
    negated = steps.negated[order]
    both = bool(negated.any() and not negated.all())
    thresholds = np.full(len(held), np.nan, nodes.values.dtype)
    thresholds[is_inner] = steps.values[inner]
    features, first = np.zeros(len(held), np.int64), np.arange(len(held))
    features[is_inner] = steps.features[inner] + (width * steps.negated[inner] if both else 0)
    first[is_inner] = pairs[inner]
    bits = max(1, (width * (1 + both) - 1).bit_length())
    links = first << bits | features
    return Forest(
        thresholds,
        links.astype(np.uint32).view(np.int32) if len(held) <= 1 << (32 - bits) else links,
        trees,
        levels,
        bits,
        np.where(is_inner, 0, ~held),
        (1, -1) if both else (-1,) if negated.any() else (1,),
    )


class _Step(NamedTuple):
    """A node that compares by `<=`."""

    feature: int
    value: Any
    negated: bool
    low: int
    high: int


@dataclass(frozen=True)
class _Steps:
    """Nodes that compare by `<=`."""

    features: Array
    values: Array
    negated: Array
    """True for the nodes that compare the negated element."""
    lows: Array
    highs: Array

    def with_more(self, steps: Sequence[_Step]) -> _Steps:
        """Return these nodes followed by others."""
        if not steps:
            return self
        columns = [np.array(column) for column in zip(*steps, strict=True)]
        own = (self.features, self.values, self.negated, self.lows, self.highs)
        return _Steps(*(np.concatenate(pair) for pair in zip(own, columns, strict=True)))


def _steps(nodes: Nodes) -> _Steps:
    """Return nodes that compare by `<=`, with the numbers of the model's nodes; nodes of searches
    follow them."""
    is_less, is_strict = nodes.modes < 2, nodes.modes % 2 == 1
    negated = is_less == nodes.missing
    values = np.where(negated, -nodes.values, nodes.values)
    values = np.where(is_strict != nodes.missing, _before(values), values)
    # No number is at most a NaN: with swapped children, all numbers have to go to `low`.
    values = np.where(nodes.missing & np.isnan(nodes.values), np.inf, values)
    made = _Steps(
        nodes.features.copy(),
        values.astype(nodes.values.dtype),
        negated,
        np.where(nodes.missing, nodes.when_false, nodes.when_true),
        np.where(nodes.missing, nodes.when_true, nodes.when_false),
    )
    more: list[_Step] = []
    for at in np.flatnonzero(nodes.modes >= MODES.index("EQ")).tolist():
        step = _Search(nodes, at, len(made.lows), more).root()
        made.features[at], made.values[at], made.negated[at] = step[:3]
        made.lows[at], made.highs[at] = step[3:]
    return made.with_more(more)


def _before(values: Array) -> Array:
    """Return the next smaller number of each number; NaN for -inf."""
    return np.where(values == -np.inf, np.nan, np.nextafter(values, values.dtype.type(-np.inf)))


class _Search:
    """The nodes that replace a node of the modes EQ, NEQ and MEMBER."""

    def __init__(self, nodes: Nodes, at: int, first: int, more: list[_Step]) -> None:
        self._feature = int(nodes.features[at])
        self._found, self._other = int(nodes.when_true[at]), int(nodes.when_false[at])
        self._missing = bool(nodes.missing[at])
        members = nodes.members.get(at, nodes.values[at : at + 1])
        self._values = np.unique(members[~np.isnan(members)])
        self._first, self._more = first, more
        if MODES[nodes.modes[at]] == "NEQ":
            self._found, self._other = self._other, self._found
            self._missing = not self._missing

    def root(self) -> _Step:
        """Return the node that separates NaN and numbers beyond all values from others; the nodes
        below it are added."""
        values, other = self._values, self._other
        if not len(values):
            high = self._found if self._missing else other
            return _Step(self._feature, np.inf, False, other, high)
        inner = self._below(0, len(values))
        if self._missing:
            return _Step(self._feature, _before(-values[-1:])[0], True, other, inner)
        return _Step(self._feature, values[-1], False, inner, other)

    def _below(self, low: int, end: int) -> int:
        """Add the search of the values ``low`` to ``end`` for numbers that are greater than the
        value before them, and at most the last one. Return its first node."""
        middle = (low + end) // 2
        if end - low == 1:
            value, children = _before(self._values[low:end])[0], (self._other, self._found)
        else:
            value = self._values[middle - 1]
            children = self._below(low, middle), self._below(middle, end)
        self._more.append(_Step(self._feature, value, False, *children))
        return self._first + len(self._more) - 1


def _in_order(roots: Array, steps: _Steps) -> tuple[int, Array]:
    """Return the number of steps to the deepest leaf, and the reachable nodes tree by tree, each
    tree from its root down."""
    tree, depth = (np.full(len(steps.lows), -1) for _ in range(2))
    nodes, trees = roots[roots >= 0], np.flatnonzero(roots >= 0)
    levels = 0
    while len(nodes):
        tree[nodes], depth[nodes] = trees, levels
        levels += 1
        if levels > MOST_LEVELS:
            raise ResourceError("a tree is too deep", expected=f"at most {MOST_LEVELS} levels")
        below, own = np.concatenate([steps.lows[nodes], steps.highs[nodes]]), np.tile(trees, 2)
        nodes, first = np.unique(below, return_index=True)
        nodes, trees = nodes[nodes >= 0], own[first][nodes >= 0]
    reached = np.flatnonzero(tree >= 0)
    return levels, reached[np.lexsort((depth[reached], tree[reached]))]
