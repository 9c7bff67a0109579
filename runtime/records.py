"""Dataclasses and named tuples as JSON, and back. Parsing checks values against their types.

| in Python | in JSON |
|---|---|
| dataclass | object of all fields |
| named tuple, tuple | list |
| mapping | object; its keys are texts |
| dtype | ``{"dtype": name}`` |
| None, bool, int, float, str | the same; a text of a `Literal` is one of its values |
| size with symbols | ``{"sum": [[factor, [symbol or quotient, ..]], ..]}`` |

A dataclass among alternatives is recognised by its fields.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np

from tessella.runtime.elements import dtype_name, dtype_named
from tessella.support.sizes import MOST, Expr, Size, Symbol, product

T = TypeVar("T")

LARGEST = 1 << 47
"""The exclusive upper bound on numbers in records: no more bytes can be addressed."""

_SHOWN = 60
"""Characters of invalid text that an error shows."""

_KINDS = "biufcVT"
"""The kinds of NumPy dtypes that records may name. Numbers that NumPy lacks are structures."""

_SUM = "sum"
_MOST = 64
"""The most symbols in a product."""

_PLAIN = (bool, int, float, str, type(None))


class NotStorableError(Exception):
    """A value has no JSON form."""


class RecordError(ValueError):
    """JSON does not match the record; the message says where, and what was expected."""

    def __init__(self, where: str, expected: str, found: object) -> None:
        self.where = where
        text = repr(found)
        short = f"{text[:_SHOWN]}{'...' * (len(text) > _SHOWN)}"
        super().__init__(f"{where}: expected {expected}, found {short}")


def encoded(value: Any) -> Any:
    """Convert a value to objects that Python's ``json`` can write. Raises NotStorableError for a
    value without a JSON form."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, np.dtype):
        return {"dtype": dtype_name(value)}
    if isinstance(value, Expr):
        terms = value.terms.items()
        return {_SUM: [[factor, [encoded(atom) for atom in atoms]] for atoms, factor in terms]}
    if dataclasses.is_dataclass(value):
        fields = (field.name for field in dataclasses.fields(value))
        return {name: encoded(getattr(value, name)) for name in fields}
    if isinstance(value, Mapping):
        items = cast(Mapping[Any, Any], value).items()
        return {str(key): encoded(item) for key, item in items}
    if isinstance(value, list | tuple):
        return [encoded(item) for item in cast(Sequence[Any], value)]
    raise NotStorableError(f"a value {value!r}")


def decoded(kind: type[T], value: Any) -> T:
    """Return the object of a type that a JSON record describes. Raises RecordError if the record
    does not match the type."""
    return _decoded(kind, value, kind.__name__)


def dtype_of(name: str, where: str) -> np.dtype[Any]:
    """Return the dtype with a public name, such as `float32`. Raises RecordError, which names
    ``where``, unless this is the name of a dtype of numbers or strings."""
    try:
        dtype = dtype_named(name)
        known = dtype_name(dtype)
    except (TypeError, ValueError, KeyError) as error:
        raise RecordError(where, "the name of a dtype", name) from error
    if known != name or dtype.kind not in _KINDS:
        raise RecordError(where, "the name of a dtype of numbers or strings", name)
    return dtype


def _decoded(kind: Any, value: Any, where: str) -> Any:
    if kind in _SCALARS:
        return _SCALARS[kind](value, where)
    origin = get_origin(kind)
    if origin in _GENERIC:
        return _GENERIC[origin](get_args(kind), value, where)
    if hasattr(kind, "_fields"):
        return _named_tuple(kind, value, where)
    return _dataclass(kind, value, where)


def _number(value: Any, where: str) -> int:
    if type(value) is not int or not 0 <= value < LARGEST:
        raise RecordError(where, "a number from 0 on", value)
    return value


def _real(value: Any, where: str) -> float:
    if type(value) not in (int, float) or not 0 <= value < LARGEST:
        raise RecordError(where, "a number from 0 on", value)
    return float(value)


def _text(value: Any, where: str) -> str:
    if type(value) is not str:
        raise RecordError(where, "a text", value)
    return value


def _truth(value: Any, where: str) -> bool:
    if type(value) is not bool:
        raise RecordError(where, "true or false", value)
    return value


def _size(value: Any, where: str) -> Size:
    """Parse a sum of products of symbols."""
    fields = _object(value, where)
    if fields.keys() != {_SUM}:
        raise RecordError(where, "a size", value)
    total: Size = 0
    for term in _list(fields[_SUM], where):
        match term:
            case [int() as factor, [*atoms]] if -LARGEST < factor < LARGEST and len(atoms) < _MOST:
                total = total + factor * product(_atom(atom, where) for atom in atoms)
            case _:
                raise RecordError(where, "a factor and symbols", term)
    return total


def _atom(value: Any, where: str) -> Size:
    match value:
        case {"name": str(name), "low": int(low), "high": int(high)}:
            if not (name.isidentifier() and 0 <= low <= high <= MOST):
                raise RecordError(where, "a symbol with bounds", value)
            return Symbol(name, low, high).size
        case {"numerator": numerator, "divisor": int(divisor)} if 0 < divisor < LARGEST:
            return _size(numerator, where) // divisor
        case _:
            raise RecordError(where, "a symbol or a quotient", value)


def _nothing(value: Any, where: str) -> None:
    if value is not None:
        raise RecordError(where, "null", value)


def _any(value: Any, where: str) -> Any:
    """Parse a setting of an op; lists become tuples."""
    if isinstance(value, list):
        return tuple(_any(item, where) for item in cast(list[Any], value))
    if type(value) in _PLAIN:
        return value
    return (_size if _SUM in _object(value, where) else partial(_dtype, ()))(value, where)


def _dtype(_: Any, value: Any, where: str) -> np.dtype[Any]:
    return dtype_of(_text(_object(value, where).get("dtype"), where), where)


def _union(kinds: Sequence[Any], value: Any, where: str) -> Any:
    failures: list[RecordError] = []
    for kind in kinds:
        try:
            return _decoded(kind, value, where)
        except RecordError as error:
            failures.append(error)
    raise max(failures, key=lambda failure: len(failure.where))  # the error of the best match


def _choice(values: Sequence[Any], value: Any, where: str) -> Any:
    if type(value) is not str or value not in values:
        raise RecordError(where, f"one of {', '.join(map(str, values))}", value)
    return value


def _sequence(kinds: Sequence[Any], value: Any, where: str) -> tuple[Any, ...]:
    items = enumerate(_list(value, where))
    return tuple(_decoded(kinds[0], item, f"{where}[{i}]") for i, item in items)


def _mapping(kinds: Sequence[Any], value: Any, where: str) -> dict[Any, Any]:
    items = _object(value, where).items()
    return {_key(kinds[0], k, where): _decoded(kinds[1], v, f"{where}.{k}") for k, v in items}


def _key(kind: Any, key: str, where: str) -> Any:
    if kind is str:
        return key
    if not (key.isascii() and key.isdigit() and len(key) < 16):
        raise RecordError(where, "keys that are numbers", key)
    return int(key)


def _named_tuple(kind: Any, value: Any, where: str) -> Any:
    hints, items = _hints(kind), _list(value, where)
    if len(items) != len(hints):
        raise RecordError(where, f"{len(hints)} items", value)
    pairs = zip(hints.items(), items, strict=True)
    return kind(*(_decoded(hint, item, f"{where}.{name}") for (name, hint), item in pairs))


def _dataclass(kind: Any, value: Any, where: str) -> Any:
    hints, fields = _hints(kind), _object(value, where)
    if fields.keys() != hints.keys():
        raise RecordError(where, f"an object of {', '.join(hints)}", value)
    items = hints.items()
    return kind(**{name: _decoded(hint, fields[name], f"{where}.{name}") for name, hint in items})


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RecordError(where, "an object", value)
    return cast(dict[str, Any], value)


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise RecordError(where, "a list", value)
    return cast(list[Any], value)


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    return get_type_hints(kind)


_SCALARS: Mapping[Any, Callable[[Any, str], Any]] = {
    int: _number,
    float: _real,
    str: _text,
    bool: _truth,
    type(None): _nothing,
    Any: _any,
    Expr: _size,
}
_GENERIC: Mapping[Any, Callable[[Sequence[Any], Any, str], Any]] = {
    np.dtype: _dtype,
    Literal: _choice,
    Union: _union,
    types.UnionType: _union,
    tuple: _sequence,
    Sequence: _sequence,
    Mapping: _mapping,
}
