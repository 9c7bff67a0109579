"""Functions that change arrays, or draw random numbers."""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tessella
from tessella.support.errors import TessellaError
from tests.frontends.trace.checks import same

RANDOM = np.random.default_rng(0)
TOTAL = np.zeros(4, np.float32)
LARGE = np.zeros(1 << 20, np.float32)


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


def _other_name(x: Any) -> Any:
    y = x * 2
    z = y
    y += 1
    return z


@pytest.mark.parametrize("function", [_local, _copied, _number, _accumulated, _other_name])
def test_what_is_changed_in_place(function: Callable[[Any], Any]) -> None:
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


def _view_of_what_changes(x: Any) -> Any:
    y = x * 2
    z = y[1:]
    y += 1
    return z * 1


def _flipped(x: Any) -> Any:
    y = x * 2
    z = np.flip(y)
    y += 1
    return z


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
    y = x * 2
    y = y + np.random.rand(4)  # here
    return y + 1


def _generated(x: Any) -> Any:
    return x + RANDOM.normal(size=4)  # here


def _python(x: Any) -> Any:
    return x + random.gauss(0, 1)  # here


def _helper(x: Any) -> Any:
    order = list(range(4))
    random.shuffle(order)  # here
    return x[np.array(order)]


def _helped(x: Any) -> Any:
    y = _helper(x)
    return y + 1


def _unseeded(x: Any) -> Any:
    noise = np.random.default_rng()  # here
    return x + noise.normal(size=4)


def _unseeded_of_python(x: Any) -> Any:
    noise = random.Random()  # here
    return x + noise.random()


def _global(x: Any) -> Any:
    y = x * 1
    TOTAL[0] = 3  # here
    return y + TOTAL


def _large(x: Any) -> Any:
    LARGE[7] += 1
    return x


def _by_function(x: Any) -> Any:
    np.put(TOTAL, [0], 5)  # here
    return x


def _at_a_helper(x: Any) -> Any:
    y = x * 1
    TOTAL[1] += _three()  # here
    return y


def _three() -> int:
    assert TOTAL.size
    return 3


def _default(x: Any, counts: Any = np.zeros(3)) -> Any:  # noqa: B008
    counts[1] += 1  # here
    return x


def _flat(x: Any) -> Any:
    y = x * 1
    y.flat[0] = 1  # here
    return y


def _shape(x: Any) -> Any:
    y = x * 1
    y.shape = (2, 2)  # here
    return y


def _dtype(x: Any) -> Any:
    y = x * 1
    y.dtype = np.int32  # here
    return y


def _itemset(x: Any) -> Any:
    y = x * 1
    y.itemset(0, 1)  # here
    return y


def _real(x: Any) -> Any:
    y = x * 1
    y.real = 2  # here
    return y


def _view(x: Any) -> Any:
    return x.view(np.int32)  # here


_DRAWN = "random numbers are drawn while tracing"
_STORED = "an array of an enclosing scope is stored into while tracing"

ERRORS: dict[Callable[[Any], Any], str] = {
    _argument: "an argument, which belongs to the caller, cannot be stored into",
    _argument_view: "a view of another array cannot be stored into",
    _local_view: "a view of another array cannot be stored into",
    _view_of_what_changes: "changed in place since",
    _flipped: "changed in place since",
    _integers: "cannot be stored in an array of int32",
    _smaller: "does not fit the array that it is stored in",
    _sorted: "sort",
    _filled: "fill",
    _out: "does not take 'out'",
    _item: "an argument, which belongs to the caller, cannot be stored into",
    _random: _DRAWN,
    _generated: _DRAWN,
    _python: _DRAWN,
    _helped: _DRAWN,
    _unseeded: _DRAWN,
    _unseeded_of_python: _DRAWN,
    _global: _STORED,
    _large: _STORED,
    _by_function: _STORED,
    _at_a_helper: _STORED,
    _default: _STORED,
    _flat: r"(?s)'flat' of an array is not known.*x\.reshape\(-1\)\[i\]",
    _shape: r"(?s)'shape' of a traced array cannot be assigned.*x = x\.reshape\(shape\)",
    _dtype: r"(?s)'dtype' of a traced array cannot be assigned.*x = x\.astype\(dtype\)",
    _itemset: "'itemset' of an array is not known",
    _real: "'real' of a traced array cannot be assigned",
    _view: "'view' of an array is not known",
}


def _line_of(function: Callable[..., Any]) -> int | None:
    """The line with the comment that tells where the error is."""
    lines, first = inspect.getsourcelines(function)
    return next((first + i for i, line in enumerate(lines) if "# here" in line), None)


@pytest.mark.parametrize("function", ERRORS)
def test_what_a_trace_would_lose_is_an_error_with_a_line(function: Callable[[Any], Any]) -> None:
    x = np.arange(1, 5, dtype=np.float32)
    before, total = x.copy(), TOTAL.copy()
    with pytest.raises(TessellaError, match=ERRORS[function]) as caught:
        tessella.jit(function)(x)
    assert "test_effects.py:" in str(caught.value)
    line = _line_of(_helper if function is _helped else function)
    assert line is None or f"where: {__file__}:{line}: " in str(caught.value)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(TOTAL, total)


@pytest.mark.parametrize("function", [_flipped, _view_of_what_changes])
def test_an_old_view_is_an_error_at_the_line_that_stores(function: Callable[[Any], Any]) -> None:
    with pytest.raises(TessellaError, match="a view of an array") as caught:
        tessella.jit(function)(np.ones(4, np.float32))
    assert "where: " + __file__ in str(caught.value)
    assert ": y += 1" in (caught.value.where or "")


def test_arrays_that_closures_attributes_and_containers_hold() -> None:
    class Layer:
        def __init__(self) -> None:
            self.sums = {"all": [np.zeros(2)]}

        def forward(self, x: Any) -> Any:
            self.sums["all"][0][1] += 1
            return x

    layer = Layer()
    x = np.ones(4, np.float32)

    def closure(x: Any) -> Any:
        return layer.forward(x) * 2

    method = tessella.jit(Layer.forward, static_argnames="self")
    for call in (tessella.jit(closure), functools.partial(method, layer)):
        with pytest.raises(TessellaError, match=_STORED) as caught:
            call(x)
        assert 'self.sums["all"][0][1] += 1' in str(caught.value)
        assert not layer.sums["all"][0].any()


def _seeded(x: Any) -> Any:
    noise = np.random.default_rng(3)
    return x + noise.normal(size=4).astype(np.float32) + random.Random(5).random()


def _reads(x: Any) -> Any:
    own = np.zeros(4, np.float32)
    own[1] = 2
    return x + own + TOTAL


@pytest.mark.parametrize("function", [_seeded, _reads])
def test_what_each_call_repeats_is_no_error(function: Callable[[Any], Any]) -> None:
    x = np.arange(1, 5, dtype=np.float32)
    same(tessella.jit(function)(x), function(x))


def test_a_generator_that_others_draw_from_is_no_error() -> None:
    calls: list[int] = []

    def function(x: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:  # as if another thread drew meanwhile
            random.random()
        return x + 1

    x = np.ones(3, np.float32)
    same(tessella.jit(function)(x), x + 1)
    assert len(calls) == 2


def test_attributes_that_numpy_lacks_too_are_as_in_python() -> None:
    def function(x: Any) -> Any:
        assert not hasattr(x, "flat")
        return x.reshaped(2, 2)

    with pytest.raises(AttributeError, match="reshaped"):
        tessella.jit(function)(np.ones(4, np.float32))
