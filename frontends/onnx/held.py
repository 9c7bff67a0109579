"""Values of a model that are not tensors: sequences and optionals."""

from __future__ import annotations

from dataclasses import dataclass

from tessella.frontends.emitter import Value


class Held:
    """A value that is not a tensor."""


@dataclass(frozen=True, eq=False)
class Listed(Held):
    """A sequence of known length."""

    items: tuple[Value, ...]


class Missing(Held):
    """An optional without an element."""


class Handed(Held):
    """A sequence or an optional that is known only at run time: it passes between steps."""


Known = Value | Held
"""The value that a name in a model stands for."""
