"""Evaluation at compile time of values that depend only on constants, within a limit."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import cast

from xdsl.ir import Operation, SSAValue
from xdsl.traits import Pure

from tessella.dialects.elements import element_of
from tessella.dialects.nn.constants import (
    ConstantOp,
    SplatOp,
    WeightOp,
    splat_array,
    weight_array,
)
from tessella.dialects.nn.core import Array, NnOp
from tessella.dialects.nn.evaluate_sizes import evaluate_sizes, holds_sizes, sizes_array
from tessella.dialects.nn.host_work import WIDE, elements
from tessella.dialects.nn.symbolic import SizesOp
from tessella.dialects.nn.traits import MovesElements
from tessella.runtime.weights import WeightStore
from tessella.support.conditions import decided
from tessella.support.errors import ExecutionError
from tessella.support.sizes import Size, total

DEFAULT_LIMIT = 64 << 20
"""The default limit on the bytes that one evaluation at compile time may allocate."""

_KEPT = 1 << 16  # bytes: larger arrays are recomputed on each request


def constant_value(
    value: SSAValue, weights: WeightStore, limit: int = DEFAULT_LIMIT
) -> Array | None:
    """Return the array of a value that depends only on constants. None if the value depends on
    anything else, or if its evaluation needs more than ``limit`` bytes.

    Callers must not modify the array. To evaluate many values of one graph, create a ``Constants``.
    """
    return Constants(weights, limit).value(value)


class Constants:
    """A cache of the constant values of one graph.

    Each request may allocate about ``limit`` bytes. Cached values stay valid if ops are only
    replaced by equivalent ops. With ``sizes``, results of `nn.sizes` count as constants too; their
    arrays may contain expressions.
    """

    def __init__(
        self, weights: WeightStore, limit: int = DEFAULT_LIMIT, *, sizes: bool = False
    ) -> None:
        self._weights = weights
        self._limit = limit
        self._sizes = sizes
        self._constant: dict[Operation, bool] = {}
        self._arrays: dict[Operation, Sequence[Array]] = {}

    def value(self, value: SSAValue) -> Array | None:
        """Return the array of a value, which callers must not modify; None if the value is not
        constant or too large."""
        op = value.owner
        if not isinstance(op, NnOp) or not self._is_constant(op):
            return None
        if isinstance(op, SplatOp) and decided(_bytes(value) > self._limit):
            return None
        arrays = self._evaluate(op)
        return None if arrays is None else arrays[op.results.index(value)]

    def _is_constant(self, root: NnOp) -> bool:
        for op in _dependencies(root, self._constant):
            # if an operand's owner is not known yet, the ops form a cycle
            self._constant[op] = self._is_allowed(op) and all(
                isinstance(x.owner, Operation) and self._constant.get(x.owner, False)
                for x in op.operands
            )
        return self._constant[root]

    def _is_allowed(self, op: Operation) -> bool:
        """Return whether an op can be evaluated at compile time, if its operands are constant."""
        if isinstance(op, WeightOp):
            return op.symbol.root_reference.data in self._weights
        if isinstance(op, SizesOp) and self._sizes:
            return True
        if not isinstance(op, NnOp) or op.symbols:
            return False
        return op.has_trait(Pure) and decided(evaluation_bytes(op) <= self._limit)

    def _evaluate(self, root: NnOp) -> Sequence[Array] | None:
        """Return the arrays of the results of a constant op. None if the evaluation exceeds the
        limit, or if an op fails."""
        todo = cast(list[NnOp], _dependencies(root, self._arrays))
        if decided(total(map(evaluation_bytes, todo)) > self._limit):
            return None
        arrays: dict[Operation, Sequence[Array]] = {}
        for op in todo:
            operands = [_result(x, arrays, self._arrays) for x in op.operands]
            try:
                arrays[op] = self._run(op, operands)
            except (ExecutionError, MemoryError):
                # the program raises the error at run time
                self._constant[op] = self._constant[root] = False
                return None
            if isinstance(op, ConstantOp) or sum(x.nbytes for x in arrays[op]) <= _KEPT:
                self._arrays[op] = arrays[op]
        return arrays[root] if root in arrays else self._arrays[root]

    def _run(self, op: NnOp, operands: Sequence[Array]) -> Sequence[Array]:
        if isinstance(op, WeightOp):
            return [weight_array(op, self._weights)]
        if isinstance(op, SplatOp):
            return [splat_array(op)]
        if isinstance(op, SizesOp):
            return [sizes_array(op)]
        if any(map(holds_sizes, operands)):
            return evaluate_sizes(op, operands)
        return op.evaluate(*operands)


def _result(value: SSAValue, *tables: dict[Operation, Sequence[Array]]) -> Array:
    op = cast(Operation, value.owner)
    table = next(table for table in tables if op in table)
    return table[op][op.results.index(value)]


def _dependencies(root: Operation, done: Container[Operation]) -> list[Operation]:
    """Return ``root`` and the ops that it depends on, without the ops in ``done``. Operands come
    before the ops that use them.

    The walk is iterative, as graphs can be deeper than Python's stack.
    """
    order: list[Operation] = []
    entered: set[Operation] = set()
    stack = [(root, False)]
    while stack:
        op, is_left = stack.pop()
        if is_left:
            order.append(op)
        elif op not in entered and op not in done:
            entered.add(op)
            stack.append((op, True))
            owners = (x.owner for x in reversed(op.operands))
            stack += [(owner, False) for owner in owners if isinstance(owner, Operation)]
    return order


def _bytes(value: SSAValue) -> Size:
    return element_of(value.type).bytes(elements(value))


def evaluation_bytes(op: NnOp) -> Size:
    """Return an upper bound on the bytes that evaluating an op allocates, plus a weight for
    multiplications."""
    if isinstance(op, ConstantOp):
        return 0
    moves = op.get_trait(MovesElements)
    size = _computed(op) if moves is None else _moved(op, moves)
    return size + op.host_bytes


def _computed(op: NnOp) -> Size:
    return total(map(elements, (*op.operands, *op.results))) * WIDE


def _moved(op: NnOp, moves: MovesElements) -> Size:
    # splats take no memory until they are read
    read = (x for x in op.operands if isinstance(x.owner, SplatOp))
    indices = total(elements(op.operands[i]) for i in moves.indices)
    return total(map(_bytes, (*read, *op.results))) + WIDE * indices
