"""Functions on dictionaries: steps after a graph break."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from tessella.runtime.elements import converted, dtype_named
from tessella.runtime.texts import STRING
from tessella.runtime.values import Array, Value
from tessella.support.errors import ExecutionError, InputError, ShapeError


def zip_map(inputs: Sequence[Value], *, keys: Sequence[int | str]) -> Sequence[Value]:
    """Return a dictionary for each row, with the row's numbers by keys. Raises ShapeError for rows
    of another length."""
    x = np.atleast_2d(inputs[0])
    if x.ndim != 2 or x.shape[1] != len(keys):
        raise ShapeError(
            "the rows do not fit the keys", expected=f"[rows, {len(keys)}]", found=str(x.shape)
        )
    return [[dict(zip(keys, row, strict=True)) for row in x.tolist()]]


def vectorize(inputs: Sequence[Value], *, keys: Sequence[int | str]) -> Sequence[Array]:
    """Return the values of a dictionary in the order of keys, as a row, with 0 or an empty string
    for an absent key. For a list of dictionaries, return a row for each. Raises ExecutionError for
    a key that is not listed."""
    rows = _dictionaries(inputs[0])
    known = {*keys}
    for row in rows:
        if not row.keys() <= known:
            raise ExecutionError(
                "a dictionary has an unknown key", found=repr(min(row.keys() - known, key=str))
            )
    values = [value for row in rows for value in row.values()]
    dtype = _dtype_of(values)
    absent = "" if dtype == STRING else 0
    found = [[row.get(key, absent) for key in keys] for row in rows]
    return [np.array(found, dtype).reshape((len(rows), len(keys)))]


def _dtype_of(values: Sequence[Any]) -> np.dtype[Any]:
    """Return the dtype of a dictionary's values: int64 for integers and booleans, that of strings
    for strings, float64 if one of them is a NumPy float64, otherwise float32."""
    kinds = {np.asarray(value).dtype.kind for value in values}
    if kinds & {"U", "T", "O"}:
        return STRING
    if kinds <= {"i", "u", "b"}:
        return np.dtype(np.int64)
    is_wide = any(isinstance(value, np.float64) for value in values)
    return np.dtype(np.float64 if is_wide else np.float32)


def cast_map(inputs: Sequence[Value], *, to: str, size: int | None) -> Sequence[Array]:
    """Return the values of a dictionary by rising keys as one row, converted to a dtype. With a
    ``size``, the row has this length, and the keys are positions. Raises ExecutionError for a key
    out of range."""
    (row,) = _dictionaries(inputs[0])
    dtype = dtype_named(to)
    values = converted(_of_values([row[key] for key in sorted(row)]), dtype)
    if size is None:
        return [values.reshape((1, -1))]
    keys = np.array(sorted(row), np.int64)
    if ((keys < 0) | (keys >= size)).any():
        raise ExecutionError("a key is out of range", expected=f"in [0, {size})", found=str(keys))
    found = np.zeros((1, size), dtype)
    found[0, keys] = values
    return [found]


def _of_values(values: Sequence[Any]) -> Array:
    return np.array(values, _dtype_of(values))


def _dictionaries(value: Value) -> Sequence[Mapping[Any, Any]]:
    """Return a dictionary, or the dictionaries of a list. Raises InputError for other values."""
    found = cast(list[Value], value) if isinstance(value, list) else [value]
    for item in found:
        if not isinstance(item, dict):
            raise InputError("a dictionary is needed", found=type(item).__name__)
    return found


MAPS: Mapping[str, Callable[..., Sequence[Value]]] = {
    "zip_map": zip_map,
    "dict_vectorize": vectorize,
    "cast_map": cast_map,
}
