"""Nested tuples, lists and dictionaries: flattening to leaves, and rebuilding."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, cast

_MAX_DEPTH = 100
"""The maximum nesting depth of arguments; deeper values count as leaves."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The structure of nested containers without their leaves. Equal structures compare equal and
    have equal hashes."""

    kind: type[Any] | None = None
    """The container's type; None for a leaf."""
    keys: tuple[Hashable, ...] = ()
    children: tuple[Tree, ...] = ()

    def unflatten(self, leaves: Iterator[Any]) -> Any:
        """Return a value with this structure and the leaves that the iterator yields."""
        if self.kind is None:
            return next(leaves)
        values = [child.unflatten(leaves) for child in self.children]
        if self.kind is type(None):
            return None
        if self.kind is dict:
            return dict(zip(self.keys, values, strict=True))
        return self.kind(*values) if hasattr(self.kind, "_fields") else self.kind(values)

    def paths(self, name: str) -> Iterator[str]:
        """Yield an expression for each leaf of a value called ``name``, such as
        ``params['w'][0]``."""
        if self.kind is None:
            yield name
        for key, child in zip(self.keys, self.children, strict=True):
            yield from child.paths(f"{name}[{key!r}]")


LEAF = Tree()
_NONE = Tree(type(None))


def flatten(value: Any, leaves: list[Any], depth: int = 0) -> Tree:
    """Return the structure of a value, and append its leaves to ``leaves`` in order.

    Containers are tuples, named tuples, lists, dictionaries and None (which has no leaves).
    """
    kind = cast(type[Any], type(value))
    if value is None:
        return _NONE
    if not (kind in (tuple, list, dict) or _is_named_tuple(value)) or depth > _MAX_DEPTH:
        leaves.append(value)
        return LEAF
    keys: tuple[Hashable, ...]
    if kind is dict:
        keys, values = tuple(value), tuple(value.values())
    else:
        keys, values = tuple(range(len(value))), tuple(value)
    return Tree(kind, keys, tuple(flatten(child, leaves, depth + 1) for child in values))


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(cast("tuple[Any, ...]", value), "_fields")
