"""Converters of linear models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.dialects import nn
from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.ops.ml.attributes import check_count, floats, rows_of
from tessella.frontends.onnx.ops.ml.scores import (
    POST_TRANSFORMS,
    decided,
    labels_of,
    of_two,
    paired,
    transformed,
)
from tessella.frontends.onnx.registry import converts
from tessella.support.decisions import known

Array = npt.NDArray[Any]


@converts("ai.onnx.ml.LinearRegressor", 1, 1)
def linear_regressor(call: Call) -> Value:
    """Emit a product with the coefficients of each target, plus intercepts."""
    scores = _scores(call, rows_of(call), call.integer("targets", 1))
    return transformed(scores, call.choice("post_transform", *POST_TRANSFORMS)).cast(np.float32)


@converts("ai.onnx.ml.LinearClassifier", 1, 1)
def linear_classifier(call: Call) -> Sequence[Value]:
    """Emit the label of the class with the greatest score for each row, and the scores."""
    call.meaningless("multi_class")
    labels = labels_of(call, "classlabels_ints", "classlabels_strings")
    x, transform = rows_of(call), call.choice("post_transform", *POST_TRANSFORMS)
    classes = len(floats(call, "coefficients")) // max(1, known(x.shape[1]))
    scores = _scores(call, x, max(1, classes))
    if classes == 1 and len(labels) == 2:
        return of_two(call, scores > 0.0, labels), paired(scores, transform, is_share=True)
    if classes > 1:
        check_count(call, "classlabels", labels, classes)
    return decided(call, scores, labels, transform)


def _scores(call: Call, x: Value, targets: int) -> Value:
    """Emit the scores [rows, targets]."""
    coefficients, intercepts = floats(call, "coefficients"), floats(call, "intercepts")
    check_count(call, "coefficients", coefficients, targets * known(x.shape[1]))
    weights = x.like(coefficients.reshape(targets, -1))
    scores = x.op(nn.MatmulOp, weights, transpose_b=True)
    if not len(intercepts):
        return scores
    check_count(call, "intercepts", intercepts, targets)
    return scores + intercepts
