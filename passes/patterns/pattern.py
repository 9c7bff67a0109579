"""A pattern with its rewrite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from xdsl.ir import SSAValue

from tessella.dialects.nn.constants import SplatOp
from tessella.dialects.nn.core import NnOp, PyValue, Tensor, shape_of, tensor, tensor_type
from tessella.dialects.nn.movement import ReshapeOp
from tessella.passes.patterns.match import Found
from tessella.passes.patterns.nodes import Node
from tessella.support.sizes import Size

AnyOp = TypeVar("AnyOp", bound=NnOp)


@dataclass
class Match:
    """A match of a pattern, and the ops that will replace it."""

    root: NnOp
    found: Found
    node: str | None
    """The name of the source node that new ops get."""
    made: list[NnOp] = field(default_factory=list[NnOp])

    def __getitem__(self, name: str) -> SSAValue:
        """Return the value with a name."""
        return self.found.values[name]

    def get(self, name: str) -> SSAValue | None:
        """Return the value with a name; None if an optional part is missing."""
        return self.found.values.get(name)

    def op(self, name: str) -> Any:
        """Return the op that produces the value with a name."""
        return self.found.values[name].owner

    def number(self, name: str, default: float | None = None) -> float:
        """Return the number with a name."""
        numbers = self.found.numbers
        return numbers[name] if default is None else numbers.get(name, default)

    def size(self, name: str) -> Size | None:
        """Return the size with a name; None if an optional part is missing."""
        return self.found.sizes.get(name)

    def make(
        self, kind: type[AnyOp], *operands: SSAValue | None, **properties: PyValue | None
    ) -> AnyOp:
        """Create an op before the root. Operands that are None are omitted."""
        given = [x for x in operands if x is not None]
        new = kind.make(given, node=self.node, **properties)
        self.made.append(new)
        return new

    def splat(self, number: float, shape: Sequence[Size], like: SSAValue) -> SSAValue:
        """Return a splat of a value's element type."""
        new = SplatOp(number, tensor(tensor_type(like).element_type, shape))
        self.made.append(new)
        return new.res

    def reshaped(self, value: SSAValue, shape: Sequence[Size]) -> SSAValue:
        """Return the value, reshaped if it has another shape."""
        if shape_of(value) == tuple(shape):
            return value
        return self.make(ReshapeOp, value, shape=tuple(shape)).res

    @property
    def is_reread(self) -> bool:
        """True if a new op reads the result that the match replaces."""
        return any(use.operation in self.made for use in self.root.results[0].uses)

    @property
    def type(self) -> Tensor:
        """The type of the result that the match replaces."""
        return tensor_type(self.root.results[0])

    @property
    def shape(self) -> tuple[Size, ...]:
        """The shape of the result that the match replaces."""
        return shape_of(self.type)


Rewrite = Callable[[Match], NnOp | None]
"""A function that creates the ops that replace a match, and returns the last one; None to reject
the match.

A match is also rejected if the last result's type differs from the root's, and if new ops read a
value that the match consumes.
"""


@dataclass(frozen=True)
class Pattern:
    """A pattern: the ops of each match of ``root`` are replaced by the result of ``rewrite``."""

    name: str
    root: Node
    rewrite: Rewrite


def becomes(kind: type[NnOp], *operands: str, **properties: PyValue) -> Rewrite:
    """Return a rewrite to one op, with operands by their names in the pattern, and properties."""
    return lambda m: m.make(kind, *(m[name] for name in operands), **properties)
