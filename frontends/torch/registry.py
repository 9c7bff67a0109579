"""The registry of converters of ATen ops: one row for each overload, registered by a decorator.

    @aten("addmm")
    def addmm(emit: Emitter, bias: Value, a: Value, b: Value, *, beta=1, alpha=1) -> Value: ...

A converter takes the emitter and the arguments of the op's schema, in its order and under its
names: tensors as values, symbolic sizes as sizes, dtypes as NumPy's, all others as they are in the
graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tessella.support.errors import ShapeError

Converter = Callable[..., Any]
_C = TypeVar("_C", bound=Converter)

DEFAULT = "default"
"""The name of the overload of an op that has no other name."""


@dataclass(frozen=True)
class AtenRow:
    """The row of an overload."""

    name: str
    """The overload with its namespace, such as ``aten.add.Tensor``."""
    convert: Converter
    note: str
    """The restrictions of the converter, for the documentation."""


_ROWS: dict[str, AtenRow] = {}


def full_name(name: str) -> str:
    """Return the name of an overload in full: ``relu`` is ``aten.relu.default``."""
    namespace, _, rest = name.partition("::") if "::" in name else ("aten", "", name)
    return f"{namespace}.{rest}" if "." in rest else f"{namespace}.{rest}.{DEFAULT}"


def aten(*names: str, note: str = "") -> Callable[[_C], _C]:
    """Return a decorator that registers the converter of overloads; another namespace than `aten`
    stands before ``::``."""

    def register(function: _C) -> _C:
        for name in map(full_name, names):
            _ROWS[name] = AtenRow(name, function, note)
        return function

    return register


def rows() -> Mapping[str, AtenRow]:
    """Return all rows by name."""
    return dict(sorted(_ROWS.items()))


def find(name: str) -> AtenRow | None:
    """Return the row of an overload; None if it has none."""
    return _ROWS.get(name)


def refuse(what: str, found: object = None) -> ShapeError:
    """Return the error of an argument that a converter does not serve."""
    return ShapeError(f"{what} is not served", found=None if found is None else str(found))
