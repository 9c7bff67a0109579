"""Stores into arrays that a traced function has made, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tessella
from tessella.support.errors import ExecutionError, TessellaError
from tests.frontends.trace.checks import same

X = np.arange(1, 25, dtype=np.float32).reshape(6, 4) / 8
PLACES = np.array([0, 3, 3, -1, 0, 3])
Function = Callable[[Any, Any], Any]


def _sums(x: Any, i: Any) -> Any:
    y = x * 2
    np.add.at(y, i, x)
    return y


def _zeros(x: Any, i: Any) -> Any:
    y = np.zeros_like(x)
    np.add.at(y, i, x + 1)
    return y / 2


def _new(x: Any, i: Any) -> Any:
    y = tessella.ones((7, 4))
    np.maximum.at(y, i, x)
    np.minimum.at(y, i, 2)
    return y


def _products(x: Any, i: Any) -> Any:
    y = np.full_like(x, 3)
    np.multiply.at(y, i, x)
    np.subtract.at(y, i[1:3], x[2])
    return y


def _rows_and_columns(x: Any, i: Any) -> Any:
    y = x.copy()
    rows: Any = slice(1, 5)
    back: Any = slice(None, None, -2)
    np.add.at(y, (rows, i[:6] % 4), x[:4, [0, 1, 2, 3, 0, 1]])
    np.add.at(y, 2, 1.5)
    np.add.at(y, (back, 1), x[::2, 0])
    return y


def _integers(x: Any, i: Any) -> Any:
    y = i * 0
    np.add.at(y, i, True)
    np.subtract.at(y, i, i)
    return y


def _bytes(x: Any, i: Any) -> Any:
    y = (i * 0).astype(np.uint8)
    np.subtract.at(y, i, y + 1)
    np.maximum.at(y, i[:2], np.uint8(254))
    return y


def _booleans(x: Any, i: Any) -> Any:
    y = x[:, 0] > 2
    np.add.at(y, i[:1], x[:1, 0] < 1)
    np.multiply.at(y, i[3:4], x[:1, 0] > 1)
    return y


def _precise(x: Any, i: Any) -> Any:
    y = x.astype(np.float64)
    np.add.at(y, i, x)
    return y


def _assigned(x: Any, i: Any) -> Any:
    y = x * 2
    y[i] = x
    y[2] = 7
    y[1:, 3] = x[:-1, 0]
    y[::-2, 1] = x[::2, 0]
    y[0, ::-1] = [1, 2, 3, 4]
    y[..., 2] = i
    y[1:3] = x[None, None, 2:4]
    return y


def _assigned_constants(x: Any, i: Any) -> Any:
    y = np.zeros_like(x)
    y[0, 1] = 1
    z = tessella.zeros(3)
    z[1] = 2
    return x * y, z


def _one_array_with_two_names(x: Any, i: Any) -> Any:
    y = x * 2
    z = y
    y += 1
    np.add.at(z, i, 1)
    return y, z


def _helped(x: Any, i: Any) -> Any:
    def helper(y: Any) -> None:
        y *= 3

    y = x + 1
    helper(y)
    return y


def _later_view(x: Any, i: Any) -> Any:
    y = x * 2
    y[0] = 5
    z = y[1:]
    return z + y[0]


FUNCTIONS = [
    _sums, _zeros, _new, _products, _rows_and_columns, _integers, _bytes, _booleans, _precise,
    _assigned, _assigned_constants, _one_array_with_two_names, _helped, _later_view,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
def test_stores(function: Function) -> None:
    for got, want in zip(
        _all(tessella.jit(function)(X, PLACES)), _all(function(X, PLACES)), strict=True
    ):
        same(got, want)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_stores_while_sizes_are_open(function: Function) -> None:
    f = tessella.jit(function)
    for count in (6, 8, 11, 6):
        x, i = np.resize(X, (count, 4)), np.resize(PLACES, count)
        for got, want in zip(_all(f(x, i)), _all(function(x, i)), strict=True):
            same(got, want)


def _all(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.parametrize("threads", [1, 2])
def test_sums_are_added_in_order(threads: int) -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((20_000, 8)).astype(np.float32)
    places = rng.integers(0, 50, 20_000)

    def sums(values: Any, places: Any) -> Any:
        y = tessella.zeros((50, 8))
        np.add.at(y, places, values)
        return y

    want = np.zeros((50, 8), np.float32)
    np.add.at(want, places, values)
    same(tessella.jit(sums, threads=threads)(values, places), want)


def test_an_index_out_of_range() -> None:
    with pytest.raises(ExecutionError, match="out of range"):
        tessella.jit(_sums)(X, PLACES + 4)


def _argument(x: Any, i: Any) -> Any:
    np.add.at(x, i, 1)
    return x


def _item_of_argument(x: Any, i: Any) -> Any:
    x[i] = 1
    return x


def _view(x: Any, i: Any) -> Any:
    y = x * 2
    np.add.at(y[1:], i[:2], 1)
    return y


def _numpys(x: Any, i: Any) -> Any:
    y = np.zeros((6, 4), np.float32)
    np.add.at(y, i, x)
    return y


def _numpys_item(x: Any, i: Any) -> Any:
    y = np.zeros((6, 4), np.float32)
    y[0] = x[0]
    return y


def _fractions(x: Any, i: Any) -> Any:
    y = i * 2
    np.add.at(y, i, 0.5)
    return y


def _misfit(x: Any, i: Any) -> Any:
    y = x * 2
    np.add.at(y, i, x[:4])
    return y


def _mask(x: Any, i: Any) -> Any:
    y = x * 2
    y[y > 3] = 0
    return y


def _other(x: Any, i: Any) -> Any:
    y = x * 2
    np.divide.at(y, i, x)
    return y


ERRORS: dict[Function, str] = {
    _argument: "(?s)an argument, which belongs to the caller, cannot be stored.*x.copy",
    _item_of_argument: "(?s)an argument, which belongs to the caller, cannot be stored.*x.copy",
    _view: "a view of another array cannot be stored into",
    _numpys: r"(?s)np.add.at changes an array.*tessella\.zeros",
    _numpys_item: r"(?s)cannot become a NumPy array.*tessella\.zeros",
    _fractions: "float64 cannot be stored in an array of int64",
    _misfit: "broadcast",
    _mask: "(?s)can be indexed by integers, slices.*where",
    _other: "np.divide.at changes an array",
}


@pytest.mark.parametrize("function", ERRORS)
def test_stores_that_a_trace_cannot_follow(function: Function) -> None:
    before = X.copy()
    with pytest.raises(TessellaError, match=ERRORS[function]) as caught:
        tessella.jit(function)(X, PLACES)
    assert "test_stores.py:" in str(caught.value)
    same(X, before)
