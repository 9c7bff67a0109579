"""Ops that read and write elements at indices: negative and repeated ones, none, and none of the
elements."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from tests.frontends.onnx.semantics.case import Array, Case
from tests.frontends.onnx.semantics.edges import edges
from tests.native import normal


def _ints(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def _indices(*shape: int) -> Array:
    return np.zeros(shape, np.int64)


def _gathers() -> Iterator[Case]:
    x = normal(3, 5)
    for axis in (0, -1):
        for at in (_ints(-3, 2, 0, -1), _indices(0, 2), np.array(-2, np.int32)):
            yield Case("Gather", [x, at], {"axis": axis})
    yield Case("Gather", [normal(0, 4), _indices(0)])
    yield Case("Gather", [normal(0, 4), _ints(1, -4)], {"axis": 1})
    yield Case("GatherElements", [x, np.array([[0, -1], [-3, 2], [1, 0]])], {"axis": 1})
    yield Case("GatherElements", [x, _indices(0, 5)], {"axis": 0})
    yield Case("GatherElements", [normal(0, 5), _indices(0, 5)], {"axis": 0})
    for at in (np.array([[-3, -5], [2, 4]]), _indices(0, 2), _indices(0, 1)):
        yield Case("GatherND", [x, at])
    yield Case("GatherND", [x, np.array([[-1], [0], [4]])], {"batch_dims": 1})


def _scatters() -> Iterator[Case]:
    reductions = ("none", "add", "mul", "max", "min")
    for reduction, dtype in product(reductions, (np.float32, np.int32, np.int8, np.uint64)):
        most = edges(np.dtype(dtype)).max() if dtype is not np.float32 else 3e38
        x, updates = np.array([1, 2, most, 0], dtype), np.array([most, 5, most, 7], dtype)
        once, again = _ints(-1, 0, 2, -3), _ints(1, 1, 1, 1)
        for at in (once,) if reduction == "none" else (once, again):
            settings = {"reduction": reduction}
            yield Case("ScatterElements", [x, at, updates], {"axis": 0, **settings})
            yield Case("ScatterND", [x, at[:, None], updates], settings)
    for reduction in reductions:
        settings = {"reduction": reduction}
        yield Case("ScatterND", [normal(0, 4), _indices(0, 1), normal(0, 4)], settings)
        yield Case("ScatterND", [normal(3, 5), _indices(0, 1), normal(0, 5)], settings)
        yield Case("ScatterElements", [normal(3, 5), _indices(0, 5), normal(0, 5)], settings)
        yield Case("ScatterElements", [normal(0, 4), _indices(0, 4), normal(0, 4)], settings)
    linear, circular = ({"mode": mode} for mode in ("linear", "circular"))
    cache = normal(2, 1, 4, 3)
    yield Case("TensorScatter", [cache, normal(2, 1, 0, 3), _ints(4, 0)], linear)
    yield Case("TensorScatter", [cache, normal(2, 1, 4, 3), _ints(0, 0)], linear)
    yield Case("TensorScatter", [cache, normal(2, 1, 3, 3), _ints(3, 2)], circular)


def cases() -> Iterator[Case]:
    """All reads and writes."""
    yield from _gathers()
    yield from _scatters()
    values = np.array([2, 9], np.float32)
    for axis in (-1, 0):
        yield Case("OneHot", [_ints(0, -1), np.array(0), values], {"axis": axis}, fixed=(1,))
    for axis in (-1, 0, 1):
        for at in (_ints(0, -1, 5, -5, -6, 6, 99, -99), _indices(0), np.array([0, 255], np.uint8)):
            yield Case("OneHot", [at, np.array(5), values], {"axis": axis}, fixed=(1,))
