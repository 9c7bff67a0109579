"""Errors say what is wrong, at which line of the user's, and what to do."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tessella
from tessella.frontends.trace.location import is_users
from tessella.support.errors import InputError, OptionError, ShapeError, TessellaError
from tests.frontends.trace.checks import array

SEVERAL: Any = (0, 1)


def branches(x: Any) -> Any:
    return x if x.sum() > 0 else -x


def loops(x: Any) -> Any:
    return sum(row for row in x)


def unpacks(x: Any) -> Any:
    a, b = x
    return a + b


def assigns(x: Any) -> Any:
    x[0] = 1
    return x


def assigns_into_an_array(x: Any) -> Any:
    out = np.zeros(2)
    out[0] = x[0, 0]
    return out


def converts_to_int(x: Any) -> Any:
    return range(int(x[0, 0]))


def converts_to_float(x: Any) -> Any:
    return math.exp(x)


def makes_an_array(x: Any) -> Any:
    return np.array([x, x])


def asks_for_an_item(x: Any) -> Any:
    return x.sum().item()


def has_an_axis_that_is_traced(x: Any) -> Any:
    return x.sum(axis=x[0, 0].astype(int))


def has_a_slice_that_is_traced(x: Any) -> Any:
    return x[: x[0, 0].astype(int)]


def indexes_an_array(x: Any) -> Any:
    return np.ones(3)[x.astype(int)]


@pytest.mark.parametrize(
    "function, what, hint",
    [
        (
            branches,
            r"bool\(\), and with it if",
            r"tessella.where\(condition, a, b\).*static_argnames",
        ),
        (loops, "a for loop over an array", r"index it: x\[0\]"),
        (unpacks, "unpacking it", "index it"),
        (assigns, "an argument, which belongs to the caller", "x.copy"),
        (assigns_into_an_array, r"float\(\) needs the elements", r"x.astype\(float\)"),
        (converts_to_int, r"int\(\) needs the elements", r"x.astype\(int\)"),
        (
            converts_to_float,
            r"float\(\) needs the elements",
            "tessella.exp .* in place of math.exp",
        ),
        (makes_an_array, "cannot become a NumPy array", r"tessella.stack\(\[x, y\]\)"),
        (asks_for_an_item, r"item\(\) needs the elements", "return the array"),
        (has_an_axis_that_is_traced, "a shape, an axis or the bound", "static_argnames"),
        (has_a_slice_that_is_traced, "a shape, an axis or the bound", "static_argnames"),
        (indexes_an_array, "cannot become a NumPy array", r"tessella.take\(table, x, axis=0\)"),
    ],
)
def test_what_needs_the_elements(function: Callable[[Any], Any], what: str, hint: str) -> None:
    with pytest.raises(TessellaError, match=what) as caught:
        tessella.jit(function)(array((2, 3)))
    assert caught.value.hint is not None
    assert caught.match(hint)
    lines, first = inspect.getsourcelines(function)
    path, line, source = str(caught.value.where).split(":", 2)
    assert path == __file__
    assert source.strip() == lines[int(line) - first].strip()
    assert caught.traceback[-1].path != __file__


def helper(x: Any, y: Any) -> Any:
    return x + y


def test_shape_errors_carry_the_innermost_line_of_the_user() -> None:
    line = inspect.getsourcelines(helper)[1] + 1
    with pytest.raises(ShapeError, match="do not broadcast") as caught:
        tessella.jit(lambda x, y: helper(x, y) * 2)(array((2, 3)), array((4,)))
    assert caught.value.where == f"{__file__}:{line}: return x + y"
    assert caught.value.found == "2x3 and 4"


def test_eager_errors_carry_the_line_of_the_call() -> None:
    with pytest.raises(ShapeError) as caught:
        tessella.reshape(array((2, 3)), (4, 2))
    assert str(caught.value.where).startswith(f"{__file__}:")
    assert "tessella.reshape(array((2, 3)), (4, 2))" in str(caught.value.where)


def test_python_errors_stay_as_they_are() -> None:
    with pytest.raises(AttributeError, match="'Traced' object has no attribute 'foo'"):
        tessella.jit(lambda x: x.foo)(array((2,)))
    with pytest.raises(TypeError, match="unhashable"):
        tessella.jit(lambda x: {x: 1})(array((2,)))


def identity(x: Any, **_: Any) -> Any:
    return x


@pytest.mark.parametrize(
    "call, error, what",
    [
        (lambda: tessella.jit(identity)("a"), InputError, r"(?s)'x' is not an array.*static_argn"),
        (
            lambda: tessella.jit(identity)({"k": [object()]}),
            InputError,
            r"\"x\['k'\]\[0\]\" is not",
        ),
        (lambda: tessella.jit(identity)(1 << 70), InputError, "'x' is not an array"),
        (
            lambda: tessella.jit(identity)(np.longdouble(1)),
            InputError,
            r"(?s)not supported.*float128.*astype",
        ),
        (lambda: tessella.jit(lambda x: "s")(1), InputError, "returns a str"),
        *(
            (lambda f=f: tessella.jit(f)(array((2, 3))), ShapeError, "one axis is needed")
            for f in (
                lambda x: x.argmax((0, 1)),
                lambda x: tessella.softmax(x, axis=SEVERAL),
                lambda x: np.concatenate([x, x], axis=SEVERAL),
            )
        ),
        *(
            (lambda f=f: tessella.jit(f)(array((1, 1))), ShapeError, "an axis is given twice")
            for f in (
                lambda x: np.squeeze(x, (0, -2)),
                lambda x: np.flip(x, (1, 1)),
                lambda x: x.sum((0, 0)),
                lambda x: x.transpose(0, 0),
            )
        ),
        (lambda: tessella.jit(identity, static_argnames="q"), OptionError, "unknown parameter 'q'"),
        (lambda: tessella.jit(identity, places=["moon"]), OptionError, "moon"),
        (lambda: tessella.jit(identity, target="z80"), OptionError, "z80"),
        (lambda: tessella.jit(identity, static_argnames="x")([1]), InputError, "cannot be hashed"),
        (lambda: tessella.jit(identity).lower(1).as_text("wasm"), OptionError, "no stage 'wasm'"),
    ],
)
def test_wrong_calls(call: Callable[[], Any], error: type[TessellaError], what: str) -> None:
    with pytest.raises(error, match=what):
        call()


def test_arrays_that_escape() -> None:
    kept: list[Any] = []
    tessella.jit(lambda x: (kept.append(x), x)[1])(array((2,)))
    uses: list[Callable[[], Any]] = [
        lambda: kept[0] + 1,
        lambda: np.exp(kept[0]),
        lambda: tessella.softmax(kept[0]),
        lambda: tessella.jit(lambda x: x + kept[0])(array((2,))),
    ]
    for use in uses:
        with pytest.raises(TessellaError, match="outside of the call that it belongs to"):
            use()


def test_generated_code_is_not_the_users() -> None:
    class Point(NamedTuple):
        x: int

    assert not is_users(Point.__new__.__globals__["__name__"])
    assert not is_users(None)
    assert is_users(test_generated_code_is_not_the_users.__module__)
