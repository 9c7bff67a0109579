"""Errors for side effects that a trace would lose, or whose result it would repeat.

    x += 1                    with x an argument, or a view: the caller's array would not change
    z = y[1:];  y += 1;  z    z would have its old elements

`frontends/trace/outside.py` handles effects outside of the trace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from xdsl.ir import BlockArgument

from tessella.frontends.trace.dispatch import call_ufunc
from tessella.frontends.trace.location import caller
from tessella.support.errors import TessellaError, UnknownAttributeError

_COPY = "write x = x.copy() first, or x = x + .. in place of x += .."


def in_place(ufunc: np.ufunc) -> Callable[[Any, Any], Any]:
    """Return the method of an in-place operator such as ``+=``, which applies ``ufunc`` and stores
    the result.

    The array then stands for the result. An array without dimensions is not changed, as in NumPy.
    """

    def method(self: Any, other: Any) -> Any:
        if not self.sizes:  # NumPy's results without dimensions are immutable scalars
            return call_ufunc(ufunc, "__call__", (self, other), {})
        check_owned(self)
        result = call_ufunc(ufunc, "__call__", (self, other), {})
        if result.sizes != self.sizes:
            raise self.trace.failed(
                TessellaError(
                    "the result does not fit the array that it is stored in",
                    expected=repr(self),
                    found=repr(result),
                )
            )
        check_castable(result.dtype, self)
        self.store(result.value.cast(self.dtype))
        return self

    return method


def check_castable(dtype: np.dtype[Any], x: Any) -> None:
    """Raise TessellaError if NumPy does not store elements of a dtype in the array ``x``."""
    if not np.can_cast(dtype, x.dtype, "same_kind"):
        raise x.trace.failed(
            TessellaError(f"{dtype} cannot be stored in an array of {x.dtype}", hint=_COPY)
        )


def check_owned(x: Any) -> None:
    """Raise TessellaError if storing into the array ``x`` would change another array: it is a view
    or an argument."""
    if x.base is not None:
        what = "a view of another array"
    elif isinstance(x.value.ssa, BlockArgument) and not x.is_copy:
        what = "an argument, which belongs to the caller,"
    else:
        return
    error = TessellaError(f"{what} cannot be stored into while tracing", found=repr(x), hint=_COPY)
    raise x.trace.failed(error)


def check_unchanged(x: Any, used: str | None = None) -> None:
    """Raise TessellaError if ``x`` is a view of an array that has changed since the view was made.

    The error is at the line that changed the array; ``used`` tells where the view is used.
    """
    each = x
    while each.base is not None:
        if each.base.stores != each.seen:
            error = TessellaError(
                "a view of an array is used that was changed in place since, which a trace cannot "
                "follow",
                where=each.base.stored_at,
                found=f"{x!r}, used {used or f'at {caller()}'}",
                hint=_COPY,
            )
            raise x.trace.failed(error)
        each = each.base


_LISTED = "docs/jit.md lists what traced arrays have; apply the rest to results, in NumPy"
_WHERE = "make a new array with tessella.where(condition, a, b)"
_HINTS = {
    "flat": f"read x.reshape(-1)[i]; in place of x.flat[i] = v {_WHERE}",
    "itemset": _WHERE,
    "choose": _WHERE,
    "view": "convert elements with x.astype(dtype)",
    "nonzero": "shapes cannot depend on elements: choose with tessella.where(condition, a, b)",
}
"""Alternatives to attributes of NumPy's arrays that traced arrays do not have."""

_ASSIGNED = {
    "shape": "write x = x.reshape(shape)",
    "dtype": "write x = x.astype(dtype)",
    "flat": "write x = tessella.full_like(x, value)",
}
"""Alternatives to setting an attribute of a traced array."""


def unknown_attribute(x: Any, name: str) -> AttributeError:
    """Return the error for reading an attribute that a traced array does not have."""
    if name.startswith("_") or not (hasattr(np.ndarray, name) or name in _HINTS):
        return AttributeError(f"{type(x).__name__!r} object has no attribute {name!r}")
    return UnknownAttributeError(
        f"{name!r} of an array is not known for traced arrays",
        found=repr(x),
        hint=_HINTS.get(name, _LISTED),
    )


def unassigned(name: str) -> Callable[[Any, Any], NoReturn]:
    """Return the setter of an attribute of a traced array, which raises TessellaError."""

    def assign(self: Any, value: Any) -> NoReturn:
        error = TessellaError(
            f"{name!r} of a traced array cannot be assigned",
            found=repr(self),
            hint=_ASSIGNED.get(name, _WHERE),
        )
        raise self.trace.failed(error)

    return assign
