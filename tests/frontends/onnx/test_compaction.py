"""NonZero, Compress and Unique as native code, against NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tessella
from tessella.dialects.sizes import symbols_in
from tessella.frontends.onnx.importer import OnnxSource
from tessella.runtime.program import Program
from tessella.support.errors import ExecutionError
from tessella.support.sizes import MOST, Symbol
from tests.native import calls

Array = np.ndarray[Any, Any]

DTYPES = ("float32", "float64", "float16", "int64", "int32", "uint8", "bool")


def node(op: str, feeds: dict[str, Array], outputs: str = "y", **settings: Any) -> onnx.ModelProto:
    """A model of a node, whose inputs have fixed sizes; outputs have no declared types."""
    made = helper.make_node(op, [*feeds], outputs.split("|"), **settings)
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), list(array.shape)
        )
        for name, array in feeds.items()
    ]
    given = [
        helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in made.output
    ]
    graph = helper.make_graph([made], "g", inputs, [each for each in given if each.name])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def check(proto: onnx.ModelProto, feeds: dict[str, Array], wanted: Sequence[Array]) -> None:
    """On one thread and on two: the same elements, in native code."""
    compiled = tessella.compile(proto)
    for threads in (1, 2):
        compiled.threads = threads
        found = compiled.run(None, feeds)
        for each, expected in zip(found, wanted, strict=True):
            assert each.dtype == expected.dtype
            np.testing.assert_array_equal(each, expected)
            assert each.flags.c_contiguous
            assert each.flags.writeable
    assert not compiled.explain().coverage.in_numpy


def sparse(shape: tuple[int, ...], dtype: str, seed: int = 1) -> Array:
    """Small numbers, of which half are zero."""
    return np.random.default_rng(seed).integers(-2, 3, shape).clip(0, 2).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_positions_of_each_type(dtype: str) -> None:
    x = sparse((7, 9), dtype)
    check(node("NonZero", {"x": x}), {"x": x}, [np.array(np.nonzero(x))])


@pytest.mark.parametrize("shape", [(1,), (50,), (3, 4, 5), (40, 1000)])
@pytest.mark.parametrize("fill", [0, 1, None])
def test_positions_of_each_rank(shape: tuple[int, ...], fill: int | None) -> None:
    x = sparse(shape, "float32") if fill is None else np.full(shape, fill, np.float32)
    check(node("NonZero", {"x": x}), {"x": x}, [np.array(np.nonzero(x))])


@pytest.mark.parametrize("x", [np.float32(0), np.float32(2)])
def test_positions_of_a_scalar_have_no_coordinates(x: np.float32) -> None:
    feeds = {"x": np.asarray(x)}
    (found,) = tessella.compile(node("NonZero", feeds)).run(None, feeds)
    assert (found.shape, found.dtype) == ((0, int(x != 0)), np.int64)


def test_nan_is_not_zero_and_negative_zero_is() -> None:
    x = np.array([np.nan, -0.0, 0.0, np.inf, -1e-45], np.float32)
    check(node("NonZero", {"x": x}), {"x": x}, [np.array([[0, 3, 4]])])


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("shorter", [0, 2])
def test_what_a_condition_chooses(dtype: str, axis: int | None, shorter: int) -> None:
    x = np.arange(63).reshape(7, 9).astype(dtype)
    length = (63 if axis is None else x.shape[axis]) - shorter
    feeds = {"x": x, "condition": np.random.default_rng(2).random(length) < 0.4}
    settings: dict[str, Any] = {} if axis is None else {"axis": axis}
    wanted = np.compress(feeds["condition"], x, axis)
    check(node("Compress", feeds, **settings), feeds, [wanted])


@pytest.mark.parametrize("value", [False, True])
def test_a_condition_chooses_nothing_or_all(value: bool) -> None:
    x = np.arange(2600, dtype=np.float32).reshape(100, 26)
    feeds = {"x": x, "condition": np.full(100, value)}
    check(node("Compress", feeds, axis=0), feeds, [x if value else x[:0]])


def test_a_condition_that_is_too_long_is_refused_where_it_chooses() -> None:
    x = np.arange(3, dtype=np.float32)
    feeds = {"x": x, "condition": np.array([True, False, True, False])}
    compiled = tessella.compile(node("Compress", feeds))
    np.testing.assert_array_equal(compiled.run(None, feeds)[0], x[[0, 2]])
    feeds["condition"][3] = True
    with pytest.raises(ExecutionError, match="out of range"):
        compiled.run(None, feeds)


def _unique(x: Array, is_sorted: bool) -> list[Array]:
    values, first, inverse, counts = np.unique(x, True, True, True)
    inverse = inverse.reshape(-1)
    if not is_sorted:
        order = np.argsort(first)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
        values = values[order]
    return [values, first, inverse, counts]


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize("shape", [(), (1,), (3, 11), (3000,)])
def test_different_elements(dtype: str, is_sorted: int, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(3).integers(-40, 40, shape).astype(dtype)
    proto = node("Unique", {"x": x}, "y|first|inverse|counts", sorted=is_sorted)
    check(proto, {"x": x}, _unique(x, bool(is_sorted)))


@pytest.mark.parametrize("outputs", ["y", "y|||counts", "y||inverse", "y|first"])
@pytest.mark.parametrize("is_sorted", [0, 1])
def test_some_results_of_unique(outputs: str, is_sorted: int) -> None:
    x = np.random.default_rng(4).integers(0, 50, 90)
    names = outputs.split("|")
    wanted = [each for name, each in zip(names, _unique(x, bool(is_sorted)), strict=False) if name]
    check(node("Unique", {"x": x}, outputs, axis=0, sorted=is_sorted), {"x": x}, wanted)


@pytest.mark.parametrize("is_sorted", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_nan_is_one_element_and_zeros_are_one(dtype: str, is_sorted: int) -> None:
    x = np.array([np.nan, 0.0, -1, -0.0, np.inf, np.nan, -np.inf, 0.0, -1], dtype)
    proto = node("Unique", {"x": x}, "y|first|inverse|counts", sorted=is_sorted)
    wanted = _unique(x, bool(is_sorted))
    check(proto, {"x": x}, wanted)
    y = tessella.compile(proto).run(None, {"x": x})[0]
    np.testing.assert_array_equal(np.signbit(y), np.signbit(x[wanted[1]]))


@pytest.mark.parametrize("settings", [{}, {"dims": {}}, {"dims": {"n": (1, 300)}}])
def test_open_sizes(settings: dict[str, Any]) -> None:
    nodes = [
        helper.make_node("Unique", ["x"], ["u", "first", "which", "many"], sorted=0),
        helper.make_node("Greater", ["x", "zero"], ["positive"]),
        helper.make_node("Compress", ["x", "positive"], ["c"]),
        helper.make_node("NonZero", ["x"], ["n"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
    names = ("u", "first", "which", "many", "c", "n")
    given = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in names]
    zero = onnx.numpy_helper.from_array(np.zeros((), np.float32), "zero")
    graph = helper.make_graph(nodes, "g", [x], given, [zero])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    compiled = tessella.compile(proto, **settings)
    for size in (5, 40, 1, 300, 41):
        values = np.random.default_rng(size).integers(-9, 9, size).astype(np.float32)
        wanted = [*_unique(values, False), values[values > 0], np.array(np.nonzero(values))]
        for found, expected in zip(compiled.run(None, {"x": values}), wanted, strict=True):
            np.testing.assert_array_equal(found, expected)


def test_a_count_is_a_size() -> None:
    """The bounds of a product of sizes may exceed those of a size."""
    proto = node("NonZero", {"x": np.zeros((2, 3), np.float32)})
    for dim, name in zip(proto.graph.input[0].type.tensor_type.shape.dim, "ab", strict=True):
        dim.dim_param = name
    sizes = tuple(Symbol(name, 2, MOST).size for name in "ab")
    module = OnnxSource(proto).graph({"x": sizes}).module
    assert symbols_in(module)[-1] == Symbol("count_0", 0, MOST)


def test_results_share_no_memory() -> None:
    """A call does not write to the results of earlier calls."""
    x = sparse((300, 40), "float32")
    compiled = tessella.compile(node("NonZero", {"x": x}))
    first = compiled.run(None, {"x": x})[0]
    kept = first.copy()
    compiled.run(None, {"x": 1 - x})
    np.testing.assert_array_equal(first, kept)


def test_what_shares_memory_before_it_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays are compared only where a step may return what another value is."""
    x, mask = np.arange(12, dtype=np.float32).reshape(4, 3), np.array([True, True, True, False])
    feeds = {"x": x, "mask": mask}
    alone = tessella.compile(node("Compress", feeds, axis=0))
    twice = node("Compress", feeds, axis=0)
    again = helper.make_node("Compress", ["x", "mask"], ["z"], axis=0)
    twice.graph.node.append(again)
    twice.graph.output.append(helper.make_tensor_value_info("z", TensorProto.UNDEFINED, None))
    both = tessella.compile(twice)
    calls: list[object] = []
    owned = Program._owned
    monkeypatch.setattr(Program, "_owned", lambda *a: calls.append(a) or owned(*a))
    for _ in range(3):
        (kept,) = alone.run(None, feeds)
        (other,) = alone.run(None, feeds)
        kept[...] = 7
        np.testing.assert_array_equal(other, x[:3])
        assert not np.shares_memory(kept, other)
    assert not calls
    y, z = both.run(None, feeds)
    y[...] = 7
    np.testing.assert_array_equal(z, x[:3])


def test_the_overhead_of_a_count() -> None:
    """The number of functions that a warm call runs with a size that it computes, beside those of a
    call without one. `bench.ops` measures the time."""
    x = sparse((40, 5), "float32")
    chosen = np.arange(40) % 3 == 0
    plain = tessella.compile(node("Abs", {"x": x}), threads=1)
    plain(x)
    own = calls(lambda: plain(x))
    for proto, arrays in (
        (node("NonZero", {"x": x}), [x]),
        (node("Compress", {"x": x, "chosen": chosen}, axis=0), [x, chosen]),
    ):
        model = tessella.compile(proto, threads=1)
        model(*arrays)
        assert calls(lambda model=model, arrays=arrays: model(*arrays)) < own + 12
