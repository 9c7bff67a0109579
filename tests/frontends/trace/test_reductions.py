"""Reductions, softmax and cumulative sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessella
from tessella.support.errors import ShapeError, TessellaError
from tests.frontends.trace.checks import Array, agrees, array, full_shapes
from tests.sampling import sampled

PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (tessella.sum, np.sum),
    "max": (tessella.max, np.max),
    "min": (tessella.min, np.min),
    "mean": (tessella.mean, np.mean),
    "prod": (tessella.prod, np.prod),
}
METHODS = "sum prod mean max min any all var std argmax argmin cumsum".split()


def softmax(x: Array, axis: int = -1) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


@st.composite
def axes(draw: st.DrawFn, rank: int) -> int | tuple[int, ...] | None:
    """An axis, several, or None."""
    one = st.integers(-rank, rank - 1)
    several = st.lists(one, unique_by=lambda d: d % rank, max_size=rank).map(tuple)
    return draw(st.none() | one | several)


@pytest.mark.parametrize("function, reference", PAIRS.values(), ids=PAIRS)
@settings(max_examples=sampled(8))
@given(data=st.data(), shape=full_shapes, keepdims=st.booleans())
def test_reductions(
    function: Callable[..., Any],
    reference: Callable[..., Any],
    data: st.DataObject,
    shape: tuple[int, ...],
    keepdims: bool,
) -> None:
    axis = data.draw(axes(len(shape)))
    dtype = data.draw(st.sampled_from(["float32", "float64", "int8", "int64", "uint8"]))
    agrees(
        lambda x: function(x, axis, keepdims),
        array(shape, dtype) if function is not tessella.prod else np.sign(array(shape, dtype)),
        reference=lambda x: reference(x, axis=axis, keepdims=keepdims),
    )


@pytest.mark.sweep
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "uint8"])
def test_methods(method: str, dtype: str) -> None:
    agrees(
        lambda x: (getattr(x, method)(), getattr(x, method)(axis=-1), getattr(np, method)(x, 0)),
        array((3, 4), dtype),
    )


@pytest.mark.parametrize("method", "any all max min".split())
def test_reductions_of_booleans(method: str) -> None:
    x = np.asarray([[True, False, True], [False, False, False], [True, True, True]])
    agrees(lambda x: getattr(x, method)(axis=1), x)


@pytest.mark.parametrize("method", "sum prod mean argmax cumsum".split())
def test_of_booleans(method: str) -> None:
    agrees(lambda x: getattr(x, method)(axis=1), array((3, 4), "bool"))


def test_options_of_numpy() -> None:
    x = array((3, 4))
    agrees(lambda x: np.sum(x, 1, np.float64), x)
    agrees(lambda x: np.mean(x, axis=(0, 1), keepdims=True, dtype="float64"), x)
    agrees(lambda x: np.std(x, axis=0, ddof=1), x)
    agrees(lambda x: np.var(x, axis=0, ddof=5), x)
    agrees(lambda x: np.argmax(x, keepdims=True), x)
    with pytest.raises(TessellaError, match=r"np\.sum of a traced array does not take 'where'"):
        tessella.jit(lambda x: np.sum(x, where=x > 0))(x)


@pytest.mark.parametrize("method", "sum prod mean".split())
def test_of_no_elements(method: str) -> None:
    agrees(lambda x: getattr(x, method)(), np.zeros((0, 3), np.float32))
    agrees(lambda x: getattr(x, method)(axis=1), np.zeros((0, 3), np.float32))


def test_the_largest_of_no_elements() -> None:
    x = np.zeros((0, 3), np.float32)
    agrees(lambda x: x.max(axis=1), x)
    with pytest.raises(ShapeError, match="an empty array has no maximum or minimum"):
        tessella.jit(lambda x: x.max())(x)


@pytest.mark.parametrize("axis", [2, -3, (0, 0)])
def test_wrong_axes(axis: int | tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="axis"):
        tessella.jit(lambda x: tessella.sum(x, axis))(array((3, 4)))


@settings(max_examples=sampled(10))
@given(data=st.data(), shape=full_shapes, dtype=st.sampled_from(["float32", "float64", "int8"]))
def test_softmax(data: st.DataObject, shape: tuple[int, ...], dtype: str) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = array(shape, dtype)
    exact = np.float32 if dtype == "int8" else dtype
    agrees(
        lambda x: tessella.softmax(x, axis), x, reference=lambda x: softmax(x.astype(exact), axis)
    )
    agrees(
        lambda x: tessella.log_softmax(x, axis=axis),
        x,
        reference=lambda x: np.log(softmax(x.astype(exact), axis)),
    )


@pytest.mark.parametrize("function", [np.sort, lambda x, axis: np.argsort(x, axis, kind="stable")])
@pytest.mark.parametrize("axis", [-1, 0, None])
def test_sorts(function: Callable[..., Any], axis: int | None) -> None:
    x = array((5, 40), "float32").copy()
    x[1, 3:5] = np.nan
    agrees(lambda x: function(x, axis=axis), x)
    agrees(lambda x: function(x, axis=axis), x > 0)
