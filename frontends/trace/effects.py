"""What a traced function may not do: a trace would lose it, or repeat its result.

x += 1                      with x an argument, or a view: the caller's array would not change
z = y;  y += 1;  z          z would have its old elements
x + np.random.rand(4)       each call would have the same numbers
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from xdsl.ir import BlockArgument

from tessella.frontends.trace.dispatch import call_ufunc
from tessella.frontends.trace.location import caller
from tessella.support.errors import TessellaError

_COPY = "write x = x.copy() first, or x = x + .. in place of x += .."


def in_place(ufunc: np.ufunc) -> Callable[[Any, Any], Any]:
    """The method of an operator such as ``+=``. The array that it changes is not used again: the
    name that it is assigned to has the result."""

    def method(self: Any, other: Any) -> Any:
        if not self.sizes:  # what NumPy computes of no dimension is a number, and not changed
            return call_ufunc(ufunc, "__call__", (self, other), {})
        _check_owned(self)
        result = call_ufunc(ufunc, "__call__", (self, other), {})
        if result.sizes != self.sizes:
            raise self.trace.failed(
                TessellaError(
                    "the result does not fit the array that it is stored in",
                    expected=repr(self),
                    found=repr(result),
                )
            )
        if not np.can_cast(result.dtype, self.dtype, "same_kind"):
            raise self.trace.failed(
                TessellaError(
                    f"{result.dtype} cannot be stored in an array of {self.dtype}", hint=_COPY
                )
            )
        result = self.trace.cast(result, self.dtype)
        self.changed = str(caller() or "an earlier line")
        return result

    return method


def _check_owned(x: Any) -> None:
    """Raise TessellaError for an array whose memory others have."""
    if x.base is not None:
        what = "a view of another array"
    elif isinstance(x.value, BlockArgument) and not x.is_copy:
        what = "an argument, which belongs to the caller,"
    else:
        return
    error = TessellaError(f"{what} cannot be stored into while tracing", found=repr(x), hint=_COPY)
    raise x.trace.failed(error)


def check_unchanged(x: Any) -> None:
    """Raise TessellaError for an array, or a view of one, that was changed in place since."""
    each = x
    while each is not None:
        if each.changed is not None:
            error = TessellaError(
                "an array that was changed in place is used by another name, which a trace cannot "
                "follow",
                found=f"{x!r}, changed at {each.changed}",
                hint=_COPY,
            )
            raise x.trace.failed(error)
        each = each.base


@contextmanager
def no_randomness(function: Callable[..., Any]) -> Generator[None]:
    """Raise TessellaError after a block in which random numbers were drawn by NumPy's functions, or
    by a generator that the function names."""
    generators = [*_generators(function)]
    before = [_state(each) for each in generators]
    yield
    for each, state in zip(generators, before, strict=True):
        if _state(each) != state:
            raise TessellaError(
                "random numbers are drawn while tracing: each call would have the same",
                where=_place(function),
                found="np.random" if each is np.random else repr(each),
                hint="draw them before the call, and pass the array as an argument",
            )


def _generators(function: Callable[..., Any]) -> Iterator[Any]:
    """NumPy's own, and those among the function's globals and in its closure."""
    yield np.random
    code = getattr(function, "__code__", None)
    if code is None:
        return
    known: dict[str, Any] = getattr(function, "__globals__", {})
    held = [known.get(name) for name in code.co_names]
    for cell in function.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # it is empty
            continue
    yield from (x for x in held if isinstance(x, np.random.Generator | np.random.RandomState))


def _state(generator: Any) -> str:
    if isinstance(generator, np.random.Generator):
        return repr(generator.bit_generator.state)
    name, keys, *others = generator.get_state()
    return repr((name, keys.tobytes(), others))


def _place(function: Callable[..., Any]) -> str:
    try:
        lines = inspect.getsourcelines(function)[1]
        return f"{inspect.getsourcefile(function)}:{lines}, in {function.__name__}"
    except (OSError, TypeError):
        return repr(function)
