"""Activation functions as exporters and people spell them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.patterns.spelling import check, kernels_of, sample

SPELLINGS = {
    "gelu: half after": (
        "gelu",
        "a = Div(x, 1.4142135f) b = Erf(a) c = Add(b, 1.0f) d = Mul(x, c) y = Mul(d, 0.5f)",
    ),
    "gelu: half of the sum": (
        "gelu",
        "a = Div(x, 1.4142135f) b = Erf(a) c = Add(1.0f, b) d = Mul(0.5f, c) y = Mul(x, d)",
    ),
    "gelu: half of x": (
        "gelu",
        "a = Mul(x, 0.70710677f) b = Erf(a) c = Add(b, 1.0f) d = Div(x, 2.0f) y = Mul(c, d)",
    ),
    "gelu_tanh: a power": (
        "gelu_tanh",
        "p = Pow(x, 3.0f) a = Mul(p, 0.044715f) b = Add(x, a) c = Mul(b, 0.7978846f) d = Tanh(c) "
        "e = Add(d, 1.0f) f = Mul(x, 0.5f) y = Mul(f, e)",
    ),
    "gelu_tanh: products": (
        "gelu_tanh",
        "p = Mul(x, x) q = Mul(x, p) a = Mul(0.044715f, q) b = Add(x, a) c = Mul(0.7978846f, b) "
        "d = Tanh(c) e = Add(1.0f, d) f = Mul(x, e) y = Mul(0.5f, f)",
    ),
    "gelu_tanh: x taken out": (
        "gelu_tanh",
        "p = Mul(x, 0.044715f) q = Mul(p, x) a = Add(1.0f, q) b = Mul(x, 0.7978846f) c = Mul(b, a) "
        "d = Tanh(c) e = Add(d, 1.0f) f = Mul(0.5f, e) y = Mul(x, f)",
    ),
    "silu": ("silu", "a = Sigmoid(x) y = Mul(x, a)"),
    "mish": ("mish", "a = Softplus(x) b = Tanh(a) y = Mul(x, b)"),
    "hard_swish: relu6": (
        "hard_swish",
        "a = Add(x, 3.0f) b = Clip(a, 0.0f, 6.0f) c = Mul(x, b) y = Div(c, 6.0f)",
    ),
    "hard_swish: min and max": (
        "hard_swish",
        "a = Add(x, 3.0f) b = Max(a, 0.0f) c = Min(b, 6.0f) d = Div(c, 6.0f) y = Mul(d, x)",
    ),
    "hard_swish: hard sigmoid": (
        "hard_swish",
        "a = HardSigmoid <alpha = 0.16666667, beta = 0.5> (x) y = Mul(x, a)",
    ),
    "relu": ("relu", "y = Max(x, 0.0f)"),
    "clip": ("clip", "a = Max(x, -0.5f) y = Min(a, 1.0f)"),
    "leaky_relu: max": ("leaky_relu", "a = Mul(x, 0.1f) y = Max(x, a)"),
    "leaky_relu: where": (
        "leaky_relu",
        "a = Less(x, 0.0f) b = Mul(x, 0.1f) y = Where(a, b, x)",
    ),
    "leaky_relu: PRelu": ("leaky_relu", "y = PRelu(x, 0.1f)"),
    "two scales": ("mul", "a = Mul(x, 3.0f) y = Mul(a, 0.7f)"),
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_spelling(name: str) -> None:
    op, body = SPELLINGS[name]
    check(body, [op], {"x": 4 * sample(0, 3, 5, 7)})


def test_the_two_gelus_are_apart() -> None:
    """They differ by more than rounding."""
    x = {"x": np.linspace(-5, 5, 1001, dtype=np.float32)}
    exact, tanh = (
        check(SPELLINGS[name][1], [name.split(":")[0]], x).run(None, x)[0]
        for name in ("gelu: half after", "gelu_tanh: a power")
    )
    assert 1e-4 < np.abs(exact - tanh).max() < 1e-3


def test_special_values() -> None:
    x = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-38, -1e-38, 3e38], np.float32)
    for name in ("relu", "clip", "leaky_relu: max", "leaky_relu: where", "two scales"):
        op, body = SPELLINGS[name]
        check(body, [op], {"x": x})


CONV = "t = Conv <pads = [1, 1, 1, 1]> (image, w, bias) "
NORM = "s = BatchNormalization (t, scale, shift, mean, variance) "
IMAGE = {"image": sample(1, 1, 8, 6, 6)}
SKIP = {"skip": sample(2, 1, 8, 6, 6)}
WEIGHTS = {
    "w": sample(3, 8, 8, 3, 3),
    "bias": sample(4, 8),
    "scale": sample(5, 8),
    "shift": sample(6, 8),
    "mean": sample(7, 8),
    "variance": np.abs(sample(8, 8)) + np.float32(0.5),
}


ONE_OF_EACH = list({op: name for name, (op, _) in SPELLINGS.items()}.values())


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_convolution_with_norm_and_activation_is_one_kernel(name: str) -> None:
    op, activation = SPELLINGS[name]
    expected = ["conv"] if name == "two scales" else ["conv", op]
    model = check(CONV + NORM + f"x = Identity(s) {activation}", expected, IMAGE, WEIGHTS)
    assert len(kernels_of(model)) == 1


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_residual_and_activation_are_one_kernel(name: str) -> None:
    op, activation = SPELLINGS[name]
    body = CONV + NORM + f"x = Add(s, skip) {activation}"
    model = check(body, ["conv", "add", op], IMAGE | SKIP, WEIGHTS, tolerance=1e-4)
    assert len(kernels_of(model)) == 1
