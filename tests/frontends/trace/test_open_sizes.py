"""Sizes that stay open: few programs for many lengths, and never what another length needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tessella
from tessella.support.errors import InputError, OptionError, TessellaError
from tests.frontends.trace.checks import Array, array, same
from tests.sampling import SLOW

WEIGHTS = np.asarray([1, 2], np.float32)
SIZES = (5, 33, 17, 6, 2, 16, 3, 1, 15, 0, 5, 40)


def counted(function: Callable[..., Any], **options: Any) -> tuple[Any, list[Any]]:
    """The function under `jit`, and the shapes that it was traced with."""
    traced: list[Any] = []

    def body(*args: Any) -> Any:
        traced.append(tuple(str(x.sizes) for x in args))
        return function(*args)

    return tessella.jit(body, **options), traced


def test_few_programs_for_many_lengths() -> None:
    def function(x: Any, y: Any) -> Any:
        return (x - x.mean()) / x.shape[0] + y[0] * x[::-1], x.argmax(), x[::-1].argmin()

    f, traced = counted(function)
    y = array((3,))
    for size in (40, *range(3, 60, 3)):
        x = array((size,))
        same(f(x, y), function(x, y))
    assert [x for x, _ in traced] == ["(40,)", "(args_0__0,)", "(args_0__0,)"]
    assert "args[0]:0: open, from 16 to 4095" in str(f.explain())


def test_what_varies_is_open_and_what_was_equal_is_one_size() -> None:
    f, traced = counted(lambda x, y: x + y)
    for shapes in [((5, 4), (5, 4)), ((7, 4), (7, 4)), ((9, 4), (9, 4)), ((9, 4), (1, 4))]:
        x, y = map(array, shapes)
        same(f(x, y), x + y)
    assert len(traced) == 3
    x, y = array((5, 4)), array((5, 4))
    same(f(x, y), x + y)
    assert len(traced) == 3  # the first shapes keep their program


def test_a_call_of_other_shapes_leaves_the_programs_of_those_that_follow() -> None:
    f, traced = counted(lambda x, y: x + y, places=["host"])
    for size in (20, 30):
        f(array((size,)), array((size,)))
    for other in (1, 17):
        x, y = array((40,)), array((other,))
        if other == 1:
            same(f(x, y), x + y)
        else:
            with pytest.raises(TessellaError, match="do not broadcast"):
                f(x, y)
    count = len(traced)
    for size in (50, 60, 20):
        x = array((size,))
        same(f(x, x), x + x)
    assert len(traced) == count


def test_a_dtype_or_rank_has_programs_of_its_own() -> None:
    f, traced = counted(lambda x: x + 1)
    for shape, dtype in [((4,), "float32"), ((9,), "float64"), ((8,), "float32"), ((3, 9), "int8")]:
        same(f(array(shape, dtype)), array(shape, dtype) + 1)
    assert [shapes for (shapes,) in traced] == ["(4,)", "(9,)", "(args_0__0,)", "(3, 9)"]


def test_fixed_dimensions() -> None:
    f, traced = counted(lambda x: x * 2, dims="fixed")
    for size in (20, 30, 40, 30):
        same(f(array((size,))), array((size,)) * 2)
    assert [shapes for (shapes,) in traced] == ["(20,)", "(30,)", "(40,)"]


def test_named_dimensions() -> None:
    calls: list[Any] = []

    @tessella.jit(dim_names={"x": {0: "n"}, "y": {1: "n"}})
    def f(x: Any, y: Any) -> Any:
        calls.append((x.sizes, y.sizes))
        return y @ x

    for n in (20, 30):
        x, y = array((n, 4)), array((2, n))
        np.testing.assert_allclose(f(x, y), y @ x, rtol=1e-5, atol=1e-5)
    assert [str(sizes) for sizes in calls] == ["((n, 4), (2, n))"]
    with pytest.raises(InputError, match="the dimension 'n' has two sizes"):
        f(array((5, 4)), array((2, 6)))
    with pytest.raises(OptionError, match="unknown parameter 'z'"):
        tessella.jit(lambda x: x, dim_names={"z": {0: "n"}})
    with pytest.raises(OptionError, match="'dims' is wrong"):
        tessella.jit(lambda x: x, dims="open")  # pyright: ignore[reportArgumentType]
    with pytest.raises(OptionError, match="no dimension is symbolic"):
        tessella.jit(lambda x: x, dims="fixed", dim_names={"x": {0: "n"}})
    with pytest.raises(OptionError, match="the function has no dimension 'm'"):
        tessella.jit(lambda x: x, dims={"m": 3}, dim_names={"x": {0: "n"}})


def test_sizes_of_named_dimensions() -> None:
    """They mean what they mean for models."""
    traced: list[Any] = []

    @tessella.jit(dims={"n": (2, 30)}, dim_names={"x": {0: "n"}})
    def f(x: Any) -> Any:
        traced.append(x.sizes)
        return x * 2

    for n in (20, 30):
        np.testing.assert_array_equal(f(array((n, 4))), array((n, 4)) * 2)
    assert len(traced) == 1
    with pytest.raises(InputError, match="'n' is out of its bounds"):
        f(array((31, 4)))


def _swallows(x: Any) -> Any:
    try:
        return x * float(x.shape[0])
    except Exception:
        return x


def _swallows_a_decision(x: Any) -> Any:
    try:
        return x * (1 if x.shape[0] > 8 else 2)
    except Exception:
        return x * 3


def _swallows_that_elements_are_not_known(x: Any) -> Any:
    try:
        return x * (1 if x.shape[0] / 2 > 8 else 2)
    except TessellaError:
        return x


def _halves(x: Any) -> Any:
    while x.shape[0] > 1:
        x = x[: x.shape[0] // 2]
    return x


NUMBERS: Sequence[Callable[[Any], Any]] = (
    lambda x: x if x.shape[0] == 17 else -x,
    lambda x: x if x.shape[0] != 6 else -x,
    lambda x: x * (1 if x.shape[0] > 16 else 2),
    lambda x: x if x.shape[0] % 2 else -x,
    lambda x: x if x.shape[0] in (3, 33) else -x,
    lambda x: x * {17: 2, 3: 5}.get(x.shape[0], 7),
    lambda x: x * len({x.shape[0], 6, 17}),
    lambda x: x * (x.shape == (17,)),
    lambda x: x * len(x),
    lambda x: x * sum(range(x.shape[0])),
    lambda x: x + np.zeros(x.shape[0], np.float32),
    lambda x: x * np.arange(x.shape[0]).astype(np.float32),
    lambda x: x * math.sqrt(x.shape[0]),
    lambda x: x * float(str(x.shape[0])),
    lambda x: x * float(f"{x.shape[0]:3}"),
    lambda x: x * float(repr(x.shape)[1:-1].split(",")[0]),
    lambda x: x * [*range(50)][x.shape[0]],
    lambda x: x * np.prod(x.shape),
    lambda x: x * np.asarray(x.shape, np.float32),
    lambda x: x * (x.shape[0] & 3),
    lambda x: x * x.shape[0].bit_length(),
    lambda x: x * (x.shape[0] if isinstance(x.shape[0], int) and x.shape[0] > 4 else 3),
    lambda x: x * (x.shape[0] < 16),
    lambda x: x * int(x.shape[0] <= 16),
    lambda x: x if (x.shape[0] >= 16) is True else -x,
    lambda x: x * max(x.shape[0], 9),
    lambda x: x * min(7, x.size),
    lambda x: x * int(x.shape[0] / 2),
    lambda x: x[3:] * 2,
    lambda x: x[:-20],
    lambda x: x[-9::-2],
    lambda x: x[2:1] if x.shape[0] < 2 else x[2],
    lambda x: np.squeeze(x[:1]),
    lambda x: np.squeeze(x[x.shape[0] // 2 :]),
    lambda x: list(range(x.shape[0]))[:3],
    lambda x: x * (1 / (x.shape[0] - 3)) if x.shape[0] != 3 else x,
    lambda x: x * ((3 - x.shape[0]) ** 2.0),
    lambda x: x if x.shape[0] / 2 < 8 else -x,
    lambda x: x * (x.shape[0] / 2 // 3) * round(x.shape[0] / 3),
    lambda x: x.astype(np.int8) * min(x.shape[0], 100),
    lambda x: [x] * x.shape[0],
    _halves,
    _swallows,
    _swallows_a_decision,
    _swallows_that_elements_are_not_known,
)
"""Functions of a vector that need the numbers of sizes, some only for short ones."""

OPEN: Sequence[Callable[[Any], Any]] = (
    lambda x: x / x.shape[0],
    lambda x: x.sum() / x.shape[0] + x.size,
    lambda x: x * (2.0 / x.shape[0]) + (x.shape[0] - 1) / 2,
    lambda x: x * 0.5 * x.shape[0] ** 2 - x.shape[0],
    lambda x: np.maximum(x, x.shape[0]) + np.sqrt(x.shape[0]) * x,
    lambda x: x * np.sqrt(1 / x.shape[0]),
    lambda x: x / (1.5 / x.shape[0]) ** 2 + x.shape[0] / 3,
    lambda x: x * x.shape[0] ** 0.5 + np.copy(x.shape[0]),
    lambda x: (x.shape[0] / 2, x.shape[0] // 2 * x, 1 - x.shape[0] / 4),
    lambda x: WEIGHTS * x.shape[0] + np.int64(2) * x.shape[0],
    lambda x: np.where(x > 0, x, x.shape[0]).var() + x.mean(),
    lambda x: x[1:] - x[:-1],
    lambda x: x[: x.shape[0] // 2],
    lambda x: x[x.shape[0] // 2 :] + x[-1],
    lambda x: x[1::3],
    lambda x: x[::-1][x.shape[0] - 2],
    lambda x: x.reshape(1, -1) + x.reshape(-1, 1),
    lambda x: x.reshape(x.shape[0] * x.shape[0] // x.shape[0], 1).T,
    lambda x: tessella.concatenate([x, x[:1], WEIGHTS])[: x.shape[0] + 1],
    lambda x: np.stack([x, tessella.zeros(x.shape), np.ones_like(x)]),
    lambda x: x * tessella.arange(x.shape[0]) + tessella.arange(2, x.size + 2, dtype="float64")[0],
    lambda x: tessella.full((x.shape[0], 2), 1.5) * x[:, None],
    lambda x: (x.shape, x.shape[0] * 2, x.sum()),
    lambda x: x if x.shape[0] > 1 and x.shape[0] >= 2 and x.shape[0] != 1 else -x,
    lambda x: x if isinstance(x.shape[0], int) else -x,
    lambda x: np.tile(np.broadcast_to(x, (2, *x.shape)), 2),
    lambda x: np.cumsum(x, dtype=np.int64) + x.shape[0],
)
"""Functions of a vector of two or more that have three programs for all lengths."""


@pytest.mark.sweep
@pytest.mark.parametrize("at", range(len(NUMBERS)))
def test_what_needs_numbers(at: int) -> None:
    """A long size and a short one, then all others; a third of them without ``--slow``."""
    _check(NUMBERS[at], [*SIZES[:2], *(SIZES[2:] if SLOW else SIZES[2 + at % 3 :: 3])])


@pytest.mark.sweep
@pytest.mark.parametrize("at", range(len(OPEN)))
def test_what_stays_open(at: int) -> None:
    traced = _check(OPEN[at], [size for size in SIZES if size > 1])
    assert len(traced) == 3


def _check(function: Callable[[Any], Any], sizes: Sequence[int]) -> list[Any]:
    f, traced = counted(function, places=["host"])
    for size in sizes:
        x = np.round(array((size,)))
        try:
            with np.errstate(all="ignore"):
                want = function(x)
        except (IndexError, ValueError):
            with pytest.raises((IndexError, ValueError, TessellaError)):
                f(x)
            continue
        _same(f(x), want)
    return traced


def _same(got: Any, want: Any) -> None:
    if isinstance(want, tuple | list):
        items: list[Any] = list(want)
        assert type(got) is type(want)
        assert len(got) == len(items)
        for each, wanted in zip(got, items, strict=True):
            _same(each, wanted)
    else:
        same(got, want)


def test_explain_says_why_a_size_is_a_number() -> None:
    f = tessella.jit(lambda x: x * math.sqrt(x.shape[0]), places=["host"])
    for size in (20, 30):
        f(array((size,)))
    assert "x:0: 30, as float() needs the number: x_0, in test_open_sizes.py:" in str(f.explain())


def test_a_size_that_leaves_its_trace() -> None:
    kept: list[Any] = []

    @tessella.jit(places=["host"])
    def f(x: Any) -> Any:
        kept.append(x.shape[0])
        return x + 1

    for size in (20, 30):
        f(array((size,)))
    assert kept[0] == 20
    with pytest.raises(TessellaError, match="a traced size was used outside"):
        print(kept[1] + 1)


def test_errors_are_those_of_numbers() -> None:
    f = tessella.jit(lambda x, y: x + y, places=["host"])
    x: Array = array((20,))
    f(x, x)
    f(x[:18], x[:18])
    with pytest.raises(TessellaError, match="do not broadcast") as caught:
        f(x, x[:17])
    assert "20 and 17" in str(caught.value)
