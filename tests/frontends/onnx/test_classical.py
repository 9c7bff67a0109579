"""Ops of classical models, one by one, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tessella
from tessella.frontends.onnx import ops
from tessella.support.errors import ExecutionError, TessellaError
from tests.models import run_onnxruntime

Array = npt.NDArray[Any]

POSTS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((7, 3)).astype(np.float32)
VECTORS = RNG.standard_normal((6, 3)).astype(np.float32)
COUNTS = np.array([[0, 3, 1], [2, 0, 0], [5, 5, -4]])
NAMES = np.array([["ash", "oak"], ["elm", "ash"]], object)


@dataclass(frozen=True)
class Case:
    """A node with operands: its inputs, and the element types of its outputs."""

    op: str
    operands: Sequence[Array]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    outputs: Sequence[str] = ("float32",)
    domain: str = "ai.onnx.ml"
    version: int = 3


def numbers(*shape: int, seed: int = 1) -> list[float]:
    return np.random.default_rng(seed).standard_normal(shape).reshape(-1).tolist()


def tensor(values: Sequence[Any], dtype: npt.DTypeLike) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, dtype))


def svm(classes: int, **more: Any) -> dict[str, Any]:
    """The attributes of a classifier with two support vectors for each class."""
    pairs = classes * (classes - 1) // 2
    return {
        "support_vectors": VECTORS[: 2 * classes].reshape(-1).tolist(),
        "vectors_per_class": [2] * classes,
        "coefficients": numbers(classes - 1, 2 * classes, seed=5),
        "rho": numbers(pairs, seed=6),
        "classlabels_ints": [10 + i for i in range(classes)],
        "kernel_type": "RBF",
        "kernel_params": [0.5, 0.0, 3.0],
        **more,
    }


LABELED = ("int64", "float32")
REGRESSOR = {"coefficients": numbers(4), "support_vectors": VECTORS[:4].reshape(-1).tolist()}
LIKELY = {"prob_a": [-1.5, -1.0, -0.75], "prob_b": [0.1, -0.2, 0.0]}

CASES = [
    *(
        Case(
            "LinearRegressor",
            [X],
            {
                "coefficients": numbers(6),
                "targets": 2,
                "intercepts": [1.0, 2.0],
                "post_transform": post,
            },
        )
        for post in POSTS
    ),
    *(
        Case(
            "LinearClassifier",
            [X],
            {
                "coefficients": numbers(9),
                "intercepts": numbers(3),
                "classlabels_ints": [4, 5, 6],
                "post_transform": post,
            },
            LABELED,
        )
        for post in POSTS
    ),
    *(
        Case(
            "LinearClassifier",
            [X],
            {
                "coefficients": numbers(3),
                "intercepts": [0.1],
                "classlabels_ints": [4, 5],
                "post_transform": post,
            },
            LABELED,
        )
        for post in POSTS[:2]
    ),
    Case(
        "LinearClassifier",
        [X],
        {
            "coefficients": numbers(9),
            "intercepts": numbers(3),
            "classlabels_strings": ["a", "b", "c"],
        },
        ("string", "float32"),
    ),
    *(
        Case(
            "SVMRegressor",
            [X],
            {
                **REGRESSOR,
                "kernel_type": kind,
                "kernel_params": [0.5, 0.25, 3.0],
                "rho": [0.3],
                "n_supports": 4,
            },
        )
        for kind in ("LINEAR", "POLY", "RBF", "SIGMOID")
    ),
    Case(
        "SVMRegressor",
        [X],
        {
            **REGRESSOR,
            "kernel_type": "RBF",
            "kernel_params": [0.5, 0.0, 3.0],
            "rho": [-0.3],
            "n_supports": 4,
            "one_class": 1,
        },
    ),
    *(
        Case("SVMClassifier", [X], svm(classes, post_transform=post), LABELED)
        for classes, post in ((2, "NONE"), (2, "LOGISTIC"), (3, "NONE"), (3, "SOFTMAX"))
    ),
    *(
        Case(
            "SVMClassifier",
            [X],
            svm(classes, **{k: v[: classes * (classes - 1) // 2] for k, v in LIKELY.items()}),
            LABELED,
        )
        for classes in (2, 3)
    ),
    Case("Scaler", [X], {"offset": [1.0, 2.0, 3.0], "scale": [0.5, 2.0, -1.0]}),
    Case("Scaler", [COUNTS], {"offset": [1.0], "scale": [0.5]}),
    Case(
        "Imputer",
        [np.where(X > 0, X, np.nan).astype(np.float32)],
        {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": float("nan")},
    ),
    Case("Imputer", [COUNTS], {"imputed_value_int64s": [9], "replaced_value_int64": 5}, ("int64",)),
    *(Case("Normalizer", [np.abs(X)], {"norm": norm}) for norm in ("MAX", "L1", "L2")),
    *(Case("Normalizer", [X * (X > 5)], {"norm": norm}) for norm in ("L1", "L2")),
    Case("Binarizer", [X], {"threshold": 0.25}),
    Case("FeatureVectorizer", [X, X[:, :2]], {"inputdimensions": [3, 2]}),
    Case("ArrayFeatureExtractor", [X, np.array([[2, 0]])]),
    Case("ArrayFeatureExtractor", [COUNTS, np.array([1])], {}, ("int64",)),
    Case("ArrayFeatureExtractor", [X[0], np.array([1, 2, 2])]),
    Case("OneHotEncoder", [COUNTS], {"cats_int64s": [0, 5, 3], "zeros": 1}),
    Case("OneHotEncoder", [COUNTS.astype(np.float32)], {"cats_int64s": [0, 5, 3], "zeros": 1}),
    Case("OneHotEncoder", [NAMES], {"cats_strings": ["oak", "ash"], "zeros": 1}),
    Case(
        "LabelEncoder",
        [COUNTS],
        {"keys_int64s": [0, 5, 3], "values_floats": [1.0, 2.0, 3.0], "default_float": -7.0},
    ),
    Case(
        "LabelEncoder",
        [np.array([1, np.nan, 2.5, 4], np.float32)],
        {"keys_floats": [float("nan"), 1.0, 2.5], "values_int64s": [7, 8, 9]},
        ("int64",),
        version=4,
    ),
    Case(
        "LabelEncoder",
        [COUNTS],
        {"keys_int64s": [0, 5], "values_strings": ["a", "b"], "default_string": "?"},
        ("string",),
    ),
    Case(
        "LabelEncoder",
        [NAMES],
        {"keys_strings": ["oak", "ash"], "values_int64s": [3, 4], "default_int64": 0},
        ("int64",),
    ),
    Case(
        "LabelEncoder", [NAMES], {"keys_strings": ["oak"], "values_strings": ["tree"]}, ("string",)
    ),
    Case(
        "LabelEncoder",
        [X[0].astype(np.float64)],
        {
            "keys_tensor": tensor([float(X[0, 1])], "f8"),
            "values_tensor": tensor([5.0], "f8"),
            "default_tensor": tensor([1.5], "f8"),
        },
        ("float64",),
        version=4,
    ),
    Case(
        "LabelEncoder",
        [NAMES],
        {"classes_strings": ["ash", "oak"], "default_int64": -3},
        ("int64",),
        version=1,
    ),
    Case(
        "LabelEncoder",
        [COUNTS],
        {"classes_strings": ["ash", "oak"], "default_string": "?"},
        ("string",),
        version=1,
    ),
    Case(
        "CategoryMapper",
        [NAMES],
        {"cats_strings": ["elm", "ash"], "cats_int64s": [5, 6]},
        ("int64",),
    ),
    Case(
        "CategoryMapper",
        [COUNTS],
        {"cats_strings": ["elm", "ash"], "cats_int64s": [5, 0]},
        ("string",),
    ),
]


def grams(mode: str, operand: Array, pool: Mapping[str, Any], **more: Any) -> Case:
    attributes = {
        "mode": mode,
        "min_gram_length": 1,
        "max_gram_length": 2,
        "max_skip_count": 1,
        "ngram_counts": [0, 3],
        "ngram_indexes": [0, 2, 1, 4, 3],
        **pool,
        **more,
    }
    return Case("TfIdfVectorizer", [operand], attributes, domain="")


WORDS = np.array([["a", "b", "c", "a", "b"], ["c", "a", "x", "b", "c"]], object)
POOL = {"pool_strings": ["a", "b", "c", "a", "b", "c", "b"]}
INTEGERS = {"pool_int64s": [1, 2, 3, 1, 2, 3, 2]}
WEIGHTS = {"weights": [0.5, 1.0, 1.5, 2.0, 2.5]}
GRAMS = [
    grams("TF", WORDS, POOL),
    grams("IDF", WORDS, POOL, **WEIGHTS),
    grams("TFIDF", np.array([[1, 2, 3, 1], [2, 1, 9, 2]]), INTEGERS, **WEIGHTS),
    grams("TF", np.array([1, 2, 2, 3, 2], np.int32), INTEGERS, min_gram_length=2),
]


def made(case: Case) -> tuple[onnx.ModelProto, dict[str, Array]]:
    feeds = {f"x{i}": operand for i, operand in enumerate(case.operands)}
    names = [f"y{i}" for i in range(len(case.outputs))]
    types = [helper.np_dtype_to_tensor_dtype(np.dtype(x.dtype)) for x in feeds.values()]
    results = [_type(name) for name in case.outputs]
    node = helper.make_node(
        case.op, [*feeds], names, domain=case.domain, name="node", **case.attributes
    )
    graph = helper.make_graph(
        [node],
        "graph",
        [
            helper.make_tensor_value_info(name, type, x.shape)
            for (name, x), type in zip(feeds.items(), types, strict=True)
        ],
        [helper.make_tensor_value_info(n, t, None) for n, t in zip(names, results, strict=True)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", case.version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), feeds


def _type(name: str) -> int:
    return (
        TensorProto.STRING if name == "string" else helper.np_dtype_to_tensor_dtype(np.dtype(name))
    )


@pytest.mark.sweep
@pytest.mark.parametrize("case", [*CASES, *GRAMS], ids=lambda case: case.op)
def test_as_onnxruntime(case: Case) -> None:
    proto, feeds = made(case)
    found = tessella.compile(proto).run(None, feeds)
    wanted = run_onnxruntime(proto, feeds)
    for y, expected in zip(found, wanted, strict=True):
        assert y.shape == expected.shape
        if expected.dtype.kind == "O":
            assert y.tolist() == expected.tolist()
        else:
            assert y.dtype == expected.dtype
            np.testing.assert_allclose(y, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_linear_models_of_other_elements(dtype: str) -> None:
    x = (3 * X).astype(dtype)
    proto, feeds = made(Case("LinearRegressor", [x], {"coefficients": [0.5, -1.0, 2.0]}))
    (found,) = tessella.compile(proto).run(None, feeds)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, x @ np.array([[0.5], [-1], [2]]), rtol=1e-5, atol=1e-5)


def test_every_op_is_tested() -> None:
    known = {op.rpartition(".")[2] for op in ops.entries() if op.startswith("ai.onnx.ml.")}
    trees = {"TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"}  # test_forests
    maps = {"ZipMap", "DictVectorizer", "CastMap"}  # test_maps
    assert known == {case.op for case in CASES} | trees | maps


def test_tokens() -> None:
    """As ONNX Runtime's, which has the op in builds with extensions."""
    texts = np.array(["a bc  d", "", "bc"], object)
    for attributes, wanted in (
        ({"tokenexp": "[a-z]+"}, [["a", "bc", "d"], ["#"] * 3, ["bc", "#", "#"]]),
        ({"tokenexp": "[a-z]+", "mincharnum": 2}, [["bc"], ["#"], ["bc"]]),
        ({"separators": ["b", " "]}, [["a", "c", "d"], ["#"] * 3, ["c", "#", "#"]]),
    ):
        given = {"mark": 0, "pad_value": "#", "mincharnum": 1, **attributes}
        case = Case("Tokenizer", [texts], given, ("string",), domain="com.microsoft")
        proto, feeds = made(case)
        proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        (found,) = tessella.compile(proto).run(None, feeds)
        assert found.tolist() == wanted


@pytest.mark.parametrize("categories", [{"cats_int64s": [0, 1]}, {"cats_strings": ["ash"]}])
def test_an_unknown_category_is_an_error_of_the_call(categories: dict[str, Any]) -> None:
    operand = NAMES if "cats_strings" in categories else COUNTS
    proto, feeds = made(Case("OneHotEncoder", [operand], {**categories, "zeros": 0}))
    with pytest.raises(ExecutionError):
        tessella.compile(proto).run(None, feeds)


DAMAGED = [
    (Case("LinearRegressor", [X], {"coefficients": numbers(4)}), "coefficients.*wrong length"),
    (Case("Scaler", [X], {"offset": [1.0, 2.0]}), "offset.*wrong length"),
    (Case("Imputer", [X], {}), "imputed_value_floats.*missing"),
    (Case("LabelEncoder", [COUNTS], {"keys_int64s": [1], "values_floats": [1.0, 2.0]}), "as many"),
    (Case("LabelEncoder", [COUNTS], {"values_floats": [1.0]}), "one list of keys"),
    (Case("OneHotEncoder", [COUNTS], {}), "no categories"),
    (Case("SVMClassifier", [X], svm(3, rho=[1.0]), LABELED), "rho.*wrong length"),
    (Case("SVMRegressor", [X], {"coefficients": [1.0], "rho": [1.0, 2.0]}), "rho.*wrong length"),
    (Case("FeatureVectorizer", [X], {"inputdimensions": [3, 1]}), "inputdimensions.*wrong"),
    (grams("TF", WORDS, POOL, ngram_indexes=[0]), "ngram_indexes"),
    (grams("TF", WORDS, POOL, ngram_counts=[3, 0]), "ngram_counts"),
    (grams("TF", WORDS, POOL, weights=[1.0]), "weights.*wrong length"),
]


@pytest.mark.parametrize(
    "case, message", DAMAGED, ids=lambda x: x.op if isinstance(x, Case) else ""
)
def test_damaged_attributes_are_refused(case: Case, message: str) -> None:
    proto, feeds = made(case)
    with pytest.raises(TessellaError, match=f"(?s){message}"):
        tessella.compile(proto).run(None, feeds)
