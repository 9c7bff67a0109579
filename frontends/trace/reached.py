"""The values that a function reads from its surroundings: globals, closures and defaults, and their
elements and attributes.

    def step(x):    # reaches model and its attributes, np, np.random, normal, noise
        return x * model.scale + noise(np.random.normal())    # and the values that noise reads
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, cast

import numpy as np

from tessella.frontends.trace.location import is_users

MOST = 4096
"""The maximum number of values that are visited, those at the fewest steps from the roots first."""

_LEAVES = (np.ndarray, np.generic, str, bytes, int, float, complex, range, type(None))

Names = frozenset[str]


def reached(*roots: Any) -> list[Any]:
    """Return the roots and all values that can be reached from them: those that functions read, and
    elements and attributes of values."""
    todo = deque([(root, Names()) for root in roots])
    seen: dict[int, Any] = {}
    while todo and len(seen) < MOST:
        value, names = todo.popleft()
        if id(value) not in seen:
            seen[id(value)] = value
            todo.extend(_inside(value, names))
    return list(seen.values())


def _inside(value: Any, names: Names) -> Iterable[tuple[Any, Names]]:
    """Return the values that can be reached from a value in one step, each with the names that code
    uses. A module contributes only values with these names."""
    if isinstance(value, FunctionType):
        return _around(value) if is_users(value.__module__) else ()
    if isinstance(value, _LEAVES):
        return ()
    return ((each, names) for each in _members(value, names))


def _members(value: Any, names: Names) -> Iterable[Any]:
    if isinstance(value, functools.partial):
        partial = cast("functools.partial[Any]", value)
        return [partial.func, *partial.args, *partial.keywords.values()]
    if isinstance(value, MethodType):
        return [value.__func__, value.__self__]
    if isinstance(value, list | tuple | set | frozenset):
        return list(cast("Iterable[Any]", value))
    if isinstance(value, dict):
        return list(cast("dict[Any, Any]", value).values())
    if isinstance(value, staticmethod | classmethod):
        return [cast(Any, value).__func__]
    if isinstance(value, property):
        return [value.fget]
    if isinstance(value, ModuleType):
        return [vars(value)[name] for name in names if name in vars(value)]
    if isinstance(value, type):
        return [*vars(value).values(), *value.__bases__] if is_users(value.__module__) else ()
    if is_users(type(value).__module__):
        return [*getattr(value, "__dict__", {}).values(), type(value)]
    return [getattr(value, "__wrapped__", None)]  # such as a function under jit


def _around(function: FunctionType) -> Iterator[tuple[Any, Names]]:
    names = Names(name for code in _codes(function.__code__) for name in code.co_names)
    for name in names & function.__globals__.keys():
        yield function.__globals__[name], names
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents, names
        except ValueError:  # the variable is not assigned yet
            continue
    yield function.__defaults__, names
    yield function.__kwdefaults__, names


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code object of a function, and those of functions that it defines."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
