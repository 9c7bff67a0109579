"""What passes between the steps of a program that is cut: arrays, and lists of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from numpy.lib.array_utils import byte_bounds

from tessella.runtime.elements import dtype_name

Array = npt.NDArray[Any]

Value = Any
"""An array; a list of arrays, which is a sequence; or None, an optional without an element. Nothing
is written to once it is there."""


def kind_of(value: Value) -> str:
    """Its type in a signature."""
    if value is None:
        return "optional"
    return "sequence" if isinstance(value, list) else dtype_name(value.dtype)


def shape_of(value: Value) -> tuple[int, ...]:
    """Its shape; none of what is no array."""
    return value.shape if isinstance(value, np.ndarray) else ()


def is_value(value: object) -> bool:
    """Whether it is an array, a list of arrays, or None."""
    if isinstance(value, list):
        return all(isinstance(item, np.ndarray) for item in cast(list[object], value))
    return value is None or isinstance(value, np.ndarray)


def arrays_in(values: Iterable[Value]) -> Iterator[Array]:
    """All arrays, those in lists among them."""
    for value in values:
        if isinstance(value, list):
            yield from cast(list[Array], value)
        elif value is not None:
            yield value


def owned(values: Sequence[Value], taken: Collection[Value]) -> list[Value]:
    """Values that the caller may write to: arrays that are read-only, or share memory with what is
    taken or with each other, are copied, and lists are new ones."""
    if _are_apart(values, taken):
        return [*values]
    known, found = [*arrays_in(taken)], [*arrays_in(values)]
    shared = sharing([*known, *found])
    kept = (i not in shared and x.flags.writeable for i, x in enumerate(found, len(known)))
    arrays = iter([x if keep else x.copy() for x, keep in zip(found, kept, strict=True)])
    return [_with(value, arrays) for value in values]


def _are_apart(values: Sequence[Value], taken: Collection[Value]) -> bool:
    """Whether these are arrays that can be written to, and their memory belongs to arrays of which
    each is that of one of them alone."""
    owners = set[int]()
    for x in values:
        if not isinstance(x, np.ndarray):
            return False
        owner = _owner(x)
        if not (isinstance(owner, np.ndarray) and owner.flags.owndata and x.flags.writeable):
            return False
        owners.add(id(owner))
    for x in taken:
        if not isinstance(x, np.ndarray) or id(_owner(x)) in owners:
            return False
    return len(owners) == len(values)


def _owner(x: Array) -> object:
    """What an array's memory belongs to."""
    return x if x.base is None else x.base


def sharing(arrays: Sequence[Array]) -> set[int]:
    """The arrays that share memory with one before them, as far as the bounds of each tell."""
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
    """A value with these arrays for its own."""
    if isinstance(value, list):
        return [next(arrays) for _ in cast(list[Array], value)]
    return None if value is None else next(arrays)
