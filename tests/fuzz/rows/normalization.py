"""Norms, losses, transforms of Fourier."""

from __future__ import annotations

import math

import numpy as np
from onnx import TensorProto

from tests.fuzz.elements import Array
from tests.fuzz.graphs import Draft, Row, has_infinite
from tests.fuzz.rows.elementwise import SINGLE
from tests.fuzz.rows.movement import FEW, axis_of, pick

EPSILONS = (1e-5, 1e-2, 0.5)


def positive(a: Array) -> Array:
    return np.abs(a) + 0.25


def image(d: Draft, low: int = 3, most: int = FEW * 4) -> Array:
    """A batch of channels of something."""
    x = d.pick(
        lambda a: low <= a.ndim <= 4 and a.size <= most and 0 < a.shape[1] <= 40,
        lambda: d.shape(d.between(max(low, 2), 4)),
    )
    d.require(x.shape[1] > 0)
    return x


def batch_norm(d: Draft) -> None:
    x = image(d, 2)
    channels = (x.shape[1],)
    for _ in range(3):
        d.new(channels)
    d.new(channels, positive)


def instance_norm(d: Draft) -> None:
    x = image(d)
    d.require(x.size > 0 and math.prod(x.shape[2:]) > 1)
    for _ in range(2):
        d.new((x.shape[1],))


def group_norm(d: Draft) -> None:
    x = image(d)
    channels = x.shape[1]
    groups = d.one_of(*(n for n in range(1, channels + 1) if channels % n == 0))
    d.set("num_groups", groups)
    d.require(d.opset >= 21)
    for _ in range(2):
        d.new((channels,))


def layer_norm(d: Draft) -> None:
    x = pick(d)
    axis = axis_of(d, x)
    d.set("axis", axis)
    d.new(x.shape[axis:])
    if d.row.op == "LayerNormalization" and d.coin():
        d.new(x.shape[axis:])


def mean_variance(d: Draft) -> None:
    image(d, 4)
    d.require(d.operands[0].array.ndim == 4)


def nll(d: Draft) -> None:
    """Scores [n, c, ..], labels [n, ..], and weights [c]."""
    x = d.pick(lambda a: a.ndim in (2, 3) and 0 not in a.shape, lambda: (d.between(1, 4), 5))
    n, c, *rest = x.shape
    d.require(0 not in x.shape)
    rng = np.random.default_rng(d.random.getrandbits(32))
    labels = rng.integers(0, c, (n, *rest))
    d.new((n, *rest), lambda a: labels.astype(a.dtype))
    if d.coin():
        d.new((c,), positive)


def dft(d: Draft) -> None:
    """[b, n, 1 or 2], real or complex."""
    n, inverse = d.one_of(1, 2, 3, 5, 8, 9), d.coin()
    d.new((d.between(1, 2), n, 2 if inverse else d.between(1, 2)))
    d.set("inverse", int(inverse))
    if d.coin():
        d.constant(np.asarray(d.between(1, n + 2)), TensorProto.INT64)
    if not inverse and d.operands[0].array.shape[-1] == 1 and d.coin():
        d.set("onesided", 1)


def stft(d: Draft) -> None:
    n, frame = d.between(8, 30), d.between(2, 8)
    d.new((d.between(1, 2), n, 1))
    d.constant(np.asarray(d.between(1, 4)), TensorProto.INT64)
    d.new((frame,))
    d.constant(np.asarray(frame), TensorProto.INT64)


REDUCTIONS = ("none", "mean", "sum")

ROWS = (
    Row("BatchNormalization", batch_norm, {"epsilon": EPSILONS}),
    Row("InstanceNormalization", instance_norm, {"epsilon": EPSILONS}),
    Row("GroupNormalization", group_norm, {"epsilon": EPSILONS}, epsilon=SINGLE),
    Row("LayerNormalization", layer_norm, {"epsilon": EPSILONS}, epsilon=SINGLE),
    Row("RMSNormalization", layer_norm, {"epsilon": EPSILONS}, epsilon=SINGLE),
    Row(
        "MeanVarianceNormalization", mean_variance, {"axes": ([0, 2, 3], [1], [0, 1, 2, 3], [2, 3])}
    ),
    Row("NegativeLogLikelihoodLoss", nll, {"reduction": REDUCTIONS, "ignore_index": (0, 1)}),
    Row("SoftmaxCrossEntropyLoss", nll, {"reduction": REDUCTIONS, "ignore_index": (0, 1)}),
    Row("DFT", dft, unclear=has_infinite),
    Row("STFT", stft, {"onesided": (0, 1)}, unclear=has_infinite),
)
