"""Counts, histograms and searches, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

import tessella
from tessella.support.errors import ExecutionError, OptionError, ShapeError, TessellaError
from tests.frontends.trace.checks import agrees, array, same


def numbers(count: int, dtype: str = "int64", seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 9, count).astype(dtype)


@pytest.mark.parametrize("dtype", "int64 int32 int8 uint8".split())
def test_bincount(dtype: str) -> None:
    agrees(lambda x: np.bincount(x, minlength=12), numbers(100, dtype))


@pytest.mark.parametrize("dtype", "float32 float64 int32".split())
def test_weights(dtype: str) -> None:
    agrees(lambda x, w: np.bincount(x, w, 9), numbers(100), array((100,), dtype))


@pytest.mark.parametrize("threads", [1, 2])
def test_bincount_of_open_sizes(threads: int) -> None:
    def counts(x: Any, w: Any) -> Any:
        return np.bincount(x, minlength=9), np.bincount(x, w, 9)

    f = tessella.jit(counts, threads=threads)
    for count in (100, 7, 20_000, 300, 1):
        x, w = numbers(count), array((count,), "float64")
        same(f(x, w), counts(x, w))


@pytest.mark.parametrize("wrong", [-1, 9])
def test_what_is_not_counted(wrong: int) -> None:
    with pytest.raises(ExecutionError, match="out of range") as caught:
        tessella.jit(lambda x: np.bincount(x, minlength=9))(np.asarray([1, wrong]))
    assert str(caught.value.where).count("test_counting.py") == 1


HISTOGRAMS: dict[str, Callable[..., Any]] = {
    "bins": lambda x, _: np.histogram(x, 10, (-1, 1)),
    "by name": lambda x, _: np.histogram(x, bins=3, range=(-2.5, 0.1)),
    "edges": lambda x, _: np.histogram(x, [-3, -1, 0.5, 0.5, 2]),
    "edges of an array": lambda x, _: np.histogram(x, np.linspace(-4, 4, 100, dtype=np.float32)),
    "no width": lambda x, _: np.histogram(x, 4, (1, 1)),
    "density": lambda x, _: np.histogram(x, 4, (-2, 2), density=True),
    "weights": lambda x, w: np.histogram(x, 4, (-2, 2), weights=w),
}


@pytest.mark.parametrize("function", HISTOGRAMS.values(), ids=list(HISTOGRAMS))
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_histograms(function: Callable[..., Any], dtype: str) -> None:
    x = array((20, 30), dtype)
    x[0, :4] = np.asarray([-2, 2, -1, 1], dtype)
    agrees(function, x, array((20, 30), "float64", seed=1))


def test_what_belongs_to_no_bin() -> None:
    x = np.asarray([np.nan, -np.inf, np.inf, 0, 1, 2], np.float32)
    agrees(lambda x: np.histogram(x, [0, 1, 2]), x)


def test_edges_that_are_traced() -> None:
    edges = np.asarray([-2, 0, 1, 5], np.float32)
    agrees(lambda x, edges: np.histogram(x, edges)[0], array((50,)), edges)


def test_histograms_of_open_sizes() -> None:
    f = tessella.jit(lambda x: np.histogram(x, 5, (-1, 1))[0])
    for count in (50, 33, 4, 1, 0, 200):
        x = array((count,))
        same(f(x), np.histogram(x, 5, (-1, 1))[0])


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 8, 9, 1000])
def test_searches(side: Any, size: int) -> None:
    ordered = np.sort(array((size,)).round())
    agrees(lambda a, v: np.searchsorted(a, v, side), ordered, array((5, 6), seed=1).round())


@pytest.mark.sweep
@pytest.mark.parametrize("first", ["float32", "float64", "int8", "uint8", "int64"])
@pytest.mark.parametrize("second", ["float32", "int32", "uint16"])
def test_searches_in_every_type(first: str, second: str) -> None:
    agrees(np.searchsorted, np.sort(array((20,), first)), array((30,), second))


@pytest.mark.parametrize("side", ["left", "right"])
def test_nan_is_the_greatest(side: Any) -> None:
    ordered = np.asarray([-np.inf, 1, np.inf, np.nan, np.nan], np.float32)
    values = np.asarray([np.nan, np.inf, -np.inf, 0, 1], np.float32)
    agrees(lambda a, v: a.searchsorted(v, side=side), ordered, values)


def test_searches_in_an_order() -> None:
    x = array((20,))
    agrees(lambda a, v: np.searchsorted(a, v, sorter=a.argsort()), x, array((9,), seed=1))


NUMBERS: list[tuple[str, Any]] = [
    *(("int8", n) for n in (300, -300, 3, 127)),
    *(("uint8", n) for n in (-1, 256, 2)),
    *(("uint64", n) for n in (-1, 3)),
    ("int32", 1 << 40),
    ("int8", 2.5),
    ("int8", [300, -300, 2]),
]


@pytest.mark.parametrize("dtype, number", NUMBERS)
def test_a_search_for_numbers_that_the_elements_may_not_hold(dtype: str, number: Any) -> None:
    ordered = np.arange(5).astype(dtype)
    want = np.searchsorted(ordered, number)
    same(tessella.jit(lambda a: np.searchsorted(a, number))(ordered), want)
    if not isinstance(number, list):
        same(tessella.jit(np.searchsorted)(ordered, number), want)


def test_a_count_of_booleans() -> None:
    x = np.array([True, False, True])
    agrees(lambda x: np.bincount(x, minlength=3), x)
    agrees(lambda x, w: np.bincount(x, w, 2), x, array((3,)))


def test_an_order_of_another_length() -> None:
    with pytest.raises(ShapeError, match="sorter"):
        tessella.jit(lambda a, v: np.searchsorted(a, v, sorter=np.array([0, 1])))(
            array((5,)), array((2,))
        )


@pytest.mark.parametrize("options", [{"kind": "foo"}, {"kind": "stable", "stable": True}])
def test_kinds_of_sort_that_there_are_not(options: Any) -> None:
    with pytest.raises(OptionError, match=r"np\.sort"):
        tessella.jit(lambda x: np.sort(x, **options))(array((5,)))


def test_searches_of_open_sizes() -> None:
    def search(a: Any, v: Any) -> Any:
        return np.searchsorted(a, v)

    f = tessella.jit(search)
    for count in (20, 33, 16, 4095, 17, 3, 1, 0):
        a, v = np.sort(array((count,))), array((7, 2), seed=1)
        same(f(a, v), search(a, v))
    assert "open, from" in str(f.explain()) or len(a) == 0


def test_searches_in_a_vector_of_computed_size() -> None:
    """Its size is a product of open ones."""

    def search(x: Any, y: Any) -> Any:
        table = np.sort(np.concatenate([x.ravel(), x.ravel(), y]))
        return np.searchsorted(table, y)

    f = tessella.jit(search)
    for rows, columns, count in ((4, 5, 9), (6, 7, 30), (17, 20, 3)):
        x, y = array((rows, columns)), array((count,), seed=1)
        same(f(x, y), search(x, y))


ERRORS: list[tuple[Callable[[Any], Any], type[TessellaError], str, str]] = [
    (np.bincount, TessellaError, "needs minlength", "give minlength=n"),
    (lambda x: np.bincount(x.reshape(2, 3), minlength=9), ShapeError, "is not a vector", ""),
    (lambda x: np.bincount(x, x[:2], 9), ShapeError, "the segments are not those", ""),
    (lambda x: np.bincount(x * 0.5, minlength=9), ShapeError, "must be integers", ""),
    (np.histogram, TessellaError, "needs bins that are known", "range=.low, high."),
    (lambda x: np.histogram(x, "auto"), TessellaError, "needs bins that are known", "edges"),
    (lambda x: np.searchsorted(x, x, cast(Any, "up")), ShapeError, "side is unknown", ""),
    (lambda x: np.searchsorted(x.reshape(2, 3), 1), ShapeError, "is not a vector", ""),
    (np.nonzero, TessellaError, "depends on elements", "tessella.where"),
    (np.flatnonzero, TessellaError, "depends on elements", "tessella.where"),
    (lambda x: np.compress(x > 0, x), TessellaError, "depends on elements", "tessella.where"),
    (np.unique, TessellaError, "depends on elements", "np.bincount"),
]


@pytest.mark.parametrize("function, error, what, hint", ERRORS)
def test_errors(
    function: Callable[[Any], Any], error: type[TessellaError], what: str, hint: str
) -> None:
    with pytest.raises(error, match=what) as caught:
        tessella.jit(lambda x: function(x))(numbers(6))
    assert caught.match(hint)


def test_all_is_native() -> None:
    """None of it runs in NumPy."""
    f = tessella.jit(
        lambda x, w: (
            np.bincount(x, w, 9),
            np.histogram(w, 4, (-1, 1))[0],
            np.searchsorted(w, w),
            tessella.segment_mean(w, x, 9),
            tessella.segment_max(w, x, 9),
            tessella.put_along_axis(w, x, 0, 0),
        )
    )
    f(numbers(100), array((100,)))
    assert "NumPy" not in str(f.explain())
