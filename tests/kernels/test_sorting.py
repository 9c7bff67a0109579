"""Selections along an axis against NumPy, by every method and for every vector width that runs
here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import tessella
from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.driver.build.compile_graph import compile_graph
from tessella.driver.options import make_options
from tessella.support.elements import ELEMENTS
from tests.frontends.onnx.models import model, value
from tests.lowering.test_threads import check_bits
from tests.native import EVERYWHERE, GraphBuilder, build

# shape, axis, k, method
CASES: list[tuple[tuple[int, ...], int, int, str]] = [
    ((5, 1000), 1, 1, "insertion"),
    ((3, 257), 1, 9, "insertion"),
    ((40,), 0, 40, "insertion"),
    ((2, 300, 21), 1, 3, "interleaved"),
    ((3, 70, 5), 1, 7, "insertion"),
    ((2, 3000), 1, 2000, "radix"),
    ((1500, 2), 0, 1500, "radix"),
]
DTYPES = ("float32", "float64", "float16", "int8", "uint8", "int32", "uint32", "int64")


def _drawn(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray[Any, Any]:
    """Elements with many equal ones; of floats also zeros of both signs, infinities and NaN."""
    rng = np.random.default_rng(seed)
    info = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else None
    x = rng.integers(0 if dtype.startswith("u") else -50, 50, shape).astype(dtype)
    special = (
        (np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0) if info is None else (info.min, info.max)
    )
    x.reshape(-1)[rng.permutation(x.size)[: 3 * len(special)]] = np.tile(special, 3)
    return x


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("target", EVERYWHERE)
def test_the_first_of_each_row(
    case: tuple[tuple[int, ...], int, int, str], dtype: str, largest: bool, target: str
) -> None:
    shape, axis, k, method = case
    x = _drawn(shape, dtype, seed=k)

    def make() -> Graph:
        g = GraphBuilder(x=x)
        op = nn.TopkOp.make([g.inputs["x"]], k=k, axis=axis, largest=largest)
        g.block.add_op(op)
        return g.graph(op.values, op.indices)

    compiled = build(make, target)
    if ELEMENTS["f32"].bits == 8 * x.itemsize and target == EVERYWHERE[0]:
        assert f"#tile.sorting<{method}" in compiled.as_text("tile")
    values, places = compiled.run(None, {"x": x})
    expected = _places(x, axis, k, largest)
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, axis))


def _places(x: np.ndarray[Any, Any], axis: int, k: int, largest: bool) -> np.ndarray[Any, Any]:
    """Return positions by a stable sort of ranks, in which NaN is the greatest and zeros are
    equal."""
    ranks = np.unique(x, return_inverse=True)[1].reshape(x.shape)
    order = np.argsort(-ranks if largest else ranks, axis=axis, kind="stable")
    return np.take(order, range(k), axis)


# shape, axis, k, method
DIVIDED: list[tuple[tuple[int, ...], int, int, str]] = [
    ((37, 500), 1, 3, "insertion"),
    ((5, 300, 43), 1, 3, "interleaved"),
    ((9, 3000), 1, 3000, "radix"),
    ((3, 900, 2), 1, 900, "radix"),
]


@pytest.mark.usefixtures("divide_all")
@pytest.mark.parametrize("shape, axis, k, method", DIVIDED)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_threads_divide_the_rows(
    shape: tuple[int, ...],
    axis: int,
    k: int,
    method: str,
    dtype: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Threads sort rows in any order and at the same time, each with memory of its own."""
    x = _drawn(shape, dtype, seed=k)
    g = GraphBuilder(x=x)
    op = nn.TopkOp.make([g.inputs["x"]], k=k, axis=axis, largest=True)
    g.block.add_op(op)
    program = compile_graph(g.graph(op.values, op.indices), make_options()).program
    assert any(getattr(step, "shared", False) for step in program.steps)
    np.testing.assert_array_equal(program.run([x], 2)[1], _places(x, axis, k, largest=True))
    check_bits(program, [x], monkeypatch)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_open_rows_and_columns(axis: int, largest: int) -> None:
    """The first few, and all: with buffers that have room for what a call has."""
    few = model(
        [helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=axis, largest=largest)],
        [value("x", ["n", "m"])],
        [value("v", None), value("i", None, np.int64)],
        weights={"k": np.array([2])},
        opset=17,
    )
    whole = model(
        [
            helper.make_node("Shape", ["x"], ["s"], start=axis, end=axis + 1),
            helper.make_node("TopK", ["x", "s"], ["v", "i"], axis=axis, largest=largest),
        ],
        [value("x", ["n", "m"])],
        [value("v", None), value("i", None, np.int64)],
        opset=17,
    )
    for proto, count in ((few, 2), (whole, None)):
        compiled = tessella.compile(proto, dims={})
        for shape in ((5, 7), (40, 300), (2, 33), (300, 17), (64, 2)):
            x = _drawn(shape, "float32", seed=shape[0]) if min(shape) > 4 else _few(shape)
            values, places = compiled.run(None, {"x": x})
            k = shape[axis] if count is None else count
            expected = _places(x, axis, k, bool(largest))
            np.testing.assert_array_equal(places, expected)
            np.testing.assert_array_equal(values, np.take_along_axis(x, expected, axis))
        assert "tile.sort" in compiled.as_text("tile")
        assert not compiled.explain().coverage.in_numpy


def _few(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).integers(-3, 3, shape).astype(np.float32)
