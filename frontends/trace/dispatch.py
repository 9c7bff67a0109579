"""Tables that map NumPy's functions and operators to functions of traced arrays.

Modules that define functions fill the tables, and traced arrays read them. The keys of
``FUNCTIONS`` are NumPy's functions, and names of methods without a NumPy function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tessella.support.errors import TessellaError

Function = Callable[..., Any]

UFUNCS: dict[np.ufunc, Function] = {}
ACCUMULATIONS: dict[np.ufunc, Function] = {}
"""The implementation of the method ``accumulate`` of ufuncs, by ufunc."""
STORES: dict[np.ufunc, Function] = {}
"""The implementation of the method ``at`` of ufuncs, by ufunc, for arrays that a traced function
has made."""
FUNCTIONS: dict[Function | str, Function] = {}

VIEWS: frozenset[Function | str] = frozenset(
    {"indexing", np.reshape, np.transpose, np.swapaxes, np.moveaxis, np.squeeze, np.expand_dims}
    | {np.ravel, np.broadcast_to, np.flip, np.real, np.imag}
)
"""Functions whose results may share the memory of their first argument."""

_RENAMED = {
    "newshape": "shape",
    "a_min": "low",
    "a_max": "high",
    "min": "low",
    "max": "high",
}
_IGNORED: Mapping[str, Any] = {
    "out": None,
    "order": "C",
    "copy": None,
    "casting": "same_kind",
    "subok": False,
    "initial": None,
}
"""Parameters that are ignored if they have these values."""


_SEGMENTS: Mapping[np.ufunc, tuple[str, str]] = {
    np.add: ("y + {}", "segment_sum"),
    np.multiply: ("y * {}", "segment_prod"),
    np.maximum: ("np.maximum(y, {})", "segment_max"),
    np.minimum: ("np.minimum(y, {})", "segment_min"),
}
"""What hints of errors suggest instead of ``np.add.at`` and the like, by ufunc: an expression, in
which ``{}`` stands for a call, and the name of tessella's function that this call runs."""
_CHOOSE = "choose elements with tessella.where(condition, x, other)"
_OF_ELEMENTS: Mapping[Function | str, str] = {
    np.nonzero: _CHOOSE,
    np.flatnonzero: _CHOOSE,
    np.argwhere: _CHOOSE,
    np.compress: _CHOOSE,
    np.extract: _CHOOSE,
    np.unique: "sort with tessella.sort, or count with np.bincount(x, minlength=n)",
}
"""Functions whose result shapes depend on elements, which cannot be traced, with alternatives for
hints."""
_PUT = "write y = tessella.put_along_axis(y, indices, values, axis)"
_CHANGING: Mapping[Function | str, str] = {
    np.put_along_axis: _PUT,
    np.put: _PUT,
    np.place: "write y = tessella.where(mask, values, y)",
    np.putmask: "write y = tessella.where(mask, values, y)",
    np.copyto: "write y = x, or y = tessella.where(mask, x, y)",
}
"""Functions that change an array, which cannot be traced, with alternatives for hints."""


def call_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]):
    """Return the result of a ufunc, or of one of its methods, on traced arrays. Raises
    TessellaError if it is unknown."""
    if method == "accumulate" and ufunc in ACCUMULATIONS:
        return _called(f"np.{ufunc.__name__}.accumulate", ACCUMULATIONS[ufunc], inputs, kwargs)
    if method == "at":
        if ufunc not in STORES or not isinstance(inputs[0], Dispatched):
            raise _writes(ufunc)
        return _called(f"np.{ufunc.__name__}.at", STORES[ufunc], inputs, kwargs)
    known = UFUNCS.get(ufunc)
    if known is None or method != "__call__":
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        raise _unknown(f"np.{name}")
    if any(value is not None for value in kwargs.values()):
        raise _wrong_argument(f"np.{ufunc.__name__}", ", ".join(kwargs))
    return known(*inputs)


def _called(name: str, known: Function, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a function that accepts some of NumPy's parameters. Raises TessellaError if another one
    is not None."""
    accepted = inspect.signature(known).parameters
    for key, value in kwargs.items():
        if key not in accepted and value is not None:
            raise _wrong_argument(name, key)
    return known(*inputs, **{k: v for k, v in kwargs.items() if k in accepted})


def call_function(function: Function | str, args: tuple[Any, ...], kwargs: Mapping[str, Any]):
    """Return the result of a NumPy function on these arguments, some of which are traced. Raises
    TessellaError if the function is unknown."""
    name = function if isinstance(function, str) else _name(function)
    known = FUNCTIONS.get(function)
    if known is None:
        raise _refused(name, function)
    args, kwargs = _translated(name, function, known, args, kwargs)
    result = known(*args, **kwargs)
    is_view = function in VIEWS and args and isinstance(args[0], Dispatched)
    return args[0].viewed(result) if is_view else result


class Dispatched:
    """A base of traced values: NumPy's functions and ufuncs on them are looked up in the tables of
    this module."""

    __slots__ = ()

    def viewed(self, result: Any) -> Any:
        """Return the result of a function, which is a view of this value. Subclasses mark it as a
        view."""
        return result

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return call_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(
        self, func: Function, types: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        return call_function(func, args, kwargs)


def _name(function: Function) -> str:
    return f"{function.__module__.replace('numpy', 'np', 1)}.{function.__name__}"


def _translated(
    name: str,
    function: Function | str,
    known: Function,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Return the arguments of a NumPy function with the parameter names of tessella's function.
    Raises TessellaError for an argument that it does not accept."""
    if isinstance(function, str):
        return args, kwargs
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:
        # older versions of NumPy have no signatures of C functions
        return args, kwargs
    named = dict(zip(parameters, args, strict=False)) | dict(kwargs)
    accepted = inspect.signature(known).parameters
    if len(args) > len(parameters) or not named:
        return args, kwargs
    first, *rest = named.items()
    translated: dict[str, Any] = {}
    for key, value in rest:
        ours = _RENAMED.get(key, key)
        if ours in accepted:
            translated[ours] = value
        elif key not in _IGNORED or value is not _IGNORED[key]:
            raise _wrong_argument(name, key)
    return (first[1],), translated


def _writes(ufunc: np.ufunc) -> TessellaError:
    name, instead = f"np.{ufunc.__name__}.at", _SEGMENTS.get(ufunc)
    hint = "make a new array with tessella.put_along_axis or tessella.where"
    if instead is not None:
        symbol, function = instead
        values = f"tessella.{function}(values, indices, len(y))"
        hint = f"make y with tessella.zeros(shape), or write y = {symbol.format(values)}"
    return TessellaError(f"{name} changes an array, which a trace cannot follow", hint=hint)


def _refused(name: str, function: Function | str) -> TessellaError:
    if function in _OF_ELEMENTS:
        return TessellaError(
            f"the shape of what {name} gives depends on elements, which are not known while "
            "tracing",
            hint=f"apply it to the result, in NumPy, or {_OF_ELEMENTS[function]}",
        )
    if function in _CHANGING:
        return TessellaError(
            f"{name} changes an array, which a trace cannot follow", hint=_CHANGING[function]
        )
    return _unknown(name)


def _unknown(name: str) -> TessellaError:
    return TessellaError(
        f"{name} is not known for traced arrays",
        hint="docs/jit.md lists the functions that are; apply others to the results, in NumPy",
    )


def _wrong_argument(name: str, argument: str) -> TessellaError:
    return TessellaError(f"{name} of a traced array does not take {argument!r}")
