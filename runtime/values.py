"""The values that pass between steps of a program with graph breaks: arrays, lists of them, and
dictionaries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from numpy.lib.array_utils import byte_bounds

from tessella.runtime.elements import dtype_name, public

Array = npt.NDArray[Any]

Value = Any
"""An array; a list of arrays or dictionaries, for a sequence; a dictionary, for a map; or None, an
optional without an element.

Values are never modified.
"""


def kind_of(value: Value) -> str:
    """Return the type of a value, as a signature names it: a dtype's name, ``sequence``, ``map``,
    or ``optional`` for None."""
    if value is None:
        return "optional"
    if isinstance(value, dict):
        return "map"
    return "sequence" if isinstance(value, list) else dtype_name(value.dtype)


def shape_of(value: Value) -> tuple[int, ...]:
    """Return the shape of a value; empty for a value that is not an array."""
    return value.shape if isinstance(value, np.ndarray) else ()


def is_value(value: object) -> bool:
    """Return whether an object is an array, a dictionary, a list of these, or None."""
    if isinstance(value, list):
        return all(isinstance(item, np.ndarray | dict) for item in cast(list[object], value))
    return value is None or isinstance(value, np.ndarray | dict)


def as_public(value: Value) -> Value:
    """Return a value with its arrays as callers get them: see `elements.public`."""
    if isinstance(value, list):
        return [as_public(item) for item in cast(list[Value], value)]
    return public(value) if isinstance(value, np.ndarray) else value


def arrays_in(values: Iterable[Value]) -> Iterator[Array]:
    """Yield all arrays among values, including the arrays in lists."""
    for value in values:
        for item in cast(list[Value], value) if isinstance(value, list) else (value,):
            if isinstance(item, np.ndarray):
                yield item


def owned(values: Sequence[Value], taken: Collection[Value]) -> list[Value]:
    """Return values that the caller may modify.

    Arrays are copied if they are read-only, or share memory with ``taken`` or with each other.
    Lists are new.
    """
    if are_apart(values, taken):
        return [*values]
    known, found = [*arrays_in(taken)], [*arrays_in(values)]
    shared = sharing([*known, *found])
    kept = (i not in shared and x.flags.writeable for i, x in enumerate(found, len(known)))
    arrays = iter([x if keep else x.copy() for x, keep in zip(found, kept, strict=True)])
    return [_with(value, arrays) for value in values]


def are_apart(values: Sequence[Value], taken: Iterable[Value]) -> bool:
    """Return whether all ``values`` are writable arrays that share memory neither with each other
    nor with ``taken``."""
    owners = set[int]()
    for x in values:
        if not isinstance(x, np.ndarray):
            return False
        owner = x if x.base is None else x.base
        if not (type(owner) is np.ndarray and owner.flags.owndata and x.flags.writeable):
            return False
        owners.add(id(owner))
    for x in taken:
        if not isinstance(x, np.ndarray) or id(x if x.base is None else x.base) in owners:
            return False
    return len(owners) == len(values)


def sharing(arrays: Sequence[Array]) -> set[int]:
    """Return the indices of the arrays that share memory with an earlier array, judged by the
    address range of each array."""
    spans = sorted((*byte_bounds(x), i) for i, x in enumerate(arrays) if x.size)
    groups: list[list[int]] = []
    last = 0
    for first, end, i in spans:
        if first >= last:
            groups.append([])
        groups[-1].append(i)
        last = max(last, end)
    return {i for group in groups for i in sorted(group)[1:]}


def _with(value: Value, arrays: Iterator[Array]) -> Value:
    """Return a value with its arrays replaced by the next ones of ``arrays``."""
    if isinstance(value, list):
        return [_with(item, arrays) for item in cast(list[Value], value)]
    if isinstance(value, dict):
        return dict(cast(dict[Any, Any], value))
    return None if value is None else next(arrays)
