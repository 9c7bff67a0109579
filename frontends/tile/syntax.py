"""The syntax tree of a Tile program. Every node has its position in the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tessella.frontends.tile.source import Span


@dataclass(frozen=True, eq=False)
class Literal:
    """A number."""

    value: int | float
    span: Span


@dataclass(frozen=True, eq=False)
class Name:
    """A tensor or a dimension."""

    name: str
    span: Span


@dataclass(frozen=True, eq=False)
class IndexName:
    """An index."""

    name: str
    span: Span


@dataclass(frozen=True, eq=False)
class Apply:
    """A function, or an operator by its function's name: ``a + b`` is `add`."""

    function: str
    arguments: tuple[Expr, ...]
    span: Span
    at: Span
    """The position of the function's name or the operator."""


Expr = Literal | Name | IndexName | Apply
"""An expression on tensors and numbers, or the form of indices of an access."""


@dataclass(frozen=True, eq=False)
class Input:
    """A parameter: `D[N, X]`; without dimensions, it accepts arrays of any shape."""

    name: Name
    dims: tuple[Name, ...] | None


@dataclass(frozen=True, eq=False)
class TensorRef:
    """The elements of a tensor that a contraction accesses: `D[n, x+i-1]`."""

    name: Name
    forms: tuple[Expr, ...]
    span: Span


@dataclass(frozen=True, eq=False)
class IndexConstraint:
    """``0 <= form < bound``."""

    form: Expr
    bound: Expr
    span: Span


@dataclass(frozen=True, eq=False)
class Contraction:
    """`O[n, x : N, X] = +(D[n, x+i] * K[i]), i < 3 default T`."""

    target: TensorRef
    sizes: tuple[Expr, ...] | None
    aggregation: str
    combination: str
    """One of `* + ==`, `?` for ``A == B ? C``, or empty for a single input."""
    inputs: tuple[TensorRef, ...]
    constraints: tuple[IndexConstraint, ...]
    default: Name | None
    label: str
    """The name in the attribute `pid`, otherwise the target."""

    @property
    def name(self) -> Name:
        return self.target.name


@dataclass(frozen=True, eq=False)
class Assignment:
    """`R = O > 0 ? O : 0`: an elementwise assignment, or a number."""

    name: Name
    value: Expr
    label: str


@dataclass(frozen=True, eq=False)
class SequenceRef:
    """A tensor that is split along its first dimension: one element for each iteration.

    `XS` runs forward, `XS backward` from the last element to the first.
    """

    name: Name
    backward: bool


@dataclass(frozen=True, eq=False)
class Scan:
    """`H, YS = scan step(H0; XS; W)`: a function that runs for each element of sequences.

    It takes carried tensors, elements, and loop-invariant tensors, and returns the next carried
    tensors and elements of further sequences. The statement defines the last carried tensors and
    the sequences.
    """

    targets: tuple[SequenceRef, ...]
    step: TileFunction
    carried: tuple[Name, ...]
    sequences: tuple[SequenceRef, ...]
    others: tuple[Name, ...]
    at: Span
    """The position of the function's name."""
    label: str

    @property
    def name(self) -> Name:
        return self.targets[0].name

    @property
    def operands(self) -> tuple[Name, ...]:
        """The operands of the statement, in the function's input order."""
        return (*self.carried, *(each.name for each in self.sequences), *self.others)


Statement = Contraction | Assignment | Scan


@dataclass(frozen=True, eq=False)
class TileFunction:
    """A program, or the named step of a scan."""

    inputs: tuple[Input, ...]
    outputs: tuple[Name, ...]
    statements: tuple[Statement, ...]
    name: str = ""
    steps: tuple[TileFunction, ...] = ()
    """The functions before a program, which it and later ones may scan with."""


def postorder(expr: Expr) -> Iterator[Expr]:
    """Yield the nodes of an expression, arguments before their functions."""
    pending: list[tuple[Expr, bool]] = [(expr, False)]
    while pending:
        node, visited = pending.pop()
        if visited or not isinstance(node, Apply):
            yield node
            continue
        pending.append((node, True))
        pending += [(argument, False) for argument in reversed(node.arguments)]
