"""Scores of classes and targets: transformations, a second class, and labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella.dialects import nn
from tessella.frontends.emitter import Value, concat, where
from tessella.frontends.onnx.call import Call
from tessella.runtime.texts import of_list
from tessella.support.errors import InvalidModelError

Array = npt.NDArray[Any]

POST_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""The transformations of scores. Their positions are the numbers that TreeEnsemble uses."""

_NEAR_ZERO = 1e-7
"""The magnitude up to which SOFTMAX_ZERO takes a score for a zero."""
_WINITZKI = 0.147
"""The constant of Winitzki's approximation of the inverse error function, which PROBIT is defined
by."""


def transformed(scores: Value, name: str) -> Value:
    """Emit a transformation of scores [rows, classes], one of ``POST_TRANSFORMS``."""
    return _TRANSFORMS[name](scores)


def _softmax_zero(x: Value) -> Value:
    """Emit a softmax in which zeros stay zeros."""
    greatest = x.max([1], keepdims=True)
    is_zero = abs(x) <= _NEAR_ZERO
    powers = where(is_zero, x * (-greatest).op(nn.ExpOp), (x - greatest).op(nn.ExpOp))
    total = powers.sum([1], keepdims=True)
    return where(total.equals(0.0), 0.5, powers / total)


def _probit(x: Value) -> Value:
    """Emit the quantile function of the normal distribution, by an approximation of the inverse
    error function."""
    y = x * 2.0 - 1.0
    log = ((1.0 - y) * (1.0 + y)).op(nn.LogOp)
    middle = log * 0.5 + 2.0 / (math.pi * _WINITZKI)
    root = ((middle * middle - log * (1.0 / _WINITZKI)).op(nn.SqrtOp) - middle).op(nn.SqrtOp)
    return where(y < 0.0, -root, root) * math.sqrt(2.0)


_TRANSFORMS: Mapping[str, Callable[[Value], Value]] = {
    "NONE": lambda x: x,
    "SOFTMAX": lambda x: x.op(nn.SoftmaxOp, axis=1),
    "LOGISTIC": lambda x: x.op(nn.SigmoidOp),
    "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": _probit,
}


def labels_of(call: Call, integers: str, strings: str) -> Array:
    """Return the labels of classes, which one of two attributes lists; an empty array if neither
    does. Raises InvalidModelError if both do."""
    given = [call.attribute(name) for name in (integers, strings)]
    if all(given):
        raise InvalidModelError(
            "a classifier has labels of two kinds",
            where=call.node.where,
            expected=f"one of {integers} and {strings}",
        )
    return of_list(given[1], (len(given[1]),)) if given[1] else np.array(given[0] or (), np.int64)


def labelled(call: Call, classes: Value, labels: Array) -> Value:
    """Emit the label of each class number."""
    return call.constant(labels).gather(classes, 0)


def of_two(call: Call, second: Value, labels: Array) -> Value:
    """Emit the label of each row: that of the second class where a condition [rows, 1] is true,
    else that of the first one. Without labels of two classes, they are 1 and 0."""
    numbers = second.cast(np.int64).reshape(second.shape[:1])
    return labelled(call, numbers, labels) if len(labels) == 2 else numbers


def decided(call: Call, scores: Value, labels: Array, transform: str) -> tuple[Value, Value]:
    """Emit the label of the class with the greatest score in each row, and the transformed scores.

    A single class is decided by the sign of its score.
    """
    if scores.shape[1] == 1:
        label = of_two(call, scores > 0.0, labels)
    else:
        label = labelled(call, greatest(scores), labels)
    return label, transformed(scores, transform).cast(np.float32)


def greatest(scores: Value) -> Value:
    """Emit the number of the first class with the greatest score in each row."""
    return scores.op(nn.ArgMaxOp, axis=1, keepdims=False, select_last_index=False)


def paired(score: Value, transform: str, *, is_share: bool) -> Value:
    """Emit the transformed scores of two classes from the score [rows, 1] of the second one: a
    share of 1, or a distance from the boundary between the classes."""
    is_share = is_share and transform in ("NONE", "PROBIT")
    pair = columns(1.0 - score if is_share else -score, score)
    return transformed(pair, transform).cast(np.float32)


def columns(*values: Value) -> Value:
    """Emit columns [rows, 1] side by side."""
    return concat(values, 1)
