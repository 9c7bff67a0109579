"""The registry of converters of ONNX ops: one function for each op and range of versions,
registered by a decorator.

    @converts("Flatten", 1, 25)
    def flatten(call: Call) -> SSAValue: ...

A version is a *since version*: the version of the op set that introduced an op's definition. A
range contains all since versions from the first to the last; the last is the newest for which the
function is known to be correct.

An op that ONNX lacks has one version, and its converter has a decorator of its own:

    @contributed("Squareplus", domain="com.acme", b=4.0)
    def squareplus(call: Call) -> Value: ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from tessella.frontends.onnx.held import Known
from tessella.frontends.onnx.model import DTYPES, Node
from tessella.frontends.onnx.tensors import element_name
from tessella.support.errors import OptionError

if TYPE_CHECKING:
    from tessella.frontends.onnx.call import Call

Results = Known | Sequence[Known | None]
Converter = Callable[["Call"], Results]
_C = TypeVar("_C", bound=Converter)


@dataclass(frozen=True)
class Rule:
    """A restriction of a converter: ``check`` returns why a node is not supported, or None, from
    its attributes and names."""

    note: str
    check: Callable[[Node], str | None]


@dataclass(frozen=True)
class VersionedConverter:
    """The registered converter of an op for the versions ``first`` to ``last``."""

    op: str
    first: int
    last: int
    convert: Converter
    rules: tuple[Rule, ...]
    note: str
    """The restrictions of the converter, for the documentation."""
    runs: str
    """How the op runs, for the documentation."""
    complex: bool
    """True if it converts nodes on complex numbers too, even if ONNX does not define them."""


_ENTRIES: dict[str, list[VersionedConverter]] = {}

DOMAIN = "com.microsoft"
"""The domain of ONNX Runtime's own ops."""


@dataclass(frozen=True)
class Contributed:
    """The registered converter of an op that ONNX Runtime or a plugin defines and ONNX lacks. The
    op has one version."""

    convert: Converter
    defaults: Mapping[str, object]
    """Default values of attributes by name."""
    reads: Sequence[int]
    """The indices of the operands whose elements the converter reads."""


_CONTRIBUTED: dict[str, Contributed] = {}
_REFUSED: dict[str, str] = {}


def contributed(
    op: str, *, domain: str = DOMAIN, reads: Sequence[int] = (), **defaults: object
) -> Callable[[_C], _C]:
    """Return a decorator that registers the converter of an op that ONNX lacks.

    ``domain`` is the domain of ONNX Runtime or of a plugin. If it is ONNX's domain, the converter
    is for models with op sets that lack the op. ``reads`` are the indices of the operands whose
    elements the converter reads, as by ``Call.static``. ``defaults`` are the attributes' default
    values.
    """
    title = f"{domain}.{op}" if domain else op

    def register(function: _C) -> _C:
        if title in _CONTRIBUTED:
            raise OptionError(
                f"the op {title} has two converters",
                expected="one converter; ops of different packages have different domains",
                found=f"{_name(_CONTRIBUTED[title].convert)} and {_name(function)}",
            )
        _CONTRIBUTED[title] = Contributed(function, defaults, reads)
        return function

    return register


def _name(function: Converter) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', '?')}"


def has_added() -> bool:
    """Return whether a converter comes from outside tessella's modules."""
    return any(
        not entry.convert.__module__.startswith("tessella.") for entry in _CONTRIBUTED.values()
    )


def refuse_contributed(reason: str, *ops: str) -> None:
    """Register the reason why ops of ONNX Runtime's domain are not supported."""
    _REFUSED.update(dict.fromkeys(ops, reason))


def find_registered(title: str) -> Contributed | None:
    """Return the registry entry for an op, named with its domain, that ONNX's op set lacks; None if
    nothing that has been imported adds the op."""
    return _CONTRIBUTED.get(title)


def contributed_ops() -> list[str]:
    """Return the supported ops that ONNX Runtime defines, without their domains."""
    return sorted((*added_ops(""), *added_ops(DOMAIN)))


def added_ops(domain: str) -> list[str]:
    """Return the names of the registered ops that ONNX lacks in one domain."""
    split = (title.rpartition(".") for title in _CONTRIBUTED)
    return sorted(op for each, _, op in split if each == domain)


def refused_ops() -> Mapping[str, str]:
    """Return the reasons why ops of ONNX Runtime's domain are not supported, by op, for ops that
    have a particular reason."""
    return dict(sorted(_REFUSED.items()))


def converts(
    op: str,
    first: int,
    last: int,
    *rules: Rule,
    note: str = "",
    runs: str = "native",
    complex: bool = False,
) -> Callable[[_C], _C]:
    """Return a decorator that registers the converter of an ONNX op for the versions ``first`` to
    ``last``.

    An op of another domain than ``ai.onnx`` is named with its domain. ``note`` and ``runs`` are for
    the documentation: restrictions, and how the op runs. ``complex`` tells that the formula of the
    converter holds for complex numbers too.
    """

    def register(function: _C) -> _C:
        told = "; ".join(filter(None, [note, *(rule.note for rule in rules)]))
        _ENTRIES.setdefault(op, []).append(
            VersionedConverter(op, first, last, function, rules, told, runs, complex)
        )
        return function

    return register


def entries() -> dict[str, list[VersionedConverter]]:
    """Return all registry entries of each op, in version order."""
    return {op: sorted(rows, key=lambda row: row.first) for op, rows in sorted(_ENTRIES.items())}


def find(op: str, version: int) -> VersionedConverter | None:
    """Return the registry entry of an op for a since version; None if it is not supported."""
    rows = (row for row in _ENTRIES.get(op, ()) if row.first <= version <= row.last)
    return next(rows, None)


def covers(op: str) -> bool:
    """Return whether any version of the op is supported."""
    return op in _ENTRIES


def refuse(reason: str, **values: object) -> Rule:
    """Return a rule that refuses a node with any of these attribute values."""

    def check(node: Node) -> str | None:
        hit = any(node.attributes.get(key) == value for key, value in values.items())
        return reason if hit else None

    return Rule(f"not {reason}", check)


def only(attribute: str, *values: object) -> Rule:
    """Return a rule that accepts only these attribute values, or an absent attribute."""
    shown = ", ".join(map(str, values))

    def check(node: Node) -> str | None:
        value = node.attributes.get(attribute, values[0])
        return None if value in values else f"{attribute}={value}; supported: {shown}"

    return Rule(f"{attribute}: {shown}", check)


def known_type(attribute: str) -> Rule:
    """Return a rule that refuses a node whose attribute names an element type that tessella does
    not have."""

    def check(node: Node) -> str | None:
        code = node.attributes.get(attribute)
        if isinstance(code, int) and element_name(code) not in DTYPES:
            return f"type {element_name(code)} is not supported"
        return None

    return Rule("to types that tessella has", check)


def no_input(index: int, name: str) -> Rule:
    """Return a rule that refuses a node with the input at an index; ``name`` is the input's name in
    messages."""

    def check(node: Node) -> str | None:
        return f"input {name} is given" if node.gives(index) else None

    return Rule(f"not input {name}", check)
