"""Fusions of convolutions with the ops before or after them, against ONNX Runtime."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from tests.native import Array
from tests.passes.patterns.spelling import check, sample

X = {"x": sample(0, 1, 8, 12, 12)}
NORM = {
    "scale": sample(1, 8), "bias": sample(2, 8), "mean": sample(3, 8),
    "variance": abs(sample(4, 8)) + 0.5,
}  # fmt: skip
WIDE = {
    "w": sample(5, 32, 8, 3, 3),
    "b": sample(6, 32),
    "v": sample(7, 8, 32, 1, 1) / 6,
    "v8": sample(12, 8, 8, 3, 3),
}
SCALED = {"factor": abs(sample(10, 8, 1, 1)) + 0.5, "columns": sample(11, 12)}
PADS = "p = Constant <value_ints = [0, 0, 1, 2, 0, 0, 1, 0]> ()"
STRIDES = "pads = [1, 0, 1, 1], strides = [2, 1]"

CASES: dict[str, tuple[str, Sequence[str], dict[str, Array]]] = {
    "zeros around an image": (
        f"{PADS} a = Pad(x, p) y = Conv <{STRIDES}> (a, w, b)", ["conv"], WIDE,
    ),
    "ones around an image": (
        f"{PADS} a = Pad(x, p, 1.0f) y = Conv(a, w, b)", ["pad", "conv"], WIDE,
    ),
    "a normalization before a convolution": (
        "a = BatchNormalization(x, scale, bias, mean, variance) y = Conv(a, w)", ["conv"],
        NORM | WIDE,
    ),
    "a normalization and a bias": (
        "a = BatchNormalization(x, scale, bias, mean, variance) y = Conv <strides = [2, 2]> "
        "(a, w, b)",
        ["conv"], NORM | WIDE,
    ),
    "a normalization before a padded convolution": (
        "a = BatchNormalization(x, scale, bias, mean, variance) y = Conv <pads = [1, 1, 1, 1]> "
        "(a, w)",
        ["mul", "add", "conv"], NORM | WIDE,
    ),
    "two convolutions": (
        f"a = Conv <{STRIDES}> (x, w, b) y = Conv <strides = [1, 2]> (a, v, scale)", ["conv"],
        NORM | WIDE,
    ),
    "scaled channels with padding": (
        "s = Mul(x, factor) y = Conv <pads = [1, 1, 1, 1]> (s, w, b)", ["conv"], SCALED | WIDE,
    ),
    "divided channels": ("s = Div(x, factor) y = Conv(s, w)", ["conv"], SCALED | WIDE),
    "scaled columns of an image": (
        "s = Mul(x, columns) y = Conv(s, w)", ["mul", "conv"], SCALED | WIDE,
    ),
    "scales around a convolution": (
        "a = Mul(x, factor) c = Div(a, factor) d = Conv(c, w) y = Mul(d, 0.25f)", ["conv"],
        SCALED | WIDE,
    ),
    "batch norms around a convolution": (
        "a = BatchNormalization(x, scale, bias, mean, variance) c = Conv(a, v8) "
        "y = BatchNormalization(c, scale, bias, mean, variance)", ["conv"], NORM | WIDE,
    ),
    "two convolutions without a bias": ("a = Conv(x, w) y = Conv(a, v)", ["conv"], WIDE),
    "few channels between": (
        "a = Conv(x, w) y = Conv(a, v)", ["conv", "conv"],
        {"w": sample(8, 1, 8, 5, 5) / 10, "v": sample(9, 64, 1, 1, 1)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_convolution(name: str) -> None:
    body, expected, weights = CASES[name]
    used = {key: array for key, array in weights.items() if re.search(rf"\b{key}\b", body)}
    check(body, expected, X, used, tolerance=1e-4)
