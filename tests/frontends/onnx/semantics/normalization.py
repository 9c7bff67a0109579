"""Norms and losses of constants, of no elements, and of special values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from tests.frontends.onnx.semantics.case import Array, Case, runtime
from tests.native import normal

_INF, _NAN = np.inf, np.nan
_ROWS = np.array(
    [[1, _INF, 2], [1, -_INF, 2], [-_INF] * 3, [_INF, -_INF, 0], [_NAN, 1, 2], [-0.0, 0, -0.0],
     [1e-45, 0, -1e-45], [100, 90, -100]],
    np.float32,
)  # fmt: skip
_ONE, _ZERO = np.ones(3, np.float32), np.zeros(3, np.float32)


def _log_softmax(axis: int, x: Array) -> Array:
    """The logarithms of Softmax without its rounding: the reference has -inf below e^-104."""
    wide = x.astype(np.float64)
    moved = wide - wide.max(axis=axis, keepdims=True)
    return (moved - np.log(np.exp(moved).sum(axis=axis, keepdims=True))).astype(x.dtype)


def _lp_norm(axis: int, p: int, x: Array) -> Array:
    """The reference has a sum of powers without the magnitude, and the norm 1 for 0."""
    wide = x.astype(np.float64)
    norm = (np.abs(wide) ** p).sum(axis=axis, keepdims=True) ** (1 / p)
    return np.where(norm == 0, 0, wide / norm).astype(x.dtype)


def _softmaxes() -> Iterator[Case]:
    for axis in (0, 1):
        for x in (_ROWS, _ROWS[5:], np.zeros((0, 3), np.float32), np.zeros((3, 0), np.float32)):
            yield Case("Softmax", [x], {"axis": axis})
            yield Case("Hardmax", [x], {"axis": axis})
            if x.size:
                oracle = lambda x, axis=axis: _log_softmax(axis, x)  # noqa: E731
                yield Case("LogSoftmax", [x], {"axis": axis}, wanted=oracle)
            else:
                yield Case("LogSoftmax", [x], {"axis": axis})
    yield Case("Softmax", [normal(3, 1)], {"axis": 1})
    for p, axis in product((1, 2), (0, 1)):
        oracle = lambda x, axis=axis, p=p: _lp_norm(axis, p, x)  # noqa: E731
        yield Case(
            "LpNormalization", [_ROWS[[2, 3, 4, 5, 7]]], {"p": p, "axis": axis}, wanted=oracle
        )
        none = np.zeros((0, 3), np.float32)
        yield Case("LpNormalization", [none], {"p": p, "axis": axis})


def _norms() -> Iterator[Case]:
    for epsilon in (1e-5, 0.0):
        settings = {"epsilon": epsilon}
        for x in (np.full((2, 3), 2.5, np.float32), _ROWS[:6], np.zeros((0, 3), np.float32)):
            yield Case("LayerNormalization", [x, _ONE, _ZERO], settings, outputs=3)
            yield Case("RMSNormalization", [x, _ONE], settings)
        for x in (np.full((2, 3, 4), 2.5, np.float32), normal(2, 3, 1), normal(0, 3, 4)):
            yield Case("InstanceNormalization", [x, _ONE, _ZERO], settings)
            if len(x):
                yield Case("GroupNormalization", [x, _ONE, _ZERO], {**settings, "num_groups": 3})
        for variance in (_ZERO, -_ONE):
            operands = [normal(2, 3, 4), _ONE, _ZERO, _ZERO, variance]
            yield Case("BatchNormalization", operands, settings)
        operands = [normal(2, 3, 4), _ONE, _ZERO, _ZERO, _ONE]
        training = {**settings, "training_mode": 1}
        yield Case("BatchNormalization", operands, training, outputs=3)
        for x in (normal(0, 3, 4), normal(2, 3)):
            yield Case("BatchNormalization", [x, *operands[1:]], settings)
        none = [x[:0] for x in operands[1:]]
        yield Case("BatchNormalization", [normal(2, 0, 4), *none], settings)
    yield Case("MeanVarianceNormalization", [np.full((2, 3, 2, 2), 2.5, np.float32)])
    yield Case("MeanVarianceNormalization", [normal(2, 0, 2, 2)], {"axes": [0]})
    for size in (3, 9):
        settings = {"size": size, "alpha": 0.5}
        yield Case("LRN", [normal(1, 5, 2, 3)], settings, wanted=runtime, epsilon=1e-5)


def _losses() -> Iterator[Case]:
    """The mean of losses is that of the targets that count, where the reference has all."""
    odd = np.array([[_INF, 1, 0], [-_INF, -_INF, -_INF], [0, -_INF, 0]], np.float32)
    some = np.array([1, 0, 0.5], np.float32)
    for reduction, weights in product(("mean", "sum", "none"), (None, some, _ZERO)):
        settings = {"reduction": reduction, "ignore_index": -1}
        oracle = runtime if weights is None else None
        for targets in ([0, 2, 1, 1], [-1, 1, 0, 1], [-1, -1, -1, -1]):
            operands = [normal(4, 3), np.array(targets), weights]
            yield Case("NegativeLogLikelihoodLoss", operands, settings, wanted=oracle)
            yield Case("SoftmaxCrossEntropyLoss", operands, settings, outputs=2)
        operands = [odd, np.array([0, 1, 0]), weights]
        yield Case("SoftmaxCrossEntropyLoss", operands, settings, outputs=2)


def cases() -> Iterator[Case]:
    """All norms and losses."""
    yield from _softmaxes()
    yield from _norms()
    yield from _losses()
