"""Functions that change arrays, or draw random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tessella
from tessella.support.errors import TessellaError
from tests.frontends.trace.checks import same

RANDOM = np.random.default_rng(0)


def _local(x: Any) -> Any:
    y = x * 2
    y += 1
    y *= x
    y -= y[::-1]
    return y


def _copied(x: Any) -> Any:
    y = x.copy()
    y /= 2
    return y + x


def _number(x: Any) -> Any:
    total = x.sum()
    before = total
    total += 1
    return total * before


def _accumulated(x: Any) -> Any:
    y = x * 0
    for i in range(3):
        y += x[i]
    return y


@pytest.mark.parametrize("function", [_local, _copied, _number, _accumulated])
def test_what_is_changed_in_place_and_has_one_name(function: Callable[[Any], Any]) -> None:
    x = np.arange(1, 5, dtype=np.float32)
    same(tessella.jit(function)(x), function(x))


def _argument(x: Any) -> Any:
    x += 1
    return x


def _argument_view(x: Any) -> Any:
    y = x[1:]
    y += 1
    return x


def _local_view(x: Any) -> Any:
    y = x * 2
    z = y.reshape(2, 2)
    z += 1
    return y


def _other_name(x: Any) -> Any:
    y = x * 2
    z = y
    y += 1
    return z


def _view_of_what_changes(x: Any) -> Any:
    y = x * 2
    z = y[1:]
    y += 1
    return z * 1


def _integers(x: Any) -> Any:
    y = x.astype(np.int32)
    y += 0.5
    return y


def _smaller(x: Any) -> Any:
    y = x * 2
    y += np.ones((3, 4), np.float32)
    return y


def _sorted(x: Any) -> Any:
    x.sort()
    return x


def _filled(x: Any) -> Any:
    x.fill(1)
    return x


def _out(x: Any) -> Any:
    y = x * 2
    np.add(x, 1, out=y)
    return y


def _item(x: Any) -> Any:
    x[0] = 1
    return x


def _random(x: Any) -> Any:
    return x + np.random.rand(4)


def _generated(x: Any) -> Any:
    return x + RANDOM.normal(size=4)


ERRORS: dict[Callable[[Any], Any], str] = {
    _argument: "an argument, which belongs to the caller, cannot be stored into",
    _argument_view: "a view of another array cannot be stored into",
    _local_view: "a view of another array cannot be stored into",
    _other_name: "changed in place is used by another name",
    _view_of_what_changes: "changed in place is used by another name",
    _integers: "cannot be stored in an array of int32",
    _smaller: "does not fit the array that it is stored in",
    _sorted: "sort",
    _filled: "fill",
    _out: "does not take 'out'",
    _item: "assignment to a part of an array",
    _random: "random numbers are drawn while tracing",
    _generated: "random numbers are drawn while tracing",
}


@pytest.mark.parametrize("function", ERRORS)
def test_what_a_trace_would_lose_is_an_error_with_a_line(function: Callable[[Any], Any]) -> None:
    x = np.arange(1, 5, dtype=np.float32)
    before = x.copy()
    with pytest.raises(TessellaError, match=ERRORS[function]) as caught:
        tessella.jit(function)(x)
    assert "test_effects.py:" in str(caught.value)
    np.testing.assert_array_equal(x, before)
