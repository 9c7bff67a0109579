"""Tree ensembles: nodes of all modes as arrays, and models against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tessella
from tessella.frontends.onnx.ops.ml.forest import MODES, Nodes, check, forest
from tessella.runtime.host import run
from tessella.support.errors import InvalidModelError, ResourceError, TessellaError
from tests.frontends.onnx.forests import FEATURES, drawn_nodes, drawn_weights, model_of
from tests.models import run_onnxruntime

Array = npt.NDArray[Any]

COMPARED = {
    "LEQ": np.less_equal,
    "LT": np.less,
    "GTE": np.greater_equal,
    "GT": np.greater,
    "EQ": np.equal,
    "NEQ": np.not_equal,
    "MEMBER": np.isin,
}
BRANCHES = tuple(f"BRANCH_{name}" for name in MODES[:-1])


def rows(count: int, seed: int = 0, *, missing: bool = False) -> Array:
    """Rows whose elements often equal thresholds."""
    rng = np.random.default_rng(seed)
    x = (rng.integers(-4, 5, (count, FEATURES)) / 4).astype(np.float32)
    if missing:
        x[rng.random(x.shape) < 0.2] = np.nan
    return x


def one_node(mode: str, value: float, missing: bool, dtype: npt.DTypeLike) -> Nodes:
    values = np.array([value], dtype)
    members = {0: np.array([value, 2, 1, 2, np.nan], dtype)} if mode == "MEMBER" else {}
    sides = (np.array([~0]), np.array([~1]))
    modes = np.array([MODES.index(mode)])
    return Nodes(
        np.zeros(1, int), modes, np.ones(1, int), values, *sides, np.array([missing]), 2, members
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore")
def test_modes(mode: str, missing: bool, dtype: npt.DTypeLike) -> None:
    """Every comparison of special numbers with special thresholds."""
    one = np.ones((), dtype)
    special = [0.0, -0.0, 1, -1, 2, np.inf, -np.inf, np.nan, np.nextafter(one, 0 * one)]
    numbers = np.array([*special, np.nextafter(0 * one, one), -np.nextafter(0 * one, one)], dtype)
    x = np.stack([0 * numbers, numbers], 1)
    for value in numbers:
        nodes = one_node(mode, value, missing, dtype)
        check(nodes, 2)
        made = forest(nodes, 2)
        wide = np.concatenate([x * sign for sign in made.signs], 1).astype(dtype)
        values = made.leaves.astype(dtype)[:, None]
        settings = {"trees": made.trees, "levels": made.levels, "bits": made.bits}
        operands = [wide, made.thresholds, made.links, values]
        (found,) = run("nn.tree_ensemble", operands, {**settings, "aggregate": "sum"})
        other = nodes.members[0][:-1] if nodes.members else value
        is_true = COMPARED[mode](numbers, other)
        wanted = np.where(np.isnan(numbers), missing, is_true)
        np.testing.assert_array_equal(found[:, 0] == 0, wanted, f"{value}")


def compared(proto: onnx.ModelProto, x: Array, tolerance: float = 1e-5) -> None:
    found = tessella.compile(proto).run(None, {"x": x})
    wanted = run_onnxruntime(proto, {"x": x})
    for y, expected in zip(found, wanted, strict=True):
        assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [1, 3])
@pytest.mark.parametrize("missing", [False, True])
def test_regressors(aggregate: str, targets: int, missing: bool) -> None:
    # ONNX Runtime sends a NaN to the true branch of BRANCH_NEQ, whatever the attribute says
    nodes = drawn_nodes(7, 5, BRANCHES[:5] if missing else BRANCHES)
    weights = drawn_weights(nodes, "target", [*range(targets)])
    attributes = {"n_targets": targets, "aggregate_function": aggregate, **nodes, **weights}
    attributes["base_values"] = [0.5, -1.0, 2.0][:targets]
    proto = model_of("TreeEnsembleRegressor", {"y": TensorProto.FLOAT}, attributes)
    for count in (1, 2, 17, 100):
        compared(proto, rows(count, missing=missing))


@pytest.mark.parametrize("dtype", ["float64", "int64", "int32"])
def test_elements_of_features(dtype: str) -> None:
    proto = classifier(3, [0, 1, 2], False, None, "NONE")
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    proto.graph.input[0].type.tensor_type.elem_type = element
    compared(proto, (rows(40) * 2).astype(dtype))


POSTS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")


@pytest.mark.parametrize("post", POSTS)
@pytest.mark.parametrize(
    "classes, ids, positive, base",
    [
        (3, [0, 1, 2], True, None),
        (3, [0, 1, 2], False, [0.1, 0.2, -0.3]),
        (2, [1], False, None),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_classifiers(
    classes: int, ids: list[int], positive: bool, base: list[float] | None, post: str
) -> None:
    compared(classifier(classes, ids, positive, base, post), rows(40))


@pytest.mark.parametrize(
    "positive, base, post",
    [
        (True, None, "NONE"),
        (True, [0.1], "NONE"),
        (False, None, "NONE"),
        (False, [0.1], "LOGISTIC"),
    ],
)
def test_scores_of_one_of_two_classes(positive: bool, base: list[float] | None, post: str) -> None:
    compared(classifier(2, [0], positive, base, post), rows(40))


def classifier(
    classes: int, ids: list[int], positive: bool, base: list[float] | None, post: str
) -> onnx.ModelProto:
    nodes = drawn_nodes(4, 3)
    weights = drawn_weights(nodes, "class", ids, positive=positive)
    attributes = {"post_transform": post, **nodes, **weights}
    attributes["classlabels_int64s"] = [10 + i for i in range(classes)]
    if base is not None:
        attributes["base_values"] = base
    types: dict[str, int] = {"label": TensorProto.INT64, "scores": TensorProto.FLOAT}
    return model_of("TreeEnsembleClassifier", types, attributes)


def test_two_classes_with_scores_of_their_own() -> None:
    """The greater one decides, as in scikit-learn; ONNX Runtime compares the second with 0."""
    x = rows(40)
    label, scores = tessella.compile(classifier(2, [0, 1], True, None, "NONE")).run(None, {"x": x})
    np.testing.assert_array_equal(label, 10 + scores.argmax(1))
    assert len(np.unique(label)) == 2


# ** version 5 **


def ensemble(modes: list[int], members: list[float], **more: Any) -> onnx.ModelProto:
    """A forest of two trees: one of three nodes, and one whose root has one leaf, which
    `onnx.reference` takes to have the number of the root."""
    numbers = np.array([0.5, -0.25, 0.25, 0.0], np.float32)
    attributes = {
        "n_targets": 2,
        "tree_roots": [0, 3],
        "nodes_splits": numpy_helper.from_array(numbers),
        "nodes_modes": numpy_helper.from_array(np.array([*modes, 0], np.uint8)),
        "nodes_featureids": [0, 1, 2, 3],
        "nodes_truenodeids": [1, 0, 2, 3],
        "nodes_trueleafs": [0, 1, 1, 1],
        "nodes_falsenodeids": [2, 1, 4, 3],
        "nodes_falseleafs": [0, 1, 1, 1],
        "leaf_targetids": [0, 1, 0, 1, 0],
        "leaf_weights": numpy_helper.from_array(np.array([1, 2, 4, 8, 16], np.float32)),
        **more,
    }
    if members:
        values = np.array(members, np.float32)
        attributes["membership_values"] = numpy_helper.from_array(values)
    return model_of("TreeEnsemble", {"y": TensorProto.FLOAT}, attributes, version=5)


@pytest.mark.parametrize("modes", [[0, 1, 2], [3, 4, 5], [6, 0, 6], [2, 6, 1]])
@pytest.mark.parametrize("aggregate", [0, 1])
def test_ensembles_of_lists(modes: list[int], aggregate: int) -> None:
    nan = float("nan")
    sets = [[0.5, -0.25, 0.75, nan], [1.0, nan]][: modes.count(6)]
    members = [value for values in sets for value in values]
    proto = ensemble(modes, members, aggregate_function=aggregate)
    x = rows(60)
    (found,) = tessella.compile(proto).run(None, {"x": x})
    reference: Any = ReferenceEvaluator(proto)
    (wanted,) = reference.run(None, {"x": x})
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_the_transformation_of_an_ensemble() -> None:
    proto = ensemble([0, 1, 2], [], post_transform=1)
    x = rows(20)
    (plain,) = tessella.compile(ensemble([0, 1, 2], [])).run(None, {"x": x})
    (found,) = tessella.compile(proto).run(None, {"x": x})
    powers = np.exp(plain)
    np.testing.assert_allclose(found, powers / powers.sum(1, keepdims=True), rtol=1e-5)


# ** damaged attributes **


def regressor(**changed: Any) -> onnx.ModelProto:
    nodes = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [1, 0, 0],
        "nodes_values": [0.5, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights": [1.0, 2.0],
        "n_targets": 1,
    }
    given = {name: value for name, value in {**nodes, **changed}.items() if value is not None}
    return model_of("TreeEnsembleRegressor", {"y": TensorProto.FLOAT}, given)


_LISTS = [
    *("nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_values", "nodes_modes"),
    *("nodes_truenodeids", "nodes_falsenodeids"),
]
DAMAGED = {
    "feature": ({"nodes_featureids": [4, 0, 0]}, r"feature.*out of range.*\[0, 4\)"),
    "negative feature": ({"nodes_featureids": [-1, 0, 0]}, "feature.*out of range"),
    "child": ({"nodes_truenodeids": [7, 0, 0]}, "node 7 of tree 0"),
    "cycle": ({"nodes_truenodeids": [0, 0, 0]}, "without cycles"),
    "mode": ({"nodes_modes": ["BRANCH_XYZ", "LEAF", "LEAF"]}, "unknown mode.*BRANCH_XYZ"),
    "length": ({"nodes_values": [0.5]}, "nodes_values.*wrong length.*3.*1"),
    "fewer numbers": ({"nodes_nodeids": [0, 1]}, "nodes_nodeids.*wrong length.*3.*2"),
    "fewer trees": ({"nodes_treeids": [0, 0]}, "nodes_nodeids.*wrong length.*2.*3"),
    "no nodes": (dict.fromkeys(_LISTS), "no nodes"),
    "twice": ({"nodes_nodeids": [0, 1, 1]}, "one number"),
    "target": ({"target_ids": [0, 3]}, r"target of a leaf.*\[0, 1\).*3"),
    "weights": ({"target_weights": [1.0]}, "target_weights.*wrong length"),
    "leaf": ({"target_nodeids": [1, 9]}, "node 9 of tree 0"),
    "base": ({"base_values": [1.0, 2.0]}, "base_values.*wrong length"),
    "targets": ({"n_targets": 1 << 40}, "too large|elements"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_attributes_are_refused(name: str) -> None:
    changed, message = DAMAGED[name]
    with pytest.raises(TessellaError, match=f"(?s){message}"):
        tessella.compile(regressor(**changed)).run(None, {"x": rows(3)})


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"nodes_truenodeids": [9, 0, 2, 4]}, "out of range"),
        ({"nodes_truenodeids": [-1, 0, 2, 4]}, "negative"),
        ({"tree_roots": [0, 9]}, "out of range"),
        ({"tree_roots": [0, 1]}, "without cycles"),
        ({"nodes_trueleafs": [0, 1]}, "nodes_leafs.*wrong length"),
        ({"leaf_targetids": [0, 1, 0, 1, 2]}, "target of a leaf"),
    ],
)
def test_damaged_lists_are_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidModelError, match=f"(?s){message}"):
        tessella.compile(ensemble([0, 1, 2], [], **changed)).run(None, {"x": rows(3)})


def test_sets_are_counted() -> None:
    with pytest.raises(InvalidModelError, match="number of sets"):
        tessella.compile(ensemble([6, 6, 0], [1.0])).run(None, {"x": rows(3)})


def test_trees_that_are_too_deep() -> None:
    count = 5000
    number = np.arange(count)
    children = np.append(number[1:], ~0)
    nodes = Nodes(
        np.zeros(1, int),
        0 * number,
        0 * number,
        number * 1.0,
        children,
        ~(0 * number),
        number < 0,
        1,
    )
    check(nodes, 1)
    with pytest.raises(ResourceError, match="too deep"):
        forest(nodes, 1)
