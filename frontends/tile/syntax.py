"""The syntax tree of a Tile program. Every node has its position in the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tessella.frontends.tile.source import Span


@dataclass(frozen=True, eq=False)
class Literal:
    """A number in an expression or index form."""

    value: int | float
    span: Span


@dataclass(frozen=True, eq=False)
class Name:
    """The name of a tensor or a dimension."""

    name: str
    span: Span


@dataclass(frozen=True, eq=False)
class IndexName:
    """The name of an index."""

    name: str
    span: Span


@dataclass(frozen=True, eq=False)
class Apply:
    """A call of a function, or an operator, which has the name of its function: ``a + b`` is
    `add`."""

    function: str
    arguments: tuple[Expr, ...]
    span: Span
    at: Span
    """The position of the function's name or the operator."""


Expr = Literal | Name | IndexName | Apply
"""An expression on tensors and numbers, or an index form of an access."""


@dataclass(frozen=True, eq=False)
class Input:
    """A parameter of a function, such as `D[N, X]`. Without dimensions, it accepts arrays of any
    shape."""

    name: Name
    dims: tuple[Name, ...] | None


@dataclass(frozen=True, eq=False)
class TensorRef:
    """The access of a contraction to the elements of a tensor, such as `D[n, x+i-1]`."""

    name: Name
    forms: tuple[Expr, ...]
    span: Span


@dataclass(frozen=True, eq=False)
class IndexConstraint:
    """A constraint of a contraction: ``0 <= form < bound``."""

    form: Expr
    bound: Expr
    span: Span


@dataclass(frozen=True, eq=False)
class Contraction:
    """A contraction, such as `O[n, x : N, X] = +(D[n, x+i] * K[i]), i < 3 default T`."""

    target: TensorRef
    sizes: tuple[Expr, ...] | None
    aggregation: str
    combination: str
    """The function that combines the inputs: `*`, `+` or `==`, `?` for ``A == B ? C``, or empty for
    a single input."""
    inputs: tuple[TensorRef, ...]
    constraints: tuple[IndexConstraint, ...]
    default: Name | None
    label: str
    """The name that the attribute `pid` gives the statement, otherwise the name of the target."""

    @property
    def name(self) -> Name:
        return self.target.name


@dataclass(frozen=True, eq=False)
class Assignment:
    """The assignment of an elementwise expression or a number to a name, such as `R = O > 0 ? O :
    0`."""

    name: Name
    value: Expr
    label: str


@dataclass(frozen=True, eq=False)
class SequenceRef:
    """A sequence of a scan: a tensor that is split along its first dimension, with one element for
    each iteration.

    `XS` runs forward, `XS backward` from the last element to the first.
    """

    name: Name
    backward: bool


@dataclass(frozen=True, eq=False)
class Scan:
    """A scan, such as `H, YS = scan step(H0; XS; W)`: a function that runs for each element of
    sequences.

    The function takes carried tensors, elements, and loop-invariant tensors, and returns the next
    carried tensors and elements of output sequences. The statement defines the last carried tensors
    and the output sequences.
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
    """A program, or a named function, which a scan runs."""

    inputs: tuple[Input, ...]
    outputs: tuple[Name, ...]
    statements: tuple[Statement, ...]
    name: str = ""
    steps: tuple[TileFunction, ...] = ()
    """The named functions before a program. The program, and later functions, may use them in
    scans."""


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
