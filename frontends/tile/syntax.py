"""The syntax tree of a Tile program. Every node knows where it stands in the text."""

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
    """A function, or an operator by the name of its function: ``a + b`` is `add`."""

    function: str
    arguments: tuple[Expr, ...]
    span: Span
    at: Span
    """The function's name, or the operator."""


Expr = Literal | Name | IndexName | Apply
"""An expression on tensors and numbers, or the form of indices that a dimension is accessed by."""


@dataclass(frozen=True, eq=False)
class Input:
    """A parameter: `D[N, X]`; without dimensions it takes arrays of any shape."""

    name: Name
    dims: tuple[Name, ...] | None


@dataclass(frozen=True, eq=False)
class TensorRef:
    """The elements of a tensor that a contraction reads or writes: `D[n, x+i-1]`."""

    name: Name
    forms: tuple[Expr, ...]
    span: Span


@dataclass(frozen=True, eq=False)
class Constraint:
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
    constraints: tuple[Constraint, ...]
    default: Name | None
    label: str
    """What the attribute `pid` calls it; else the target."""

    @property
    def name(self) -> Name:
        return self.target.name


@dataclass(frozen=True, eq=False)
class Assignment:
    """`R = O > 0 ? O : 0`: element by element, or a number."""

    name: Name
    value: Expr
    label: str


@dataclass(frozen=True, eq=False)
class SequenceRef:
    """A tensor whose elements along its first dimension are taken or given one in each step:
    `XS`, or `XS backward` from the last one to the first."""

    name: Name
    backward: bool


@dataclass(frozen=True, eq=False)
class Scan:
    """`H, YS = scan step(H0; XS; W)`: a function that runs for each element of sequences, on what
    is carried from step to step, the elements, and tensors that stay. It gives the next carried
    tensors and elements of further sequences; the statement the last ones and the sequences."""

    targets: tuple[SequenceRef, ...]
    step: Function
    carried: tuple[Name, ...]
    sequences: tuple[SequenceRef, ...]
    others: tuple[Name, ...]
    at: Span
    """The function's name."""
    label: str

    @property
    def name(self) -> Name:
        return self.targets[0].name

    @property
    def operands(self) -> tuple[Name, ...]:
        """What the statement reads, in the order of the function's inputs."""
        return (*self.carried, *(each.name for each in self.sequences), *self.others)


Statement = Contraction | Assignment | Scan


@dataclass(frozen=True, eq=False)
class Function:
    """A program, or the step of a scan, which has a name."""

    inputs: tuple[Input, ...]
    outputs: tuple[Name, ...]
    statements: tuple[Statement, ...]
    name: str = ""
    steps: tuple[Function, ...] = ()
    """Of a program: the functions before it, which it and those after them may scan with."""


def postorder(expr: Expr) -> Iterator[Expr]:
    """The nodes of an expression, arguments before what is applied to them."""
    pending: list[tuple[Expr, bool]] = [(expr, False)]
    while pending:
        node, visited = pending.pop()
        if visited or not isinstance(node, Apply):
            yield node
            continue
        pending.append((node, True))
        pending += [(argument, False) for argument in reversed(node.arguments)]
