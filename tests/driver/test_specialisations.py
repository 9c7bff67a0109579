"""The table of specialised programs: which program serves a call, and when one is compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tessella.driver.specialise.key import Key
from tessella.driver.specialise.open_sizes import FEW, MANY, OpenSizes
from tessella.driver.specialise.specialisations import Specialisations
from tessella.runtime.signature import ValueInfo
from tessella.support.conditions import UndecidedSizeError
from tessella.support.errors import UnknownValueError
from tessella.support.sizes import MOST, Symbol

X, Y = (ValueInfo(name, "float32", (f"{name}:0",)) for name in "xy")
PLACES = frozenset({"x:0", "y:0"})
Shape = tuple[int, ...]


def table(inputs: Any = (X, Y), openness: Any = None, **settings: Any) -> Specialisations[Key]:
    """A table with keys in place of programs."""
    return Specialisations(inputs, {} if openness is None else openness, most=8, **settings)


def made(table: Specialisations[Key], *sizes: int) -> tuple[Any, ...]:
    """The sizes that the program for a call is compiled for."""
    found = table.get(tuple((n,) for n in sizes), [None] * len(sizes), lambda key, _: key)
    return tuple(size for [size] in found.made)


def symbol(name: str, low: int = MANY) -> Any:
    high = MANY - 1 if low == FEW else MOST
    return Symbol(name, low, high).size


def test_unnamed_dimensions_share_a_symbol_while_they_are_equal() -> None:
    programs = table(unnamed=PLACES)
    assert made(programs, 20, 20) == (20, 20)
    x = symbol("x_0")
    assert made(programs, 30, 30) == (x, x)
    assert made(programs, 20, 20) == (20, 20)
    assert made(programs, 40, 50) == (x, symbol("y_0"))
    assert made(programs, 60, 60) == (x, x)
    assert made(programs, 20, 5) == (x, symbol("y_0", FEW))


def test_equal_sizes_that_were_different_before_are_two() -> None:
    programs = table(unnamed=PLACES)
    assert made(programs, 20, 30) == (20, 30)
    assert made(programs, 40, 40) == (symbol("x_0"), symbol("y_0"))
    assert made(programs, 40, 30) == (symbol("x_0"), symbol("y_0"))


def test_a_size_that_never_varies_is_a_number() -> None:
    programs = table(unnamed=PLACES)
    for x in (20, 30, 1):
        assert made(programs, x, 64)[1] == 64
    assert made(programs, 40, 65) == (symbol("x_0"), symbol("y_0"))


def test_named_dimensions_are_symbolic_beside_unnamed_ones() -> None:
    n = ValueInfo("n", "float32", ("n",))
    programs = table((n, X), {"n": (2, 90)}, unnamed=frozenset({"x:0"}))
    named = Symbol("n", 16, 90).size
    assert made(programs, 20, 5) == (named, 5)
    assert made(programs, 30, 6) == (named, symbol("x_0", FEW))
    assert made(programs, 30, 5) == (named, 5)


def test_fixed_sizes() -> None:
    programs = table(openness="fixed", unnamed=PLACES)
    for sizes in ((20, 20), (30, 30), (30, 40)):
        assert made(programs, *sizes) == sizes
    assert len(programs.programs.made()) == 3


def test_a_size_that_is_a_number_for_different_sizes_is_a_symbol_for_equal_ones() -> None:
    programs = table(unnamed=PLACES)

    def refuse_different(key: Key, _: OpenSizes) -> Key:
        symbols = {str(size) for sizes in key.made for size in sizes if not isinstance(size, int)}
        if len(symbols) > 1:
            raise UndecidedSizeError("x == y holds for some sizes only", symbols)
        return key

    def made_for(*sizes: int) -> tuple[Any, ...]:
        return programs.get(tuple((n,) for n in sizes), [None, None], refuse_different).made

    x = symbol("x_0")
    for n in (20, 30):
        made_for(n, n)
    assert made_for(40, 50) == ((40,), (50,))
    assert made_for(60, 60) == ((x,), (x,))
    assert programs.find(((60,), (60,)), []) == Key(((x,), (x,)))
    assert programs.find(((61,), (61,)), []) is None


def test_values() -> None:
    shape = ValueInfo("shape", "int64", (2,))
    axis = ValueInfo("axis", "int64", ("n",))
    names = {"shape", "axis"}
    programs: Specialisations[Key] = table((shape, axis), determining=names)

    def get(*arrays: Any) -> Key:
        return programs.get(((2,), (1,)), arrays, lambda key, _: key)

    key = get(np.array([20, 4]), np.array([1]))
    assert [str(each) for each in key.sizes] == ["shape = [shape_0_, shape_1_]"]
    assert [str(value) for value in key.values] == ["axis = [1]"]
    assert get(np.array([30, 5]), np.array([1])) is key
    assert get(np.array([30, 5]), np.array([0])) is not key
    with pytest.raises(UnknownValueError, match="'shape', 'axis'"):
        get(None, None)


def test_one_program() -> None:
    fixed = ValueInfo("x", "float32", (3,))
    assert table((fixed,)).has_one
    assert not table((fixed,), determining={"x"}).has_one
    assert not table((X,)).has_one
