"""Reductions of segments, and writes along an axis, against NumPy; a layer of a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tessella
from tessella.support.errors import ExecutionError, ShapeError, TessellaError
from tests.frontends.trace.checks import DTYPES, Array, agrees, array, same

COUNT = 6
PLACES = np.asarray([4, 0, 4, 1, -2, 0, 3])
"""Numbers of segments, of which two have no values. One counts from the back."""


def _at(ufunc: np.ufunc, start: float) -> Callable[[Any, Any, int], Any]:
    def reference(values: Array, segments: Array, count: int) -> Array:
        dtype = ufunc.reduce(values[:1]).dtype
        shape = (count, *values.shape[segments.ndim :])
        first = start if dtype.kind == "f" or np.isfinite(start) else _limit(dtype, start)
        result = np.full(shape, first, dtype)
        ufunc.at(result, segments, values.astype(dtype))
        return result

    return reference


def _limit(dtype: np.dtype[Any], start: float) -> int:
    if dtype.kind == "b":
        return start > 0
    return int(np.iinfo(dtype).max if start > 0 else np.iinfo(dtype).min)


def _sum(values: Array, segments: Array, count: int) -> Array:
    dtype = np.sum(values[:1]).dtype
    return _at(np.add, 0)(values.astype(dtype), segments, count)


def _prod(values: Array, segments: Array, count: int) -> Array:
    dtype = np.prod(values[:1]).dtype
    return _at(np.multiply, 1)(values.astype(dtype), segments, count)


def _mean(values: Array, segments: Array, count: int) -> Array:
    dtype = np.mean(values[:1]).dtype
    sums = _at(np.add, 0)(values.astype(dtype), segments, count)
    counts = np.maximum(np.bincount(segments.ravel() % count, minlength=count), 1)
    return sums / counts.astype(dtype).reshape((count, *[1] * (sums.ndim - 1)))


REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (tessella.segment_sum, _sum),
    "prod": (tessella.segment_prod, _prod),
    "mean": (tessella.segment_mean, _mean),
    "max": (tessella.segment_max, _at(np.maximum, -np.inf)),
    "min": (tessella.segment_min, _at(np.minimum, np.inf)),
}


@pytest.mark.parametrize("function, reference", REDUCTIONS.values(), ids=REDUCTIONS)
@pytest.mark.parametrize("shape", [(7,), (7, 3)])
def test_reductions(
    function: Callable[..., Any], reference: Callable[..., Any], shape: tuple[int, ...]
) -> None:
    """Compiled, and by NumPy's kernels outside of a trace."""
    agrees(
        lambda x, places: function(x, places, COUNT),
        array(shape),
        PLACES,
        reference=lambda x, places: reference(x, places, COUNT),
    )


@pytest.mark.sweep
@pytest.mark.parametrize("function, reference", REDUCTIONS.values(), ids=REDUCTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type(
    function: Callable[..., Any], reference: Callable[..., Any], dtype: str
) -> None:
    agrees(
        lambda x, places: function(x, places, COUNT),
        array((7, 2), dtype),
        PLACES.astype(np.int32),
        reference=lambda x, places: reference(x, places, COUNT),
    )


def test_segments_of_several_dimensions() -> None:
    agrees(
        lambda x, places: tessella.segment_sum(x, places, 5),
        array((2, 3, 4)),
        np.asarray([[0, 4, 4], [1, 0, 0]]),
        reference=lambda x, places: _sum(x, places, 5),
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_sums_have_the_bits_of_a_loop(threads: int) -> None:
    f = tessella.jit(lambda x, i: tessella.segment_sum(x, i, 40), threads=threads)
    x, places = array((20_000, 8)), np.random.default_rng(0).integers(0, 40, 20_000)
    np.testing.assert_array_equal(f(x, places), _sum(x, places, 40))


def test_open_sizes() -> None:
    """The numbers of values and of segments are symbolic; the number of segments is a size as
    well."""
    f = tessella.jit(lambda x, i, y: y + tessella.segment_sum(x, i, y.shape[0]))
    for count, most in ((20, 5), (33, 7), (2, 3), (50, 9), (1, 1), (0, 4)):
        x, y = array((count, 3)), array((most, 3), seed=1)
        places = np.arange(count) % most
        same(f(x, places, y), y + _sum(x, places, most))
    assert "open, from" in str(f.explain())


@pytest.mark.parametrize("wrong", [-COUNT - 1, COUNT])
def test_what_is_no_segment(wrong: int) -> None:
    f = tessella.jit(lambda x, places: tessella.segment_sum(x, places, COUNT))
    with pytest.raises(ExecutionError, match="out of range"):
        f(array((7,)), np.where(PLACES == 3, wrong, PLACES))


@pytest.mark.parametrize("shape", [(6,), (), (3, 7)])
def test_segments_that_are_not_those_of_the_values(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="the segments are not those of the values"):
        tessella.jit(lambda x, i: tessella.segment_sum(x, i, COUNT))(array(shape), PLACES)
    with pytest.raises(ShapeError, match="indices must be integers"):
        tessella.segment_sum(array((7,)), array((7,)), COUNT)


def _put(x: Array, indices: Array, values: Array, axis: int | None) -> Array:
    result = x.copy()
    np.put_along_axis(result, indices, values, axis)
    return result


@pytest.mark.parametrize("axis, shape", [(0, (2, 4)), (1, (3, 2)), (-1, (1, 3)), (None, (5,))])
def test_writes_along_an_axis(axis: int | None, shape: tuple[int, ...]) -> None:
    x = array((3, 4))
    size = x.size if axis is None else x.shape[axis]
    indices = np.random.default_rng(0).integers(-size, size, shape)
    whole = shape if axis is None else np.broadcast_shapes(shape, (3, 1) if axis else (1, 4))
    agrees(
        lambda x, i, v: tessella.put_along_axis(x, i, v, axis),
        x,
        indices,
        array(whole, seed=1),
        reference=lambda x, i, v: _put(x, i, v, axis),
    )
    agrees(
        lambda x, i: tessella.put_along_axis(x, i, 0, axis),
        x,
        indices,
        reference=lambda x, i: _put(x, i, np.asarray(0), axis),
    )


def _layer(x: Any, source: Any, target: Any, w: Any) -> Any:
    messages = tessella.take(x, source, axis=0) * w
    return tessella.segment_sum(messages, target, x.shape[0])


def test_a_layer_of_a_graph_is_one_nest() -> None:
    """The features of neighbours are gathered, weighted and added up by one statement."""
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 50, (2, 400))
    x, w = array((50, 16)), array((400, 1), seed=1)
    f = tessella.jit(_layer)
    want = np.zeros_like(x)
    np.add.at(want, target, x[source] * w)
    same(f(x, source, target, w), want)
    text = f.lower(x, source, target, w).as_text("tile")
    assert (text.count("tile.kernel"), text.count("tile.contract")) == (1, 2)
    write = text.split("tile.contract")[-1]
    assert "at0: 50" in write
    assert "tile.extract" in write
    assert "arith.mulf" in write


CHANGES: list[tuple[Callable[..., Any], str, str]] = [
    (
        lambda x, i: np.add.at(np.zeros(7), i, x),
        "np.add.at changes an array",
        r"y = y \+ tessella.segment_sum\(values, indices, len\(y\)\)",
    ),
    (
        lambda x, i: np.maximum.at(np.ones(7), i, x),
        "np.maximum.at changes",
        "tessella.zeros.*tessella.segment_max",
    ),
    (lambda x, i: np.divide.at(x, i, x), "np.divide.at changes", "tessella.where"),
    (
        lambda x, i: np.put_along_axis(x, i, 0, 0),
        "np.put_along_axis changes an array",
        r"y = tessella.put_along_axis\(y, indices, values, axis\)",
    ),
    (lambda x, i: np.copyto(np.zeros(7), x), "np.copyto changes an array", "write y = x"),
]


@pytest.mark.parametrize("function, what, hint", CHANGES)
def test_what_changes_an_array(function: Callable[..., Any], what: str, hint: str) -> None:
    with pytest.raises(TessellaError, match=what) as caught:
        tessella.jit(function)(array((7,)), PLACES)
    assert caught.match(hint)
    assert str(caught.value.where).startswith(__file__)
