"""Products of no elements, of special values, and beyond the range of integers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from tests.frontends.onnx.semantics.case import Array, Case
from tests.native import normal

_SHAPES = (
    *(((2, 0), (0, 3)), ((0, 4), (4, 3)), ((2, 4), (4, 0)), ((0,), (0,)), ((3, 2, 0), (0, 4))),
    *(((0, 2, 3), (0, 3, 4)), ((1, 2, 3), (5, 3, 4)), ((3,), (2, 3, 4)), ((2, 4, 3), (3,))),
)
_EQUATIONS = (
    *(("ij,jk->ik", ((2, 0), (0, 3))), ("ij->", ((2, 0),)), ("i,j->ij", ((0,), (3,)))),
    *(("ii->i", ((0, 0),)), ("i,i->", ((0,), (0,))), ("...,...", ((3,), (2, 3)))),
)


def _large(x: Array) -> Array:
    return (x * 1e9).astype(np.int32)


def _products() -> Iterator[Case]:
    for a, b in _SHAPES:
        yield Case("MatMul", [normal(*a), normal(*b)])
        yield Case("MatMul", [_large(normal(*a)), _large(normal(*b))])
    x = np.array([[np.inf, 1], [0, np.nan], [1e38, 1e38]], np.float32)
    yield Case("MatMul", [x, np.array([[0, 1, 10], [1, np.inf, 10]], np.float32)])
    factors, sizes = ((1.0, 1.0), (0.0, 1.0), (1.0, 0.0)), ((2, 0, 3), (0, 2, 3), (2, 3, 4))
    for (alpha, beta), (m, k, n) in product(factors, sizes):
        for bias in (None, normal(n), np.array(2.0, np.float32)):
            settings = {"alpha": alpha, "beta": beta}
            yield Case("Gemm", [normal(m, k), normal(k, n), bias], settings)
    for equation, shapes in _EQUATIONS:
        yield Case("Einsum", [normal(*shape) for shape in shapes], {"equation": equation})


def _quantized() -> Iterator[Case]:
    a = np.array([[0, 255, 255], [255, 255, 255]], np.uint8)
    b = np.array([[-128, 127], [-128, 127], [-128, -128]], np.int8)
    for zero in (0, 255):
        for other in (b, b.view(np.uint8)):
            points = [np.array(zero, np.uint8), np.array(other.max(), other.dtype)]
            yield Case("MatMulInteger", [a, other, *points])
    yield Case("MatMulInteger", [np.zeros((2, 0), np.uint8), np.zeros((0, 3), np.int8)])
    for scales in ((1.0, 1.0, 1e-3), (1.0, 1.0, 1e9), (1e-20, 1e-20, 1.0)):
        s = [np.array(scale, np.float32) for scale in scales]
        points = [np.array(3, np.uint8), np.array(0, np.int8), np.array(3, np.uint8)]
        operands = [a, s[0], points[0], b, s[1], points[1], s[2], points[2]]
        yield Case("QLinearMatMul", operands)


def _transforms() -> Iterator[Case]:
    for size in (None, 1, 3, 9):
        length = None if size is None else np.array(size)
        for settings in ({}, {"onesided": 1}, {"inverse": 1}):
            operands = [normal(2, 5, 1), length, np.array(1)]
            yield Case("DFT", operands, settings, fixed=(1, 2), epsilon=1e-5)
    yield Case("DFT", [normal(0, 5, 2), None, np.array(1)], fixed=(2,))
    frames = [normal(1, 9, 1), np.array(4), np.ones(4, np.float32)]
    yield Case("STFT", frames, fixed=(1,), epsilon=1e-5)
    for shape in ((0, 3, 3), (2, 0, 0), (0, 0)):
        yield Case("Det", [normal(*shape)])
    for size in (1e30, 1e-30):
        yield Case("Det", [np.array([[size, 0], [0, size]], np.float32)])


def cases() -> Iterator[Case]:
    """All products."""
    yield from _products()
    yield from _quantized()
    yield from _transforms()
