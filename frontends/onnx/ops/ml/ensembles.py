"""Converters of tree ensembles: the leaf of each row in each tree, and a sum of its values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.dialects import nn
from tessella.frontends.emitter import Value, concat, where
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops.ml.attributes import (
    check_count,
    integers,
    numbers,
    optional_integers,
    tensor,
    texts,
)
from tessella.frontends.onnx.ops.ml.forest import MODES, Nodes, check, forest
from tessella.frontends.onnx.ops.ml.scores import (
    POST_TRANSFORMS,
    columns,
    decided,
    labels_of,
    of_two,
    paired,
    transformed,
)
from tessella.frontends.onnx.registry import converts
from tessella.support.decisions import known
from tessella.support.errors import InvalidModelError

Array = npt.NDArray[Any]

AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
"""The aggregates over trees. Their positions are the numbers that TreeEnsemble uses."""

_MODES = {f"BRANCH_{name}": i for i, name in enumerate(MODES)} | {"LEAF": -1}


@dataclass(frozen=True)
class Weights:
    """The weights of leaves: that of number ``leaves[i]`` adds ``values[i]`` to the target
    ``targets[i]``."""

    leaves: Array
    targets: Array
    values: Array


@dataclass(frozen=True)
class Ensemble:
    """The trees of a node, and the weights of their leaves."""

    nodes: Nodes
    weights: Weights


# ** converters **


@converts("ai.onnx.ml.TreeEnsembleRegressor", 1, 5)
def tree_ensemble_regressor(call: Call) -> Value:
    """Emit the aggregate of the trees' values for each row and target."""
    targets = call.integer("n_targets", 1)
    x, ensemble = _keyed(call, "target")
    scores = _aggregated(call, x, ensemble, targets, call.choice("aggregate_function", *_FIRST_SUM))
    base = numbers(call, "base_values", x.dtype)
    if base is not None:
        check_count(call, "base_values", base, targets)
        scores = scores + base
    return transformed(scores, call.choice("post_transform", *POST_TRANSFORMS)).cast(np.float32)


_FIRST_SUM = ("SUM", "AVERAGE", "MIN", "MAX")


@converts("ai.onnx.ml.TreeEnsemble", 5, 5)
def tree_ensemble(call: Call) -> Value:
    """Emit the aggregate of the trees' values for each row and target."""
    x, ensemble = _listed(call)
    aggregate = _named(call, "aggregate_function", AGGREGATES, "SUM")
    scores = _aggregated(call, x, ensemble, call.integer("n_targets", 1), aggregate)
    transform = _named(call, "post_transform", POST_TRANSFORMS, "NONE")
    return transformed(scores, transform).cast(call.x.dtype)


@converts("ai.onnx.ml.TreeEnsembleClassifier", 1, 5)
def tree_ensemble_classifier(call: Call) -> Sequence[Value]:
    """Emit the label of the class with the greatest score for each row, and the scores."""
    labels = labels_of(call, "classlabels_int64s", "classlabels_strings")
    if not len(labels):
        raise InvalidModelError("a classifier has no labels", where=call.node.where)
    x, ensemble = _keyed(call, "class")
    scores = _aggregated(call, x, ensemble, len(labels), "SUM")
    base = numbers(call, "base_values", x.dtype)
    transform = call.choice("post_transform", *POST_TRANSFORMS)
    given = np.unique(ensemble.weights.targets)
    if len(labels) == 2 and len(given) == 1:
        column = int(given[0])
        score = scores.part(1, column, 1)
        if base is not None:
            check_count(call, "base_values", base, 1, 2)
            score = score + float(base[column if len(base) == 2 else 0])
        positive = bool((ensemble.weights.values >= 0).all())
        return _binary(call, score, column, labels, transform, positive)
    if base is not None:
        check_count(call, "base_values", base, len(labels), 1)
        scores = scores + np.append(base, np.zeros(len(labels) - len(base), base.dtype))
    return decided(call, scores, labels, transform)


def _binary(
    call: Call, score: Value, column: int, labels: Array, transform: str, positive: bool
) -> Sequence[Value]:
    """Emit the labels and scores of two classes of which only one has scores: probabilities, if all
    weights are positive, or else distances from a boundary."""
    is_share = positive and transform in ("NONE", "PROBIT")
    is_second = score > (0.5 if is_share else 0.0)
    label = of_two(call, is_second, labels)
    if column == 0:
        return label, paired(score, transform, is_share=positive)
    return label, transformed(columns(score * 0.0, score), transform).cast(np.float32)


# ** scores **


def _aggregated(call: Call, x: Value, ensemble: Ensemble, targets: int, aggregate: str) -> Value:
    """Emit the aggregate over all trees of the values of each row's leaves: [rows, targets]."""
    width = known(x.shape[1])
    check(ensemble.nodes, width)
    made = forest(ensemble.nodes, width)
    copies = [x if sign > 0 else -x for sign in made.signs]
    values, is_partial = _table(call, ensemble, targets, aggregate, x.dtype)
    arrays = (made.thresholds, made.links, values[made.leaves])
    total = concat(copies, 1).op(
        nn.TreeEnsembleOp,
        *map(call.constant, arrays),
        trees=made.trees,
        levels=made.levels,
        bits=made.bits,
        aggregate=_REDUCED[aggregate],
    )
    if aggregate == "AVERAGE":
        total = total / float(made.trees)
    return where(total.equals(_NEUTRAL[aggregate]), 0.0, total) if is_partial else total


_REDUCED = {"SUM": "sum", "AVERAGE": "sum", "MIN": "min", "MAX": "max"}
_NEUTRAL = {"SUM": 0.0, "AVERAGE": 0.0, "MIN": np.inf, "MAX": -np.inf}
_COMBINED = {"SUM": np.add, "AVERAGE": np.add, "MIN": np.minimum, "MAX": np.maximum}


def _table(
    call: Call, ensemble: Ensemble, targets: int, aggregate: str, dtype: np.dtype[Any]
) -> tuple[Array, bool]:
    """Return the value of each leaf for each target, and whether a neutral value stands for absent
    ones."""
    weights = ensemble.weights
    wrong = weights.targets[(weights.targets < 0) | (weights.targets >= targets)]
    if wrong.size:
        raise InvalidModelError(
            "the target of a leaf is out of range",
            where=call.node.where,
            expected=f"in [0, {targets})",
            found=str(int(wrong[0])),
        )
    shape = call.build.limited(ensemble.nodes.leaves, targets)
    values = np.full(shape, _NEUTRAL[aggregate], dtype)
    at = weights.leaves, weights.targets
    _COMBINED[aggregate].at(values, at, weights.values.astype(dtype))
    has_all = len(np.unique(weights.leaves * targets + weights.targets)) == values.size
    return values, aggregate in ("MIN", "MAX") and not has_all


# ** attributes **


def _keyed(call: Call, kind: str) -> tuple[Value, Ensemble]:
    """Return the rows and the trees of a node that names nodes by the numbers of a tree and of a
    node in it. ``kind`` is the prefix of the attributes of weights."""
    keys = integers(call, "nodes_treeids"), integers(call, "nodes_nodeids")
    count = len(keys[0])
    modes = _modes(call)
    values = numbers(call, "nodes_values", np.dtype(np.float32))
    call.meaningless("nodes_hitrates", "nodes_hitrates_as_tensor")
    missing = optional_integers(call, "nodes_missing_value_tracks_true", count)
    columns = [integers(call, f"nodes_{n}ids") for n in ("feature", "truenode", "falsenode")]
    if values is None:
        values = np.zeros(0, np.float32)
    for name, array in zip(
        ("nodeids", "modes", "values", "featureids", "truenodeids", "falsenodeids"),
        (keys[1], modes, values, *columns),
        strict=True,
    ):
        check_count(call, f"nodes_{name}", array, count)
    if not count:
        raise InvalidModelError("an ensemble has no nodes", where=call.node.where)
    places = _Places(call, *keys)
    x = _rows(call, values.dtype)
    is_leaf = modes < 0
    inner = np.flatnonzero(~is_leaf)
    own = np.where(is_leaf, ~(np.cumsum(is_leaf) - 1), np.cumsum(~is_leaf) - 1)
    when_true, when_false = (own[places.find(keys[0][inner], c[inner])] for c in columns[1:])
    _, first = np.unique(keys[0], return_index=True)
    nodes = Nodes(
        own[np.sort(first)],
        modes[inner],
        columns[0][inner],
        values[inner].astype(x.dtype),
        when_true,
        when_false,
        missing[inner] != 0,
        int(is_leaf.sum()),
    )
    return x, Ensemble(nodes, _keyed_weights(call, kind, places, own, x.dtype))


def _keyed_weights(
    call: Call, kind: str, places: _Places, own: Array, dtype: np.dtype[Any]
) -> Weights:
    trees, nodes, ids = (integers(call, f"{kind}_{n}ids") for n in ("tree", "node", ""))
    weights = numbers(call, f"{kind}_weights", dtype)
    weights = np.zeros(0, dtype) if weights is None else weights
    for name, array in (("nodeids", nodes), ("ids", ids), ("weights", weights)):
        check_count(call, f"{kind}_{name}", array, len(trees))
    found = own[places.find(trees, nodes)]
    at_leaf = found < 0  # no row ends at an inner node
    return Weights(~found[at_leaf], ids[at_leaf], weights[at_leaf])


def _listed(call: Call) -> tuple[Value, Ensemble]:
    """Return the rows and the trees of a TreeEnsemble, which lists inner nodes and leaves."""
    splits = tensor(call, "nodes_splits")
    x, count = _rows(call, splits.dtype), len(splits)
    modes = tensor(call, "nodes_modes").astype(np.int64)
    features = integers(call, "nodes_featureids")
    missing = optional_integers(call, "nodes_missing_value_tracks_true", count)
    call.meaningless("nodes_hitrates")
    sides = [
        (integers(call, f"nodes_{side}nodeids"), integers(call, f"nodes_{side}leafs"))
        for side in ("true", "false")
    ]
    listed = [("modes", modes), ("featureids", features)]
    listed += [(n, a) for pair in sides for n, a in zip(("nodeids", "leafs"), pair, strict=True)]
    for name, array in listed:
        check_count(call, f"nodes_{name}", array, count)
    if ((modes < 0) | (modes >= len(MODES))).any():
        raise InvalidModelError("a node has an unknown mode", where=call.node.where)
    for children, _ in sides:
        if (children < 0).any():
            raise InvalidModelError("the number of a child is negative", where=call.node.where)
    when_true, when_false = (np.where(leafs != 0, ~nodes, nodes) for nodes, leafs in sides)
    weights = tensor(call, "leaf_weights").astype(x.dtype)
    targets = integers(call, "leaf_targetids")
    check_count(call, "leaf_targetids", targets, len(weights))
    nodes = Nodes(
        integers(call, "tree_roots"),
        modes,
        features,
        splits.astype(x.dtype),
        when_true,
        when_false,
        missing != 0,
        len(weights),
        _members(call, modes, x.dtype),
    )
    return x, Ensemble(nodes, Weights(np.arange(len(weights)), targets, weights))


def _members(call: Call, modes: Array, dtype: np.dtype[Any]) -> dict[int, Array]:
    """Return the set of values of each node that compares with a set. The model separates the sets
    by NaN."""
    nodes = np.flatnonzero(modes == MODES.index("MEMBER"))
    given = call.tensor("membership_values")
    values = np.zeros(0, dtype) if given is None else given.array.reshape(-1).astype(dtype)
    ends = np.flatnonzero(np.isnan(values))
    if values.size and not np.isnan(values[-1]):
        ends = np.append(ends, len(values))
    if len(ends) != len(nodes):
        raise InvalidModelError(
            "membership_values has the wrong number of sets",
            where=call.node.where,
            expected=f"{len(nodes)}, one for each node of the mode BRANCH_MEMBER",
            found=str(len(ends)),
        )
    starts = [0, *(ends[:-1] + 1)]
    pairs = zip(nodes.tolist(), starts, ends, strict=False)
    return {node: values[start:end] for node, start, end in pairs}


def _rows(call: Call, thresholds: np.dtype[Any]) -> Value:
    """Return the rows [rows, features] in the type in which they are compared with thresholds."""
    x = call.x
    if x.rank == 1:
        x = x.reshape((1, *x.shape))
    if x.rank != 2:
        raise InvalidModelError("rows of features are needed", found=str(x.type))
    wide = np.dtype(np.float64) in (x.dtype, thresholds)
    return x.cast(np.float64 if wide else np.float32)


def _modes(call: Call) -> Array:
    """Return the positions of the nodes' modes in ``MODES``, -1 for leaves."""
    names = texts(call, "nodes_modes")
    unknown = {*names} - _MODES.keys()
    if unknown:
        raise InvalidModelError(
            "a node has an unknown mode",
            where=call.node.where,
            expected=f"one of {', '.join(_MODES)}",
            found=repr(min(unknown)),
        )
    return np.array([_MODES[name] for name in names], np.int64)


def _named(call: Call, name: str, names: Sequence[str], default: str) -> str:
    """Return the value of an attribute that is a position in a list of names."""
    number = call.integer(name, names.index(default))
    if not 0 <= number < len(names):
        raise InvalidModelError(
            f"attribute {name!r} is out of range",
            where=call.node.where,
            expected=f"in [0, {len(names)})",
            found=str(number),
        )
    return names[number]


class _Places:
    """The positions of nodes by the numbers of their tree and of the node in it."""

    def __init__(self, call: Call, trees: Array, nodes: Array) -> None:
        self._where = call.node.where
        self._trees, self._nodes = np.unique(trees), np.unique(nodes)
        keys = self._keys(trees, nodes)
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]
        if (self._sorted[1:] == self._sorted[:-1]).any():
            raise InvalidModelError("two nodes of a tree have one number", where=self._where)

    def find(self, trees: Array, nodes: Array) -> Array:
        """Return the positions of nodes. Raises InvalidModelError for one that does not exist."""
        keys = self._keys(trees, nodes)
        at = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        wrong = self._sorted[at] != keys
        if wrong.any():
            i = int(np.argmax(wrong))
            raise InvalidModelError(
                "a node of a tree does not exist",
                where=self._where,
                found=f"node {nodes[i]} of tree {trees[i]}",
            )
        return self._order[at]

    def _keys(self, trees: Array, nodes: Array) -> Array:
        """Return a number for each pair of known numbers, and -1 for other pairs."""
        tree, node = _position(self._trees, trees), _position(self._nodes, nodes)
        return np.where((tree >= 0) & (node >= 0), tree * len(self._nodes) + node, -1)


def _position(known: Array, given: Array) -> Array:
    """Return the position of each number in a sorted array, -1 for one that is not in it."""
    at = np.minimum(np.searchsorted(known, given), len(known) - 1)
    return np.where(known[at] == given, at, -1)
