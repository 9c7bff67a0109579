"""Layers of neural networks, and networks of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessella
from tessella.support.errors import ShapeError
from tests.frontends.trace.checks import Array, agrees, array
from tests.sampling import sampled

Pair = tuple[int, int]

FULL: Any = "full"


def windows(x: Array, kernel: Pair, strides: Pair, pads: list[Pair], dilation: Pair, fill: float):
    """All windows of a padded x[N, C, H, W], as [N, C, Y, X, I, J]."""
    padded = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    views = np.lib.stride_tricks.sliding_window_view(padded, reach, (2, 3))
    return views[:, :, :: strides[0], :: strides[1], :: dilation[0], :: dilation[1]]


def convolution(
    x: Array,
    w: Array,
    strides: Pair = (1, 1),
    pads: list[Pair] | None = None,
    dilation: Pair = (1, 1),
    groups: int = 1,
) -> Array:
    parts = windows(x, w.shape[2:], strides, pads or [(0, 0)] * 2, dilation, 0).astype(float)
    images, weights = np.split(parts, groups, axis=1), np.split(w.astype(float), groups)
    results = [np.einsum("ncyxij,ocij->noyx", p, q) for p, q in zip(images, weights, strict=True)]
    return np.concatenate(results, axis=1).astype(x.dtype)


@settings(max_examples=sampled(15))
@given(
    sizes=st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(5, 8), st.integers(5, 8)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    pads=st.tuples(*[st.tuples(st.integers(0, 2), st.integers(0, 2))] * 2),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    groups=st.integers(1, 2),
)
def test_conv2d(
    sizes: tuple[int, int, int, int],
    kernel: Pair,
    strides: Pair,
    pads: tuple[Pair, Pair],
    dilation: Pair,
    groups: int,
) -> None:
    x = array((sizes[0], sizes[1] * groups, *sizes[2:]))
    w = array((2 * groups, sizes[1], *kernel), seed=1)
    options: dict[str, Any] = {"strides": strides, "dilation": dilation, "groups": groups}
    agrees(
        lambda x, w: tessella.conv2d(x, w, padding=pads, **options) / 8,
        x,
        w,
        reference=lambda x, w: convolution(x, w, pads=list(pads), **options) / 8,
    )


@pytest.mark.sweep
@pytest.mark.parametrize("size", [5, 6, 7])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_same_padding(size: int, stride: int, dilation: int) -> None:
    x, w = array((1, 2, size, size)), array((3, 2, 3, 3))
    convolve = tessella.jit(
        lambda x, w: tessella.conv2d(x, w, strides=stride, padding="same", dilation=dilation)
    )
    assert convolve(x, w).shape == (1, 3, -(-size // stride), -(-size // stride))
    if stride == 1:
        pads = [(dilation, dilation)] * 2
        want = convolution(x, w, pads=pads, dilation=(dilation, dilation))
        np.testing.assert_allclose(convolve(x, w), want, rtol=1e-4, atol=1e-4)


def test_padding_of_every_form() -> None:
    x, w, b = array((1, 2, 5, 6)), array((3, 2, 3, 2)), array((3,))
    forms: dict[Any, list[Pair]] = {
        0: [(0, 0), (0, 0)],
        "valid": [(0, 0), (0, 0)],
        2: [(2, 2), (2, 2)],
        (1, 2): [(1, 1), (2, 2)],
        ((0, 1), (2, 3)): [(0, 1), (2, 3)],
        "same": [(1, 1), (0, 1)],
    }
    for form, pads in forms.items():
        got = tessella.jit(lambda x, w, b, form=form: tessella.conv2d(x, w, b, padding=form))
        want = convolution(x, w, pads=pads) + b[:, None, None]
        np.testing.assert_allclose(got(x, w, b), want, rtol=1e-4, atol=1e-4)


@settings(max_examples=sampled(8))
@given(
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    strides=st.none() | st.tuples(st.integers(1, 3), st.integers(1, 3)),
    pad=st.integers(0, 1),
)
def test_pooling(kernel: Pair, strides: Pair | None, pad: int) -> None:
    pad = min(pad, *(k // 2 for k in kernel))
    x = array((2, 3, 7, 8))
    steps = strides or kernel

    def parts(fill: float) -> Array:
        return windows(x, kernel, steps, [(pad, pad)] * 2, (1, 1), fill)

    agrees(
        lambda x: tessella.max_pool2d(x, kernel, strides, pad),
        x,
        reference=lambda x: parts(-np.inf).max((4, 5)),
    )
    agrees(
        lambda x: tessella.avg_pool2d(x, kernel, strides, pad),
        x,
        reference=lambda x: parts(0).mean((4, 5)),
    )
    agrees(
        lambda x: tessella.avg_pool2d(x, kernel, strides, pad, count_include_pad=False),
        x,
        reference=lambda x: np.nanmean(parts(np.nan), (4, 5)),
    )


def test_pooling_with_an_incomplete_window() -> None:
    x = array((1, 1, 5, 5))
    pool = tessella.jit(lambda x: tessella.max_pool2d(x, 2, ceil_mode=True))
    assert pool(x).shape == (1, 1, 3, 3)
    assert pool(x)[0, 0, 2, 2] == x[0, 0, 4, 4]


def layer_norm(x: Array, axes: tuple[int, ...]) -> Array:
    exact = x.astype(float)
    centred = exact - exact.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-5)


@pytest.mark.parametrize("axis", [-1, 1, -3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_layer_norm(axis: int, dtype: str) -> None:
    x = array((3, 4, 5), dtype)
    axes = tuple(range(axis % 3, 3))
    scale, bias = (array(x.shape[axes[0] :], dtype, seed) for seed in (1, 2))

    def want(x: Array, scale: Array, bias: Array) -> Array:
        return (layer_norm(x, axes) * scale + bias).astype(dtype)

    def plain(x: Array, *_: Array) -> Array:
        return layer_norm(x, axes).astype(dtype)

    def shifted(x: Array, _: Array, bias: Array) -> Array:
        return (layer_norm(x, axes) + bias).astype(dtype)

    agrees(lambda x, s, b: tessella.layer_norm(x, s, b, axis), x, scale, bias, reference=want)
    agrees(lambda x, s, b: tessella.layer_norm(x, axis=axis), x, scale, bias, reference=plain)
    agrees(
        lambda x, s, b: tessella.layer_norm(x, bias=b, axis=axis), x, scale, bias, reference=shifted
    )


@pytest.mark.parametrize(
    "call, what",
    [
        (lambda x: tessella.conv2d(x, np.ones((2, 2))), "the weights of conv2d must be"),
        (lambda x: tessella.conv2d(x, np.ones((1, 9, 3, 3))), "channels do not fit"),
        (lambda x: tessella.conv2d(x, np.ones((1, 2, 3, 3)), padding=FULL), "unknown padding"),
        (lambda x: tessella.conv2d(x, np.ones((1, 2, 3, 3)), padding=(1, 2, 3)), "wrong form"),
        (lambda x: tessella.conv2d(x, np.ones((1, 2, 3, 3)), strides=(1, 2, 3)), "strides"),
        (lambda x: tessella.max_pool2d(x[0], 2), "a pooling takes images"),
        (lambda x: tessella.layer_norm(x, np.ones(7)), "does not broadcast"),
    ],
)
def test_wrong_shapes(call: Any, what: str) -> None:
    with pytest.raises(ShapeError, match=what):
        tessella.jit(call)(array((1, 2, 5, 5)))


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def test_a_perceptron() -> None:
    x, w1, w2 = array((5, 7)), array((7, 16), seed=1) / 8, array((16, 3), seed=2) / 8
    b1, b2 = array((16,)), array((3,))

    @tessella.jit
    def perceptron(layers: list[dict[str, Array]], x: Array) -> Array:
        for layer in layers[:-1]:
            x = np.tanh(x @ layer["w"] + layer["b"])
        return x @ layers[-1]["w"] + layers[-1]["b"]

    got = perceptron([{"w": w1, "b": b1}, {"w": w2, "b": b2}], x)
    np.testing.assert_allclose(got, np.tanh(x @ w1 + b1) @ w2 + b2, rtol=1e-5, atol=1e-5)


def test_attention_in_heads() -> None:
    x, w = array((2, 6, 8)), array((3, 8, 8), seed=1) / 8
    mask = np.triu(np.full((6, 6), -np.inf, np.float32), 1)

    def attention(x: Any, w: Any) -> Any:
        def heads(v: Any) -> Any:
            return v.reshape(2, 6, 2, 4).transpose(0, 2, 1, 3)

        q, k, v = (heads(x @ w[i]) for i in range(3))
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(np.float32(4)) + mask
        weights = tessella.softmax(scores) if not isinstance(x, np.ndarray) else softmax(scores)
        return (weights @ v).transpose(0, 2, 1, 3).reshape(x.shape)

    agrees(attention, x, w)


def test_a_convolutional_block() -> None:
    x, w, scale = array((2, 4, 8, 8)), array((4, 4, 3, 3), seed=1) / 8, array((4,), seed=2)

    @tessella.jit
    def block(x: Array, w: Array, scale: Array) -> Array:
        y = tessella.relu(tessella.conv2d(x, w, padding="same") * scale[:, None, None])
        return tessella.mean(tessella.max_pool2d(y + x, 2), axis=(2, 3))

    y = np.maximum(convolution(x, w, pads=[(1, 1), (1, 1)]) * scale[:, None, None], 0) + x
    want = windows(y, (2, 2), (2, 2), [(0, 0)] * 2, (1, 1), 0).max((4, 5)).mean((2, 3))
    np.testing.assert_allclose(block(x, w, scale), want, rtol=1e-5, atol=1e-5)


def test_layer_norm_in_numpys_words() -> None:
    def norm(x: Array) -> Array:
        centred = x - np.mean(x, axis=-1, keepdims=True)
        return centred / np.sqrt(np.mean(np.square(centred), axis=-1, keepdims=True) + 1e-5)

    agrees(norm, array((4, 16)))
