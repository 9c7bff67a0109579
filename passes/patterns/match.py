"""The matcher of patterns, by backtracking."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from xdsl.ir import SSAValue
from xdsl.traits import Commutative

from tessella.dialects.nn.core import Array, NnOp
from tessella.dialects.nn.known import known_matrix, known_number
from tessella.passes.diagonals import Diagonal, diagonal
from tessella.passes.patterns.factors import Factors, factors_of, is_close, is_normal
from tessella.passes.patterns.nodes import (
    AnyValue,
    Either,
    Node,
    Number,
    Op,
    Product,
    Triangle,
    depth,
)
from tessella.runtime.weights import WeightStore
from tessella.support.sizes import Size, bounds_of


@dataclass(frozen=True)
class Found:
    """The bindings and visited ops of a partial match of a pattern. It is immutable: its methods
    return extended copies."""

    values: dict[object, SSAValue] = field(default_factory=dict[object, SSAValue])
    """The values bound to nodes, by node, and by name if the node has one."""
    numbers: dict[str, float] = field(default_factory=dict[str, float])
    sizes: dict[str, Size] = field(default_factory=dict[str, Size])
    ops: tuple[NnOp, ...] = ()
    shared: frozenset[NnOp] = frozenset()

    def bind(self, node: Node, value: SSAValue) -> Found:
        """Bind a node to a value."""
        values = self.values | {node: value}
        if name := getattr(node, "name", ""):
            values[name] = value
        return replace(self, values=values)

    def count(self, name: str, number: float) -> Found | None:
        """Bind a name of the pattern to a number; None if it is bound to a different number."""
        if self.numbers.get(name, number) != number:
            return None
        return replace(self, numbers=self.numbers | {name: number})

    def measure(self, name: str, size: Size) -> Found | None:
        """Bind a name of the pattern to a size; None if it is bound to a different size."""
        if self.sizes.get(name, size) != size:
            return None
        return replace(self, sizes=self.sizes | {name: size})

    def take(self, *ops: NnOp, shared: bool = False) -> Found:
        """Add ops to those that the match has visited. With ``shared``, ops outside the match may
        read their results, which then stay."""
        more = self.shared.union(ops) if shared else self.shared
        return replace(self, ops=(*self.ops, *ops), shared=more)

    def consumed(self, roots: Collection[NnOp]) -> set[NnOp] | None:
        """Return the ops that a rewrite removes; None if one of them, other than the roots, has
        another user."""
        ops = set(self.ops)
        gone = {op for op in ops if op not in self.shared or _is_read_by(op, ops)}
        return gone if all(op in roots or _is_read_by(op, gone) for op in gone) else None


def _is_read_by(op: NnOp, ops: set[NnOp]) -> bool:
    """Return whether all users of an op's results are in ``ops``."""
    return all(use.operation in ops for result in op.results for use in result.uses)


def _readers(found: Found, distance: int) -> Sequence[NnOp]:
    """Return the ops that read bound values directly or through other ops, over at most
    ``distance`` ops."""
    readers: dict[NnOp, None] = {}
    values = list(dict.fromkeys(found.values.values()))
    for _ in range(distance):
        ops = [use.operation for value in values for use in value.uses]
        new = [op for op in ops if isinstance(op, NnOp) and len(op.results) == 1]
        readers |= dict.fromkeys(new)
        values = [op.results[0] for op in new]
    return list(readers)


def _diagonal(matrix: Array, below: float) -> Diagonal | None:
    """Return a matrix as a ``Diagonal`` if it has the number ``below`` up to a diagonal and another
    number beyond it; None for other matrices."""
    past = int(np.count_nonzero(matrix[0] == below)) - 1
    rows, columns = matrix.shape
    inside = np.tri(rows, columns, past, dtype=np.bool_)
    is_one = ((matrix == below) == inside).all() and ((matrix == matrix[0, -1]) != inside).all()
    return Diagonal(past, below, matrix[0, -1].item()) if is_one else None


class Matcher:
    """Matches nodes of patterns with values."""

    def __init__(self, weights: WeightStore) -> None:
        self.weights = weights

    def together(
        self, roots: Sequence[Node], ops: Sequence[NnOp], found: Found
    ) -> Iterator[tuple[Sequence[NnOp], Found]]:
        """Yield the ops whose results match several roots, with the bindings.

        ``ops`` already match the first roots. An op can match a further root only if it reads a
        bound value, directly or through other ops of the root's expression.
        """
        if len(ops) == len(roots):
            yield ops, found
            return
        root = roots[len(ops)]
        for op in _readers(found, depth(root)):
            if op not in found.ops and op.parent is ops[0].parent:
                for more in self.matches(root, op.results[0], found):
                    yield from self.together(roots, (*ops, op), more)

    def matches(self, node: Node, value: SSAValue, found: Found) -> Iterator[Found]:
        """Yield all matches of a node with a value that extend the bindings."""
        if node not in found.values:
            yield from self._unbound(node, value, found)
        elif found.values[node] is value:
            yield found

    def _unbound(self, node: Node, value: SSAValue, found: Found) -> Iterator[Found]:
        match node:
            case AnyValue():
                return iter([found.bind(node, value)] if node.where(value) else [])
            case Number():
                return self._number(node, value, found)
            case Triangle():
                return self._triangle(node, value, found)
            case Op():
                return self._op(node, value, found)
            case Product():
                return self._product(node, value, found)
            case Either():
                return self._either(node, value, found)

    def _either(self, node: Either, value: SSAValue, found: Found) -> Iterator[Found]:
        for option in node.options:
            for one in self.matches(option, value, found):
                yield one.bind(node, value)

    def _number(self, node: Number, value: SSAValue, found: Found) -> Iterator[Found]:
        number = known_number(value, self.weights)
        if number is None or not (node.value is None or is_close(number, node.value, value)):
            return
        if not node.where(number, value):
            return
        counted = found.count(node.name, float(number)) if node.name else found
        if counted is not None:
            yield counted

    def _triangle(self, node: Triangle, value: SSAValue, found: Found) -> Iterator[Found]:
        matrix = known_matrix(value, self.weights)
        known = diagonal(value, self.weights) if matrix is None else _diagonal(matrix, node.below)
        if known is None or known.below != node.below or not node.above(known.above, value):
            return
        if bounds_of(known.past)[0] >= 0:
            measured = found.measure(node.name, known.past)
            yield from () if measured is None else (measured.bind(node, value),)

    def _op(self, node: Op, value: SSAValue, found: Found) -> Iterator[Found]:
        op = value.owner
        if (
            not isinstance(op, node.kinds)
            or op.is_fixed
            or (len(op.results), len(op.operands)) != (1, len(node.operands))
            or not node.where(op)
        ):
            return
        taken = found.bind(node, value).take(op, shared=node.shared)
        yield from self._all(node.operands, op.operands, taken)
        if len(op.operands) == 2 and op.has_trait(Commutative):
            yield from self._all(node.operands, op.operands[::-1], taken)

    def _all(
        self, nodes: Sequence[Node], values: Sequence[SSAValue], found: Found
    ) -> Iterator[Found]:
        """Yield the matches of nodes with values, in order."""
        if not nodes:
            yield found
            return
        for partial in self.matches(nodes[0], values[0], found):
            yield from self._all(nodes[1:], values[1:], partial)

    def _product(self, node: Product, value: SSAValue, found: Found) -> Iterator[Found]:
        factors = factors_of(value, len(node.factors), len(node.over), self.weights)
        scaled = None if factors is None else self._scaled(node, value, factors, found)
        if factors is None or scaled is None:
            return
        taken = scaled.bind(node, value).take(*factors.ops)
        for partial in self._any_order(node.factors, factors.factors, taken):
            yield from self._any_order(node.over, factors.over, partial)

    def _scaled(
        self, node: Product, value: SSAValue, factors: Factors, found: Found
    ) -> Found | None:
        if isinstance(node.scale, str):
            known = factors.scale == 1 or is_normal(factors.scale, value)
            return found.count(node.scale, factors.scale) if known else None
        return found if is_close(factors.scale, node.scale, value) else None

    def _any_order(
        self, nodes: Sequence[Node], values: Sequence[SSAValue], found: Found
    ) -> Iterator[Found]:
        """Yield the matches of nodes with values, in any order."""
        if not nodes:
            yield found
            return
        for i, value in enumerate(values):
            for partial in self.matches(nodes[0], value, found):
                yield from self._any_order(nodes[1:], [*values[:i], *values[i + 1 :]], partial)
