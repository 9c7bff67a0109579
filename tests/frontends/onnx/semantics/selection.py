"""Ops with operands that broadcast to no elements, selections and shifts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.frontends.onnx.semantics.case import Case
from tests.frontends.onnx.semantics.edges import ELEMENTS, edges
from tests.native import normal


def cases() -> Iterator[Case]:
    """A few elementwise ops for each element; the others are alike."""
    for dtype in ELEMENTS.values():
        x = edges(dtype)
        condition = np.array([[True], [False]])
        yield Case("Where", [condition, x, x[::-1].copy()], signed=True)
        yield Case("Where", [np.zeros((0, 1), np.bool_), x, x])
        yield Case("Where", [np.array(True), x, x[0].reshape(())], signed=True)
        yield Case("Equal", [np.zeros((0, 1), dtype), x])
        if dtype == np.bool_:
            continue
        for op in ("Add", "Mul"):
            yield Case(op, [np.zeros((0, 1), dtype), x])
            yield Case(op, [np.zeros((2, 0), dtype), np.array(1, dtype)])
            yield Case(op, [np.array(1, dtype), np.array(3, dtype)])
        for op in ("Max", "Min"):
            yield Case(op, [x])
            yield Case(op, [x[:, None], x, x[::-1].copy()])
        if dtype.kind == "u":
            width = 8 * dtype.itemsize
            counts = np.array([0, 1, width - 1, width, width + 1, 2 * width, 255], dtype)
            for direction in ("LEFT", "RIGHT"):
                yield Case("BitShift", [x[:, None], counts], {"direction": direction})
    for dtype in (np.float32, np.int32):
        base = np.array([2, 3, -2, 0, 1, 9], dtype)
        for other in (np.int64, np.int32, np.float32, np.float64):
            yield Case("Pow", [base, np.array([0, 1, 2, 5, 3, 2], other)])
        yield Case("Pow", [np.zeros((0, 2), dtype), np.array(2, np.float32)])
    yield Case("PRelu", [np.zeros((0, 3), np.float32), np.ones(3, np.float32)])
    yield Case("Dropout", [normal(3), np.array(0.0, np.float32), np.array(True)], outputs=2)
