"""Converters of support vector machines: a kernel function of rows and support vectors, and a
weighted sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.dialects import nn
from tessella.frontends.emitter import Value, where
from tessella.frontends.loops import scan
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops.ml.attributes import check_count, floats, integers, rows_of
from tessella.frontends.onnx.ops.ml.scores import (
    POST_TRANSFORMS,
    columns,
    decided,
    greatest,
    labelled,
    labels_of,
    paired,
    transformed,
)
from tessella.frontends.onnx.registry import converts
from tessella.support.decisions import known
from tessella.support.errors import InvalidModelError

Array = npt.NDArray[Any]

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")

ROUNDS = 100
"""The most rounds in which probabilities of classes are found from those of pairs, as in libsvm."""
CLOSE = 0.005
"""The error, times the number of classes, at which libsvm ends."""
LEAST = 1e-7
"""The least probability of a class in a pair."""


@converts("ai.onnx.ml.SVMRegressor", 1, 1)
def svm_regressor(call: Call) -> Value:
    """Emit a weighted sum of the kernel's values, or its sign for a model of one class."""
    x, supports = rows_of(call), call.integer("n_supports", 0)
    coefficients, rho = floats(call, "coefficients"), floats(call, "rho")
    check_count(call, "rho", rho, 1)
    kernel = _kernel(call)
    if supports:
        vectors = _vectors(call, supports, x)
        check_count(call, "coefficients", coefficients, supports)
        values = kernel(x, vectors)
    else:
        call.meaningless("support_vectors")
        check_count(call, "coefficients", coefficients, known(x.shape[1]))
        values = x
    scores = values @ x.like(coefficients[:, None]) + float(rho[0])
    if call.flag("one_class"):
        scores = where(scores > 0.0, 1.0, x.like(-1.0))
    return transformed(scores, call.choice("post_transform", *POST_TRANSFORMS)).cast(np.float32)


@converts("ai.onnx.ml.SVMClassifier", 1, 1)
def svm_classifier(call: Call) -> Sequence[Value]:
    """Emit the label of each row, and the scores of classes or of pairs of classes."""
    labels = labels_of(call, "classlabels_ints", "classlabels_strings")
    transform = call.choice("post_transform", *POST_TRANSFORMS)
    counts = integers(call, "vectors_per_class")
    if not len(counts):
        return _linear(call, labels, transform)
    check_count(call, "classlabels", labels, len(counts))
    if len(counts) < 2 or (counts < 0).any():
        raise InvalidModelError("vectors_per_class needs two classes", where=call.node.where)
    pairs = _Pairs.of(call, counts)
    x = rows_of(call)
    values = _kernel(call)(x, _vectors(call, int(counts.sum()), x))
    distances = values @ x.like(pairs.weights) + pairs.rho
    label = labelled(call, greatest(_votes(distances, pairs)), labels)
    a, b = floats(call, "prob_a"), floats(call, "prob_b")
    if len(a):
        check_count(call, "prob_a", a, len(pairs.rho))
        check_count(call, "prob_b", b, len(pairs.rho))
        scores = _probabilities(call, _in_pairs(distances, a, b), pairs)
        return label, transformed(scores, transform).cast(np.float32)
    if len(counts) == 2:
        return label, paired(distances, transform, is_share=False)
    return label, transformed(distances, transform).cast(np.float32)


def _linear(call: Call, labels: Array, transform: str) -> Sequence[Value]:
    """Emit a classifier without support vectors, which has coefficients for each class."""
    x, coefficients, rho = rows_of(call), floats(call, "coefficients"), floats(call, "rho")
    call.meaningless("support_vectors", "kernel_type", "kernel_params", "prob_a", "prob_b")
    classes = max(1, len(labels))
    check_count(call, "coefficients", coefficients, classes * known(x.shape[1]))
    if not len(rho):
        raise InvalidModelError("attribute 'rho' is missing", where=call.node.where)
    weights = x.like(coefficients.reshape(classes, -1))
    scores = x.op(nn.MatmulOp, weights, transpose_b=True) + float(rho[0])
    return decided(call, scores, labels, transform)


# ** kernels **


def _vectors(call: Call, count: int, x: Value) -> Array:
    """Return the support vectors [count, features]."""
    given, width = floats(call, "support_vectors"), known(x.shape[1])
    check_count(call, "support_vectors", given, count * width)
    return given.reshape(count, width)


def _kernel(call: Call) -> Callable[[Value, Array], Value]:
    """Return the function that emits the kernel's values [rows, vectors]."""
    name, given = call.choice("kernel_type", *KERNELS), floats(call, "kernel_params")
    if len(given):
        check_count(call, "kernel_params", given, 3)
    gamma, coefficient, degree = map(float, given if len(given) else (0, 0, 0))

    def linear(x: Value, vectors: Array) -> Value:
        return x.op(nn.MatmulOp, x.like(vectors), transpose_b=True)

    def radial(x: Value, vectors: Array) -> Value:
        rows, width = x.shape
        apart = x.reshape((rows, 1, width)) - x.like(vectors[None])
        return ((apart * apart).sum([2]) * -gamma).op(nn.ExpOp)

    def moved(x: Value, vectors: Array) -> Value:
        return linear(x, vectors) * gamma + coefficient

    functions: Mapping[str, Callable[[Value, Array], Value]] = {
        "LINEAR": linear,
        "POLY": lambda x, vectors: moved(x, vectors) ** degree,
        "RBF": radial,
        "SIGMOID": lambda x, vectors: moved(x, vectors).op(nn.TanhOp),
    }
    return functions[name]


# ** pairs of classes **


@dataclass(frozen=True)
class _Pairs:
    """The pairs of classes, each with a boundary."""

    first: Array
    second: Array
    weights: Array
    """The weight of each vector at each boundary: [vectors, pairs]."""
    rho: Array

    @staticmethod
    def of(call: Call, counts: Array) -> _Pairs:
        """Return the pairs of classes with these numbers of vectors."""
        classes, vectors = len(counts), int(counts.sum())
        coefficients, rho = floats(call, "coefficients"), floats(call, "rho")
        pairs = np.array(list(combinations(range(classes), 2)))
        check_count(call, "coefficients", coefficients, (classes - 1) * vectors)
        check_count(call, "rho", rho, len(pairs))
        own = np.repeat(np.arange(classes), counts)
        by_class = coefficients.reshape(classes - 1, vectors)
        weights = np.zeros(call.build.limited(vectors, len(pairs)), np.float32)
        for number, (i, j) in enumerate(pairs.tolist()):
            weights[own == i, number] = by_class[j - 1, own == i]
            weights[own == j, number] = by_class[i, own == j]
        return _Pairs(pairs[:, 0], pairs[:, 1], weights, rho)

    @property
    def classes(self) -> int:
        return int(self.second.max()) + 1


def _votes(distances: Value, pairs: _Pairs) -> Value:
    """Emit the number of pairs that each class wins: [rows, classes]."""
    number = np.arange(len(pairs.rho))
    first, second = (np.zeros((len(number), pairs.classes), np.float32) for _ in range(2))
    first[number, pairs.first] = second[number, pairs.second] = 1
    wins = (distances > 0.0).cast(distances.dtype)
    return wins @ wins.like(first - second) + second.sum(0)


def _in_pairs(distances: Value, a: Array, b: Array) -> Value:
    """Emit the probability of the first class of each pair."""
    score = distances * a + b
    return (-score).op(nn.SigmoidOp).op(nn.ClipOp, low=LEAST, high=1.0 - LEAST)


def _probabilities(call: Call, likely: Value, pairs: _Pairs) -> Value:
    """Emit the probabilities of classes from those in pairs of classes, by the rounds of libsvm
    (Wu, Lin and Weng: Probability estimates for multi-class classification by pairwise coupling).

    A row that is close enough keeps its probabilities.
    """
    count, matrix = pairs.classes, _matrix(likely, pairs)
    rows = likely.shape[0]
    start = likely.like(1.0 / count).expand((rows, count))

    def product(q: Sequence[Sequence[Value]], p: Value) -> Value:
        parts = [p.part(1, t, 1) for t in range(count)]
        sums = [
            sum((q[t][u] * parts[u] for u in range(1, count)), q[t][0] * parts[0])
            for t in range(count)
        ]
        return columns(*sums)

    def step(
        carried: Sequence[Value], _: Sequence[Value]
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        number, p = carried[1:]
        image = product(matrix, p)
        total = (p * image).sum([1], keepdims=True)
        error = abs(image - total).max([1], keepdims=True)
        is_open = error >= CLOSE / count
        new = p
        for t in range(count):
            column = image.part(1, t, 1)
            own = matrix[t][t]
            difference = (total - column) / own
            scale = difference + 1.0
            total = (total + difference * (difference * own + column * 2.0)) / (scale * scale)
            line = columns(*(matrix[u][t] for u in range(count)))
            image = (image + difference * line) / scale
            unit = np.zeros((1, count), np.float32)
            unit[0, t] = 1
            new = (new + difference * new.like(unit)) / scale
        following = number + 1
        goes_on = is_open.cast(np.int64).max([0, 1]).cast(np.bool_) & (following < ROUNDS)
        return [goes_on, following, where(is_open, new, p)], []

    first = [call.constant(np.array(True)), call.constant(np.array(0, np.int64)), start]
    return scan(call.build, "coupling", first, [], step, conditional=True)[2]


def _matrix(likely: Value, pairs: _Pairs) -> list[list[Value]]:
    """Emit the matrix of the quadratic form that probabilities minimise, as columns [rows, 1]."""
    count = pairs.classes
    one: dict[tuple[int, int], Value] = {}
    for number, (i, j) in enumerate(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)):
        one[i, j] = likely.part(1, number, 1)
        one[j, i] = 1.0 - one[i, j]
    matrix: list[list[Value]] = []
    for t in range(count):
        squares = [one[u, t] * one[u, t] for u in range(count) if u != t]
        own = sum(squares[1:], squares[0])
        matrix.append([own if u == t else -(one[u, t] * one[t, u]) for u in range(count)])
    return matrix
