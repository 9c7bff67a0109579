"""Reductions of no elements, of one, of special values, and beyond the range of integers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from tests.frontends.onnx.semantics.case import Array, Case
from tests.frontends.onnx.semantics.edges import edges
from tests.native import normal

_OPS = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
    "ReduceSum ReduceSumSquare"
).split()
_INF, _NAN = np.inf, np.nan
_ROWS = np.array(
    [[_INF, 1, 2], [-_INF, 1, 2], [_NAN, 1, 2], [_INF, -_INF, 0], [0.0, -0.0, -0.0],
     [1e-45, 1e-45, -1e-45], [88, 89, 90], [-200, -300, -400]],
    np.float32,
)  # fmt: skip
_SHAPES = (((3, 0, 2), [1]), ((3, 0, 2), [0]), ((0,), [0]), ((2, 3), []), ((2, 0), [0, 1]))
_INTEGERS = (np.int32, np.int64, np.uint32, np.uint64)


def _squares(x: Array, axes: Array) -> Array:
    """Sums of squares in the type of the elements, where the reference has 64 bits."""
    return np.sum(x * x, axis=tuple(axes), dtype=x.dtype)


def _reductions() -> Iterator[Case]:
    for op in _OPS:
        for (shape, axes), kept in product(_SHAPES, (0, 1)):
            operands = [normal(*shape), np.array(axes, np.int64)]
            yield Case(op, operands, {"keepdims": kept}, fixed=(1,))
        yield Case(op, [normal(2, 3)], {"noop_with_empty_axes": 1})
        yield Case(op, [normal(2, 3)])
        for x, axis in ((_ROWS, 1), (np.ascontiguousarray(_ROWS.T), 0)):
            yield Case(op, [x, np.array([axis])], {"keepdims": 0}, fixed=(1,))
        if op in ("ReduceLogSum", "ReduceLogSumExp", "ReduceMean"):
            continue  # of floats, and docs/operators.md tells of the mean
        for dtype in _INTEGERS:
            x = edges(np.dtype(dtype))
            x = np.stack([x, x[::-1], np.roll(x, 3)], 1)
            oracle = _squares if op == "ReduceSumSquare" else None
            for rows in (x, np.zeros((2, 0), dtype)):
                operands = [rows, np.array([1])]
                yield Case(op, operands, {"keepdims": 0}, fixed=(1,), wanted=oracle)
    for op, dtype in product(("ReduceMax", "ReduceMin"), (np.int8, np.uint8, np.bool_)):
        x = edges(np.dtype(dtype))
        yield Case(op, [np.stack([x, x[::-1]], 1), np.array([1])], fixed=(1,))
        yield Case(op, [np.zeros((2, 0), dtype), np.array([1])], fixed=(1,))


def _places() -> Iterator[Case]:
    floats = np.array(
        [[1, 3, 3, -_INF], [-0.0, 0.0, -0.0, 0.0], [_NAN, 1, _NAN, 5], [-_INF] * 4], np.float32
    )
    bytes_ = np.array([[1, 3, 3, -128], [127, 127, -128, -128]], np.int8)
    for op, last, axis in product(("ArgMax", "ArgMin"), (0, 1), (0, 1)):
        settings = {"axis": axis, "select_last_index": last}
        yield Case(op, [floats], settings)
        yield Case(op, [bytes_], settings)
        yield Case(op, [normal(3, 0, 2)], {"axis": 0})
    for largest, is_sorted in product((0, 1), (0, 1)):
        settings = {"largest": largest, "sorted": is_sorted}
        for k in (0, 1, 4):
            count = np.array([k])
            for x in (
                floats[[0, 1, 3]],
                bytes_,
                np.array([[2**64 - 1, 0, 2**63, 2**64 - 1]], np.uint64),
            ):
                yield Case("TopK", [x, count], settings, fixed=(1,), outputs=2)
        none = np.zeros((3, 0), np.float32)
        yield Case("TopK", [none, np.array([0])], settings, fixed=(1,), outputs=2)
        yield Case("TopK", [none.T, np.array([2])], settings, fixed=(1,), outputs=2)


def _cumulative() -> Iterator[Case]:
    floats = np.array([[1, _INF, 2, -_INF], [-0.0, -0.0, 0, 1], [_NAN, 1, 0, 2]], np.float32)
    for op, exclusive, reverse in product(("CumSum", "CumProd"), (0, 1), (0, 1)):
        settings = {"exclusive": exclusive, "reverse": reverse}
        for x in (
            floats,
            np.array([[2**31 - 1, 2, 3], [-(2**31), -1, 5]], np.int32),
            np.zeros((2, 0, 3), np.float32),
            normal(3, 1),
        ):
            yield Case(op, [x, np.array(1)], settings, fixed=(1,))


def cases() -> Iterator[Case]:
    """All reductions."""
    yield from _reductions()
    yield from _places()
    yield from _cumulative()
