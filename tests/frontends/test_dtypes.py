"""Arguments that name a dtype: those that are none, and those whose elements tessella lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tessella
from tessella.support.errors import TessellaError

X = np.arange(4, dtype=np.float32)
STRINGS = np.dtypes.StringDType()
WRONG: list[Any] = [
    *("garbage", 3.5, -1, {}, object(), object, type, [("a", "f4")], "f4,f4", "(2,)f4"),
    *("M8[s]", "S3", ">f4", np.void, np.longdouble, np.dtypes.StringDType(na_object=None)),
]


def traced(function: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    return lambda dtype: tessella.jit(lambda x: function(x, dtype))(X)


WAYS: dict[str, Callable[[Any], Any]] = {
    "ops.cast": lambda dtype: tessella.ops.cast(X, to=dtype),
    "ops.bitcast": lambda dtype: tessella.ops.bitcast(X, to=dtype),
    "Spec": lambda dtype: tessella.jit(np.negative).lower(tessella.Spec((3,), dtype)),
    "OrtValue": lambda dtype: tessella.OrtValue.ortvalue_from_shape_and_type([2], dtype),
    "astype": traced(lambda x, dtype: x.astype(dtype)),
    "sum": traced(lambda x, dtype: x.sum(dtype=dtype)),
    "mean": traced(lambda x, dtype: np.mean(x, dtype=dtype)),
    "cumsum": traced(lambda x, dtype: np.cumsum(x, dtype=dtype)),
    "add": traced(lambda x, dtype: np.add(x, x, dtype=dtype)),
    "concatenate": traced(lambda x, dtype: np.concatenate([x, x], dtype=dtype)),
    "zeros_like": traced(lambda x, dtype: np.zeros_like(x, dtype=dtype)),
    "full_like": traced(lambda x, dtype: np.full_like(x, 2, dtype=dtype)),
    "full": traced(lambda x, dtype: tessella.full((4,), 2, dtype) + x),
    "arange": traced(lambda x, dtype: tessella.arange(4, dtype=dtype) + x),
    "full, called": lambda dtype: tessella.full((4,), 2, dtype),
}
OF_NUMBERS = ("ops.bitcast", "sum", "mean", "cumsum", "zeros_like", "full", "arange")


@pytest.mark.parametrize("way", WAYS)
def test_what_is_no_dtype(way: str) -> None:
    for dtype in WRONG:
        with pytest.raises(TessellaError):
            WAYS[way](dtype)


@pytest.mark.parametrize("way", OF_NUMBERS)
def test_strings_are_no_numbers(way: str) -> None:
    with pytest.raises(TessellaError, match=r"string|StringDType"):
        WAYS[way](STRINGS)


def test_casts_to_strings() -> None:
    wanted = ["0.0", "1.0", "2.0", "3.0"]
    assert tessella.ops.cast(X, to=STRINGS).tolist() == wanted
    assert tessella.jit(lambda x: x.astype(STRINGS))(X).tolist() == wanted
