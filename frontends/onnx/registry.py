"""The table of ONNX ops: one function for each op and range of versions, registered by decorator.

    @converts("Flatten", 1, 25)
    def flatten(call: Call) -> SSAValue: ...

A version is a *since version*: the version of the op set that brought an op's definition. A range
holds all since versions from the first to the last, which is the newest that the function is known
to fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from tessella.frontends.onnx.held import Known
from tessella.frontends.onnx.model import Node

if TYPE_CHECKING:
    from tessella.frontends.onnx.call import Call

Results = Known | Sequence[Known | None]
Converter = Callable[["Call"], Results]
_C = TypeVar("_C", bound=Converter)


@dataclass(frozen=True)
class Rule:
    """A restriction: ``check`` says why a node is not supported, from its attributes and names."""

    note: str
    check: Callable[[Node], str | None]


@dataclass(frozen=True)
class Entry:
    """How an op is converted in the versions ``first`` to ``last``."""

    op: str
    first: int
    last: int
    convert: Converter
    rules: tuple[Rule, ...]
    note: str
    """Its restrictions, for the documentation."""


_ENTRIES: dict[str, list[Entry]] = {}

DOMAIN = "com.microsoft"
"""The domain of the ops that ONNX Runtime adds to ONNX's."""


@dataclass(frozen=True)
class Contributed:
    """How an op of ONNX Runtime's domain is converted, which has one version."""

    convert: Converter
    defaults: Mapping[str, object]
    """The values of attributes that are left out."""


_CONTRIBUTED: dict[str, Contributed] = {}


def contributed(op: str, **defaults: object) -> Callable[[_C], _C]:
    """Register the converter of an op of ONNX Runtime's domain."""

    def register(function: _C) -> _C:
        _CONTRIBUTED[op] = Contributed(function, defaults)
        return function

    return register


def find_contributed(node: Node) -> Contributed | None:
    """The entry of a node of ONNX Runtime's domain."""
    return _CONTRIBUTED.get(node.op) if node.domain == DOMAIN else None


def contributed_ops() -> list[str]:
    """The ops of ONNX Runtime's domain that are supported."""
    return sorted(_CONTRIBUTED)


def converts(op: str, first: int, last: int, *rules: Rule, note: str = "") -> Callable[[_C], _C]:
    """Register the converter of an op of the ONNX domain in the versions ``first`` to ``last``."""

    def register(function: _C) -> _C:
        told = "; ".join(filter(None, [note, *(rule.note for rule in rules)]))
        _ENTRIES.setdefault(op, []).append(Entry(op, first, last, function, rules, told))
        return function

    return register


def entries() -> dict[str, list[Entry]]:
    """All entries by op, in the order of versions."""
    return {op: sorted(rows, key=lambda row: row.first) for op, rows in sorted(_ENTRIES.items())}


def find(op: str, version: int) -> Entry | None:
    """The entry of an op in a since version."""
    rows = (row for row in _ENTRIES.get(op, ()) if row.first <= version <= row.last)
    return next(rows, None)


def covers(op: str) -> bool:
    """Whether any version of the op is supported."""
    return op in _ENTRIES


def refuse(reason: str, **values: object) -> Rule:
    """Not supported where an attribute has this value."""

    def check(node: Node) -> str | None:
        hit = any(node.attributes.get(key) == value for key, value in values.items())
        return reason if hit else None

    return Rule(f"not {reason}", check)


def only(attribute: str, *values: object) -> Rule:
    """Supported only where the attribute is left out or has one of these values."""
    shown = ", ".join(map(str, values))

    def check(node: Node) -> str | None:
        value = node.attributes.get(attribute, values[0])
        return None if value in values else f"{attribute}={value}; supported: {shown}"

    return Rule(f"{attribute}: {shown}", check)


def no_input(index: int, name: str) -> Rule:
    """Not supported where this input is given."""

    def check(node: Node) -> str | None:
        return f"input {name} is given" if node.gives(index) else None

    return Rule(f"not input {name}", check)
