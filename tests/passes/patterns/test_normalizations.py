"""Normalizations from their pieces, as exporters and people spell them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.patterns.spelling import check, kernels_of, sample

X = {"x": 3 * sample(0, 2, 5, 24) + 1}
PARAMETERS = {"w": sample(1, 24), "b": sample(2, 24)}
MOMENTS = (
    "m = ReduceMean <axes = [-1], keepdims = 1> (x) c = Sub(x, m) q = Pow(c, 2.0f) "
    "v = ReduceMean <axes = [-1], keepdims = 1> (q) e = Add(v, 1e-3f) r = Sqrt(e) "
)
SQUARE = (
    "q = Pow(x, 2.0f) v = ReduceMean <axes = [-1], keepdims = 1> (q) e = Add(v, 1e-3f) r = Sqrt(e) "
)
SPELLINGS = {
    "layer_norm: torch": ("layer_norm", MOMENTS + "u = Div(c, r) s = Mul(u, w) y = Add(s, b)"),
    "layer_norm: scaled first": (
        "layer_norm", MOMENTS + "s = Mul(w, c) u = Div(s, r) y = Add(b, u)",
    ),
    "layer_norm: reciprocal": (
        "layer_norm", MOMENTS + "i = Reciprocal(r) u = Mul(c, i) s = Mul(u, w) y = Add(s, b)",
    ),
    "layer_norm: no bias": ("layer_norm", MOMENTS + "u = Div(c, r) y = Mul(u, w)"),
    "layer_norm: no parameters": ("layer_norm", MOMENTS + "y = Div(c, r)"),
    "layer_norm: TensorFlow": (
        "layer_norm",
        MOMENTS + "i = Reciprocal(r) g = Mul(i, w) s = Mul(x, g) n = Mul(m, g) t = Sub(b, n) "
        "y = Add(s, t)",
    ),
    "rms_norm: reciprocal": ("rms_norm", SQUARE + "i = Reciprocal(r) u = Mul(x, i) y = Mul(w, u)"),
    "rms_norm: one over": ("rms_norm", SQUARE + "i = Div(1.0f, r) u = Mul(x, i) y = Mul(u, w)"),
    "rms_norm: division": ("rms_norm", SQUARE + "u = Div(x, r) y = Mul(u, w)"),
    "rms_norm: no scale": ("rms_norm", SQUARE + "y = Div(x, r)"),
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_spelling(name: str) -> None:
    op, body = SPELLINGS[name]
    model = check(body, [op], X, PARAMETERS, tolerance=1e-4)
    assert len(kernels_of(model)) == 1


GROUPED = (
    "g = Reshape(x, shape) n = InstanceNormalization <epsilon = 1e-3> (g, one, zero) "
    "r = Reshape(n, back) s = Mul(r, w) y = Add(s, b)"
)
IMAGES = {"x": 3 * sample(0, 2, 6, 5, 4) + 1}
OF_GROUPS = {
    "shape": np.array([0, 3, -1]),
    "back": np.array([2, 6, 5, 4]),
    "one": np.ones(3, np.float32),
    "zero": np.zeros(3, np.float32),
}


def test_groups_of_channels() -> None:
    """torch exports this form."""
    parameters = {"w": sample(1, 6, 1, 1), "b": sample(2, 1, 6, 1, 1)}
    model = check(GROUPED, ["group_norm"], IMAGES, OF_GROUPS | parameters, tolerance=1e-4)
    assert len(kernels_of(model)) == 1


@pytest.mark.parametrize("shape", [(2, 6, 1, 1), (6, 5, 1), (4,)], ids=str)
def test_what_is_no_scale_of_channels_stays(shape: tuple[int, ...]) -> None:
    parameters = {"w": sample(1, *shape), "b": sample(2, 6, 1, 1)}
    check(GROUPED, ["group_norm", "mul", "add"], IMAGES, OF_GROUPS | parameters, tolerance=1e-4)


def test_groups_with_a_scale_of_their_own_stay() -> None:
    parameters = {"w": sample(1, 6, 1, 1), "b": sample(2, 6, 1, 1)}
    of_groups = OF_GROUPS | {"one": sample(3, 3)}
    check(GROUPED, ["group_norm", "mul", "add"], IMAGES, of_groups | parameters, tolerance=1e-4)


def test_over_two_axes() -> None:
    body = MOMENTS.replace("[-1]", "[1, 2]") + "u = Div(c, r) s = Mul(u, w) y = Add(s, b)"
    check(body, ["layer_norm"], X, {"w": sample(1, 5, 24), "b": sample(2, 24)}, tolerance=1e-4)


def test_small_variance_needs_epsilon() -> None:
    """A row of equal numbers is 0 times infinity without it."""
    body = MOMENTS + "u = Div(c, r) s = Mul(u, w) y = Add(s, b)"
    check(body, ["layer_norm"], {"x": np.ones((2, 24), np.float32)}, PARAMETERS)


def test_scale_and_bias_of_each_row_stay() -> None:
    body = MOMENTS + "u = Div(c, r) s = Mul(u, w) y = Add(s, b)"
    rows = {"w": sample(1, 5, 1), "b": sample(2, 2, 5, 24)}
    check(body, ["layer_norm", "mul", "add"], X, rows, tolerance=1e-4)


def test_parameters_that_are_computed() -> None:
    body = MOMENTS + "u = Div(c, r) s = Mul(u, w) y = Add(s, b)"
    check(body, ["layer_norm"], X | PARAMETERS, tolerance=1e-4)
